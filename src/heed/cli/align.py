"""``heed align``: word alignments from a model's cross-attention."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from heed.cli.arguments import load_translator
from heed.cli.lines import read_file, read_parallel, translator_progress, write_lines

if TYPE_CHECKING:
    from heed.evaluation.alignment import Extraction, MatchCounts


def run(args: argparse.Namespace) -> None:
    from heed.evaluation.alignment import align, format_pharaoh, match_counts, parse_pharaoh, to_gold
    from heed.evaluation.words import split_words
    from heed.inference.outputs import attention_archive, choose_extraction, word_maps

    sources, targets = read_parallel(args.src, args.tgt)
    golds = args.gold and parse_pharaoh(
        read_file(args.gold),
        [(len(split_words(src)), len(split_words(tgt))) for src, tgt in zip(sources, targets, strict=True)],
        name=str(args.gold),
        first_index=1 if args.gold_from_1 else 0,
        drop_outside=args.gold_drop_outside,
    )
    translator = load_translator(args)
    extraction: Extraction | None = None
    counts: list[MatchCounts] = []
    with ExitStack() as stack:
        stack.enter_context(translator_progress(translator, "Aligning", total=len(sources), prints_results=True))
        save_maps = args.npz and stack.enter_context(attention_archive(args.npz, compress=False))
        for number, pair in enumerate(translator.stream_attend(sources, targets)):
            extraction = extraction or choose_extraction(
                translator.alignment, pair, layer=args.layer, head=args.head, row=args.row
            )
            maps = word_maps(pair)
            line = format_pharaoh(to_gold(align(maps[extraction.index], args.symmetrize)))
            write_lines([line], needs_reader=not (args.npz or args.gold))
            if golds:
                counts.append(match_counts(align(maps, args.symmetrize), golds[number]))
            if save_maps:
                save_maps(str(number), pair)
    if counts and extraction:
        print(_format_error_rates(counts, extraction), file=sys.stderr)


def _format_error_rates(counts: "Sequence[MatchCounts]", written: "Extraction") -> str:
    """Return a table of the AER of each row, layer and head, and confidence intervals of the written and the best."""
    import numpy as np

    from heed.evaluation.alignment import MAP_ROWS, aer, best_extraction, precision, recall
    from heed.evaluation.significance import bootstrap_interval

    by_sentence = np.stack(counts)
    total = by_sentence.sum(0)
    rates = aer(total)
    heads = [f"head {head}" for head in range(1, max(2, rates.shape[2]))] + ["mean"] * (rates.shape[2] > 1)
    lines = [["row", "layer", *heads]]
    for row, layer in np.ndindex(rates.shape[:2]):
        lines.append([MAP_ROWS[row], f"{layer + 1}", *(f"{rate:.3f}" for rate in rates[row, layer])])

    def summary(extraction: "Extraction") -> str:
        low, high = bootstrap_interval(by_sentence[(slice(None), *extraction.index)], aer)
        sums = total[extraction.index]
        return (
            f"--layer {extraction.layer} --head {extraction.head or 0} --row {extraction.row}  "
            f"AER {float(aer(sums)):.3f} [{low:.3f}, {high:.3f}]  "
            f"precision {float(precision(sums)):.3f}  recall {float(recall(sums)):.3f}"
        )

    return "\n".join(
        [
            f"AER over {len(counts):,} pairs",
            *(f"{row:<6}  {layer:>5}  " + "  ".join(f"{cell:>7}" for cell in cells) for row, layer, *cells in lines),
            f"written: {summary(written)}",
            f"best:    {summary(best_extraction(rates))}  (choose on development data, not on a test set)",
        ]
    )
