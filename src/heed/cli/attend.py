"""``heed attend``: where models look, as a page to explore, as pictures, and as arrays."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.cli.common import (
    Command,
    add_batch_options,
    add_search_options,
    load_translator,
    path_text,
    read_lines,
    search_options,
    standard_input,
    text,
    write_lines,
)
from heed.errors import HeedError
from heed.files import replacing, writing

if TYPE_CHECKING:
    from heed.report.attention import Pair


def _attend_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sentences", nargs="*", type=text, metavar="SENTENCE", help="source sentences (the lines of stdin)"
    )
    parser.add_argument(
        "--model",
        required=True,
        action="append",
        type=Path,
        metavar="DIR",
        help="a run, its model folder, or a copy; several --model stand side by side",
    )
    parser.add_argument(
        "--tgt",
        action="append",
        type=text,
        metavar="SENTENCE",
        help="the translation, one --tgt a sentence (the model's own)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("attention.html"), metavar="FILE", help="the page (%(default)s)"
    )
    parser.add_argument("--png", type=Path, metavar="DIR", help="also every map as a picture, and all in one")
    parser.add_argument("--npz", type=Path, metavar="FILE", help="also all maps as arrays, for numpy.load")
    add_batch_options(parser)
    add_search_options(parser)


def _attend(args: argparse.Namespace) -> None:
    from heed.report.attention import System, render

    sentences = args.sentences or list(read_lines(standard_input(), "the input"))
    if not sentences:
        raise HeedError('There is no sentence to look at: heed attend --model DIR "A sentence."')
    if args.tgt and len(args.tgt) != len(sentences):
        raise HeedError(f"{len(sentences)} sentences and {len(args.tgt)} --tgt are not pairs: give equally many.")
    systems = []
    for folder in args.model:
        options = argparse.Namespace(**{**vars(args), "model": folder})
        translator = load_translator(options, **search_options(args))
        pairs = translator.attend(sentences, args.tgt)
        systems.append(System(path_text(folder), translator.model.config.family, pairs))
    with replacing(args.out, into_devices=True) as file:
        file.write_text(render(systems, given=bool(args.tgt)), encoding="utf-8")
    write_lines([str(args.out)])
    for number, system in enumerate(systems, start=1):
        if args.png:
            with writing(args.png):
                _draw(args.png / f"model{number}" if len(systems) > 1 else args.png, system.pairs)
    if args.npz:
        _save_arrays(args.npz, [system.pairs for system in systems])


def _draw(folder: Path, pairs: "Sequence[Pair]") -> None:
    """``N.png``, all of a sentence's maps, and ``N.KIND.L.H.png`` each of them; all counted from 1."""
    from heed.plot.attention_map import draw_map, draw_overview, map_sets, save_png

    folder.mkdir(parents=True, exist_ok=True)
    for number, pair in enumerate(pairs, start=1):
        heading = [pair.source, pair.target]
        sets = map_sets(pair)
        if sets:
            save_png(draw_overview(sets, heading=heading), folder / f"{number}.png")
        for maps in sets:
            for layer, heads in enumerate(maps.weights):
                for head, _ in enumerate(heads):
                    picture = draw_map(maps, layer, head, heading=heading)
                    save_png(picture, folder / f"{number}.{maps.kind}.{layer + 1}.{head + 1}.png")


def _save_arrays(path: Path, systems: "Sequence[Sequence[Pair]]") -> None:
    """As ``heed align`` does: N.src, N.tgt (pieces), N.cross and so on, N from 0; of several models modelM.N.src …"""
    import numpy as np

    from heed.plot.attention_map import map_sets

    arrays: dict[str, Any] = {}
    for model, pairs in enumerate(systems, start=1):
        for number, pair in enumerate(pairs):
            name = f"model{model}.{number}" if len(systems) > 1 else str(number)
            arrays |= {f"{name}.src": np.array(pair.src_pieces), f"{name}.tgt": np.array(pair.tgt_pieces)}
            arrays |= {f"{name}.{maps.kind}": maps.weights for maps in map_sets(pair)}
    with replacing(path, into_devices=True) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)


COMMAND = Command("attend", "Show where models look, as a page to explore.", _attend_options, _attend)
