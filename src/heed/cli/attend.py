"""``heed attend``: attention maps as an HTML page, pictures and arrays."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from heed.cli.arguments import add, add_model_options, add_search_options, load_translator, search_options, utf8_text
from heed.cli.lines import path_text, read_lines, standard_input, write_lines
from heed.errors import HeedError
from heed.files import replacing, writing

if TYPE_CHECKING:
    from heed.inference.outputs import Attended

SUMMARY = "Show the attention of models as an interactive HTML page."


def add_options(parser: argparse.ArgumentParser) -> None:
    text = "source sentences (default: the lines of standard input)"
    add(parser, "sentences", "SENTENCE", text, nargs="*", type=utf8_text)
    add_model_options(parser, several="to show several models side by side")
    text = "translation; repeat the option for each sentence (default: the model's own translations)"
    add(parser, "--tgt", "SENTENCE", text, action="append", type=utf8_text)
    add(parser, "--out", "FILE", "HTML page (default: %(default)s)", default=Path("attention.html"))
    add(parser, "--png", "DIR", "also write PNG images of each map and of all together")
    add(parser, "--npz", "FILE", "also write the maps as arrays, for numpy.load")
    add_search_options(parser)


def run(args: argparse.Namespace) -> None:
    from heed.report.attention import System, attention_page, model_names

    sentences = args.sentences or list(read_lines(standard_input(), "the input"))
    if not sentences:
        raise HeedError('No sentences are given: heed attend --model DIR "A sentence."')
    if args.tgt and len(args.tgt) != len(sentences):
        raise HeedError(f"{len(sentences)} sentences and {len(args.tgt)} --tgt are not pairs: give equally many.")
    systems, pairs_by_model = [], []
    for folder, name in zip(args.model, model_names(args.model), strict=True):
        translator = load_translator(args, folder)
        pairs = translator.attend(sentences, args.tgt, **search_options(args))
        pairs_by_model.append(pairs)
        systems.append(System(path_text(name), path_text(folder), translator.model.config.family, pairs))
    with replacing(args.out, into_devices=True) as file:
        file.write_text(attention_page(systems, given=bool(args.tgt)), encoding="utf-8")
    write_lines([str(args.out)])
    if args.png:
        for number, pairs in enumerate(pairs_by_model, start=1):
            with writing(args.png):
                _draw(args.png / f"model{number}" if len(pairs_by_model) > 1 else args.png, pairs)
    if args.npz:
        _save_arrays(args.npz, pairs_by_model)


def _draw(folder: Path, pairs: "Sequence[Attended]") -> None:
    """Write ``N.png``, all maps of sentence N, and ``N.KIND.LAYER.HEAD.png``, a single map; all counted from 1."""
    from heed.plot.attention_map import draw_map, draw_overview, save_png

    folder.mkdir(parents=True, exist_ok=True)
    for number, pair in enumerate(pairs, start=1):
        heading = [pair.source, pair.target]
        sets = pair.map_sets
        if sets:
            save_png(draw_overview(sets, heading=heading), folder / f"{number}.png")
        for maps in sets:
            for layer, heads in enumerate(maps.weights):
                for head, _ in enumerate(heads):
                    picture = draw_map(maps, layer, head, heading=heading)
                    save_png(picture, folder / f"{number}.{maps.kind}.{layer + 1}.{head + 1}.png")


def _save_arrays(path: Path, pairs_by_model: "Sequence[Sequence[Attended]]") -> None:
    """Write the arrays of sentence N, counted from 0, as ``N.…``; those of model M of several as ``modelM.N.…``."""
    from heed.inference.outputs import attention_archive

    with attention_archive(path, compress=True) as add:
        for model, pairs in enumerate(pairs_by_model, start=1):
            prefix = f"model{model}." if len(pairs_by_model) > 1 else ""
            for number, pair in enumerate(pairs):
                add(f"{prefix}{number}", pair)
