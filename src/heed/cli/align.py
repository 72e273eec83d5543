"""``heed align``: the word alignments that a model's cross-attention shows."""

import argparse
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.cli.common import (
    Command,
    add_model_options,
    load_translator,
    read_file,
    see_that_lines_match,
    with_progress,
    write_lines,
)
from heed.errors import HeedError
from heed.files import replacing

if TYPE_CHECKING:
    from heed.evaluation.alignment import Extraction, MatchCounts
    from heed.inference.translator import Attended, Translator

PAIRS_AT_ONCE = 100
"""How many sentence pairs' maps are in memory at a time: some MB each where layers, heads and sentences are many."""


def _align_options(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument(
        "--src", required=True, type=Path, metavar="FILE", help="source sentences, words between spaces"
    )
    parser.add_argument("--tgt", required=True, type=Path, metavar="FILE", help="their translations, line by line")
    parser.add_argument(
        "--layer", type=int, metavar="N", help="decoder layer, from 1 (as chosen in training, or usual)"
    )
    parser.add_argument("--head", type=int, metavar="N", help="its head, from 1; 0 is the mean of its heads (likewise)")
    parser.add_argument(
        "--row",
        choices=("output", "input"),
        help="whose look aligns a target word: the state's that wrote it, or that read it next (likewise)",
    )
    parser.add_argument(
        "--symmetrize",
        default="target",
        metavar="HOW",
        help="links of every target word (target, the default), of every source word (source), or of both: "
        "intersection, union, grow-diag-final-and",
    )
    parser.add_argument(
        "--gold",
        type=Path,
        metavar="FILE",
        help="links as i-j (sure) and i?j or ipj (possible): error rates of all layers and heads go to stderr",
    )
    parser.add_argument("--gold-from-1", action="store_true", help="the gold file counts words from 1, not from 0")
    parser.add_argument(
        "--gold-drop-outside", action="store_true", help="leave out gold links to words that are not there"
    )
    parser.add_argument(
        "--npz", type=Path, metavar="FILE", help="also write all maps over pieces, as arrays for numpy.load"
    )


def _align(args: argparse.Namespace) -> None:
    from heed.evaluation.alignment import (
        SYMMETRIZATIONS,
        align,
        candidate_maps,
        format_pharaoh,
        match_counts,
        parse_pharaoh,
        to_gold,
    )
    from heed.evaluation.words import split_words

    if args.symmetrize not in SYMMETRIZATIONS:
        raise HeedError(f"--symmetrize {args.symmetrize} is unknown: choose one of {', '.join(SYMMETRIZATIONS)}.")
    sources, targets = read_file(args.src), read_file(args.tgt)
    see_that_lines_match({args.src: sources, args.tgt: targets})
    pairs = [(split_words(src), split_words(tgt)) for src, tgt in zip(sources, targets, strict=True)]
    golds = args.gold and parse_pharaoh(
        read_file(args.gold),
        [(len(src), len(tgt)) for src, tgt in pairs],
        name=str(args.gold),
        first_index=1 if args.gold_from_1 else 0,
        drop_outside=args.gold_drop_outside,
    )
    translator = load_translator(args)
    extraction: Extraction | None = None
    counts: list[MatchCounts] = []
    with ExitStack() as stack:
        archive = args.npz and stack.enter_context(
            zipfile.ZipFile(stack.enter_context(replacing(args.npz, into_devices=True)), "w")
        )
        for number, seen in enumerate(with_progress(_attend(translator, sources, targets))):
            if seen.cross is None:
                raise HeedError(f"{args.model} has no cross-attention, and so no alignments to show.")
            extraction = extraction or _extraction(args, *seen.cross.shape[:2])
            maps = candidate_maps(seen.cross, seen.src_pieces, seen.tgt_pieces, *pairs[number])
            write_lines([format_pharaoh(to_gold(align(maps[extraction.index], args.symmetrize)))])
            if golds:
                counts.append(match_counts(align(maps, args.symmetrize), golds[number]))
            if archive:
                _write_maps(archive, number, seen)
    if counts and extraction:
        print(_table(counts, extraction), file=sys.stderr)


def _attend(translator: "Translator", sources: Sequence[str], targets: Sequence[str]) -> "Iterator[Attended]":
    for start in range(0, len(sources), PAIRS_AT_ONCE):
        stop = start + PAIRS_AT_ONCE
        yield from translator.attend(sources[start:stop], targets[start:stop], first_line=1 + start)


def _extraction(args: argparse.Namespace, layers: int, heads: int) -> "Extraction":
    """What the options say; else what the model folder says its run chose; else the usual."""
    from heed.evaluation.alignment import extraction_from_config
    from heed.files import read_yaml
    from heed.inference.model_folder import CONFIG, find

    saved = read_yaml(find(args.model) / CONFIG).get("alignment")
    chosen = extraction_from_config(saved, layers=layers, heads=heads)
    # A head means something in its own layer only.
    if args.layer is not None and args.layer != chosen.layer:
        chosen = replace(chosen, layer=args.layer, head=None)
    if args.head is not None:
        chosen = replace(chosen, head=args.head or None)
    if args.row is not None:
        chosen = replace(chosen, row=args.row)
    if not (1 <= chosen.layer <= layers and 1 <= (chosen.head or 1) <= heads):
        raise HeedError(
            f"--layer {chosen.layer} --head {chosen.head or 0}: this model's decoder has layers 1 to {layers} with "
            f"heads 1 to {heads}."
        )
    return chosen


def _table(counts: "Sequence[MatchCounts]", written: "Extraction") -> str:
    """AER of every row, layer and head; the best of them and the one written, with their intervals."""
    import numpy as np

    from heed.evaluation.alignment import ROWS, aer, aer_interval, best_extraction, precision, recall

    by_sentence = np.stack(counts)
    total = by_sentence.sum(0)
    rates = aer(total)
    heads = rates.shape[2]
    names = [f"head {head}" for head in range(1, heads + 1)]
    if heads > 1:
        names[-1] = "mean"
    lines = [f"AER over {len(counts):,} pairs", "row     layer  " + "  ".join(f"{name:>7}" for name in names)]
    for row, name in enumerate(ROWS):
        for layer, values in enumerate(rates[row], start=1):
            lines.append(f"{name:<6}  {layer:>5}  " + "  ".join(f"{value:>7.3f}" for value in values))

    def figures(extraction: "Extraction") -> str:
        low, high = aer_interval(by_sentence[(slice(None), *extraction.index)])
        here = total[extraction.index]
        return (
            f"--layer {extraction.layer} --head {extraction.head or 0} --row {extraction.row}  "
            f"AER {float(aer(here)):.3f} [{low:.3f}, {high:.3f}]  "
            f"precision {float(precision(here)):.3f}  recall {float(recall(here)):.3f}"
        )

    lines.append(f"written: {figures(written)}")
    lines.append(
        f"best:    {figures(best_extraction(rates))}  (a choice to make on development data, not on a test set)"
    )
    return "\n".join(lines)


def _write_maps(archive: zipfile.ZipFile, number: int, seen: "Attended") -> None:
    """What ``numpy.savez`` would write, one sentence pair at a time: N.src, N.tgt (pieces), N.cross and so on."""
    import numpy as np

    arrays: dict[str, Any] = {
        "src": np.array(seen.src_pieces),
        "tgt": np.array(seen.tgt_pieces),
        "cross": seen.cross,
        "encoder_self": seen.encoder_self,
        "decoder_self": seen.decoder_self,
    }
    for name, array in arrays.items():
        if array is not None:
            with archive.open(f"{number}.{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)


COMMAND = Command("align", "Align the words of sentence pairs by a model's cross-attention.", _align_options, _align)
