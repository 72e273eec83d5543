"""``heed attend``: attention maps as an HTML page, pictures and arrays."""

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from heed.cli.arguments import load_translator, search_options
from heed.cli.lines import path_text, read_lines, standard_input, write_lines
from heed.errors import HeedError, argument
from heed.files import write_file, writing

if TYPE_CHECKING:
    from heed.inference.outputs import Attended
    from heed.inference.translator import Translator

PICTURES = ("png", "svg", "pdf")


def run(args: argparse.Namespace) -> None:
    from heed.inference import model_folder
    from heed.inference.outputs import attention_archive
    from heed.report.attention import System, attention_page, draw_pictures, model_names

    args.model, args.sentences = _models_and_sentences(args.model or [], args.sentences)
    for folder in args.model:  # a wrong one is reported before standard input is awaited
        model_folder.find(folder)
    sentences = args.sentences or list(read_lines(standard_input(), "the input"))
    if paths := [each for each in args.sentences if "/" in each and os.path.exists(each)]:  # noqa: PTH110 - a sentence can be too long for Path.exists
        raise HeedError(f"{paths[0]} is a file or folder and not a sentence: write models before sentences.")
    only = _parse_map(args.only) if args.only else None
    if only and not any(getattr(args, suffix) for suffix in PICTURES):
        raise HeedError("--only chooses the map of a picture: add --png DIR, --svg DIR or --pdf DIR.")
    if not sentences:
        raise HeedError('No sentences are given: heed attend RUN "A sentence."')
    if args.tgt and len(args.tgt) != len(sentences):
        raise HeedError(f"{len(sentences)} sentences and {len(args.tgt)} --tgt are not pairs: give equally many.")
    systems = []
    for folder, name in zip(args.model, model_names(args.model), strict=True):
        translator = load_translator(args, folder)
        family = translator.model.config.family
        for ending, pairs in _attend(args, translator, sentences).items():
            # The words of an instruction are those of the first translation.
            command = [] if ending else ["heed", "attend", "--model", path_text(folder), *_given_options(args)]
            translator.max_tokens = None  # the sentences have been accepted, and translations may be longer
            words = [] if ending else translator.score_words(sentences, [pair.target for pair in pairs])
            systems.append(System(path_text(f"{name}{ending}"), path_text(folder), family, pairs, command, words))
    if only:
        for system in systems:
            _check_map(system.pairs[0], only)
    write_file(args.out, attention_page(systems, given=bool(args.tgt)), into_devices=True)
    # Of several models, model M has pictures in the folder modelM, and its arrays are modelM.….
    pairs_by_model = {f"model{n}" * (len(systems) > 1): system.pairs for n, system in enumerate(systems, start=1)}
    for suffix in PICTURES:
        if folder := getattr(args, suffix):
            for model, of in pairs_by_model.items():
                with writing(folder):
                    draw_pictures(folder / model, suffix, of, only)
    if args.npz:
        with attention_archive(args.npz, compress=True) as add_arrays:
            for model, of in pairs_by_model.items():
                for number, pair in enumerate(of):
                    add_arrays(f"{model}.{number}".removeprefix("."), pair)
    translations = [f"{system.name}: {pair.target}" for system in systems for pair in system.pairs]
    write_lines([str(args.out), *(translations if args.force else ())])


def _models_and_sentences(models: list[Path], words: list[str]) -> tuple[list[Path], list[str]]:
    """Return all models and the sentences. The first word is a model unless --model gives one; so are more folders."""
    count = 0 if models else min(1, len(words))
    while words[count:] and "/" in words[count] and os.path.isdir(words[count]):  # noqa: PTH112 - a sentence can be too long for Path.is_dir
        count += 1
    if not (models or words):
        raise HeedError('No model is given: heed attend RUN "A sentence."')
    return [*map(Path, words[:count]), *models], words[count:]


def _attend(args: argparse.Namespace, translator: "Translator", sentences: list[str]) -> "dict[str, list[Attended]]":
    """Return the attention maps of all sentences by the end of the model's name: ``, forced`` are those of --force."""
    if not args.force:
        return {"": translator.attend(sentences, args.tgt, **search_options(args))}
    from heed.interventions import force

    pairs = zip(sentences, args.tgt or [None] * len(sentences), strict=True)
    found = [force(translator, src, args.force, target=tgt, **search_options(args)) for src, tgt in pairs]
    return {"": [before for before, _ in found], ", forced": [after for _, after in found]}


def _given_options(args: argparse.Namespace) -> list[str]:
    """Return the given options on which translations depend, as words of a command."""
    given = {"direction": args.direction, "tag": args.tag, **search_options(args)}
    options = (argument(name, value) for name, value in given.items() if value is not None and value is not False)
    return [word for option in options for word in option.split()]


def _parse_map(text: str) -> tuple[str, int, int]:
    """Return the kind, layer and head, from 0, of ``--only``."""
    found = re.fullmatch(r"(?:(cross|encoder|decoder) )?layer (\d+) head (\d+)", text.strip())
    if not found:
        raise HeedError(f"--only {text!r} must be like 'layer 3 head 4' or 'encoder layer 1 head 2'.")
    kind = found[1] or "cross"
    return kind if kind == "cross" else f"{kind}_self", int(found[2]) - 1, int(found[3]) - 1


def _check_map(pair: "Attended", only: tuple[str, int, int]) -> None:
    """Raise a HeedError if the model of a pair does not have this map."""
    kind, layer, head = only
    sizes = {maps.kind: maps.weights.shape[:2] for maps in pair.map_sets}
    layers, heads = sizes.get(kind, (0, 0))
    if not (0 <= layer < layers and 0 <= head < heads):
        raise HeedError(
            f"--only: there is no layer {layer + 1} head {head + 1}: the model's {kind} attention has "
            f"{layers} × {heads} maps (layers × heads)."
        )
