"""``heed align``: word alignments from a model's cross-attention."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heed.cli.arguments import Command, add_model_options, build_translator, load_models
from heed.cli.lines import check_line_counts, read_file, translator_progress, write_lines
from heed.errors import HeedError

if TYPE_CHECKING:
    from heed.evaluation.alignment import Extraction, MatchCounts
    from heed.inference.translator import Attended, Translator

PAIRS_AT_ONCE = 100
"""Sentence pairs whose attention maps are in memory at a time: the maps of one pair can take several MB."""


def _add_options(parser: argparse.ArgumentParser) -> None:
    add_model_options(parser)
    parser.add_argument(
        "--src", required=True, type=Path, metavar="FILE", help="source sentences, words separated by spaces"
    )
    parser.add_argument("--tgt", required=True, type=Path, metavar="FILE", help="their translations, one per line")
    parser.add_argument(
        "--layer",
        type=int,
        metavar="N",
        help="decoder layer, from 1 (default: the one chosen in training, otherwise the last but one)",
    )
    parser.add_argument(
        "--head",
        type=int,
        metavar="N",
        help="attention head of the layer, from 1; 0 is the mean of all (default: the one chosen in training, "
        "otherwise 0)",
    )
    parser.add_argument(
        "--row",
        choices=("output", "input"),
        help="attention of the decoder state that has a target word as its output, or as its input (default: the one "
        "chosen in training, otherwise output)",
    )
    parser.add_argument(
        "--symmetrize",
        default="target",
        metavar="HOW",
        help="align each target word (target), each source word (source), or combine both: intersection, union, "
        "grow-diag-final-and (default: %(default)s)",
    )
    parser.add_argument(
        "--gold",
        type=Path,
        metavar="FILE",
        help="gold alignments, sure links as i-j, possible ones as i?j or ipj; prints the alignment error rates of all "
        "layers and heads to stderr",
    )
    parser.add_argument("--gold-from-1", action="store_true", help="words in the gold file are counted from 1, not 0")
    parser.add_argument(
        "--gold-drop-outside", action="store_true", help="ignore gold links to words beyond the end of a sentence"
    )
    parser.add_argument(
        "--npz", type=Path, metavar="FILE", help="also write the attention maps over subwords, for numpy.load"
    )


def _run(args: argparse.Namespace) -> None:
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
    from heed.inference.attention_archive import attention_archive

    if args.symmetrize not in SYMMETRIZATIONS:
        raise HeedError(f"--symmetrize {args.symmetrize} is unknown: choose one of {', '.join(SYMMETRIZATIONS)}.")
    sources, targets = read_file(args.src), read_file(args.tgt)
    check_line_counts({args.src: sources, args.tgt: targets})
    words = [(split_words(src), split_words(tgt)) for src, tgt in zip(sources, targets, strict=True)]
    golds = args.gold and parse_pharaoh(
        read_file(args.gold),
        [(len(src), len(tgt)) for src, tgt in words],
        name=str(args.gold),
        first_index=1 if args.gold_from_1 else 0,
        drop_outside=args.gold_drop_outside,
    )
    folder = load_models(args)
    translator = build_translator(folder, args)
    extraction: Extraction | None = None
    counts: list[MatchCounts] = []
    with ExitStack() as stack:
        stack.enter_context(translator_progress(translator, "Aligning", total=len(sources), prints_results=True))
        save_maps = args.npz and stack.enter_context(attention_archive(args.npz, compress=False))
        for number, pair in enumerate(_attend(translator, sources, targets)):
            if pair.cross is None:
                raise HeedError(f"{args.model} has no cross-attention, so it gives no alignments.")
            extraction = extraction or _choose_extraction(args, folder.config, *pair.cross.shape[:2])
            maps = candidate_maps(pair.cross, pair.src_pieces, pair.tgt_pieces, *words[number])
            write_lines([format_pharaoh(to_gold(align(maps[extraction.index], args.symmetrize)))])
            if golds:
                counts.append(match_counts(align(maps, args.symmetrize), golds[number]))
            if save_maps:
                save_maps(str(number), pair)
    if counts and extraction:
        print(_format_error_rates(counts, extraction), file=sys.stderr)


def _attend(translator: "Translator", sources: Sequence[str], targets: Sequence[str]) -> "Iterator[Attended]":
    for start in range(0, len(sources), PAIRS_AT_ONCE):
        stop = start + PAIRS_AT_ONCE
        yield from translator.attend(sources[start:stop], targets[start:stop], first_line=1 + start)


def _choose_extraction(args: argparse.Namespace, config: Mapping[str, Any], layers: int, heads: int) -> "Extraction":
    """Return the attention map to read alignments from: that of the model folder's config, changed by the options."""
    from heed.evaluation.alignment import extraction_from_config

    chosen = extraction_from_config(config.get("alignment"), layers=layers, heads=heads)
    if args.layer is not None and args.layer != chosen.layer:
        chosen = replace(chosen, layer=args.layer, head=None)  # the saved head belongs to the saved layer
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


def _format_error_rates(counts: "Sequence[MatchCounts]", written: "Extraction") -> str:
    """Return a table of the AER of each row, layer and head, and confidence intervals of the written and the best."""
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

    def summary(extraction: "Extraction") -> str:
        low, high = aer_interval(by_sentence[(slice(None), *extraction.index)])
        sums = total[extraction.index]
        return (
            f"--layer {extraction.layer} --head {extraction.head or 0} --row {extraction.row}  "
            f"AER {float(aer(sums)):.3f} [{low:.3f}, {high:.3f}]  "
            f"precision {float(precision(sums)):.3f}  recall {float(recall(sums)):.3f}"
        )

    lines.append(f"written: {summary(written)}")
    lines.append(f"best:    {summary(best_extraction(rates))}  (choose on development data, not on a test set)")
    return "\n".join(lines)


COMMAND = Command("align", "Align the words of sentence pairs by a model's cross-attention.", _add_options, _run)
