"""Attention heads that are removed or patched: the results as an HTML page and as a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heed.interventions.ablation import HeadImportance
from heed.interventions.patching import PatchedHead, Patching
from heed.plot.attention_map import TITLES, piece_label
from heed.report.figures import FigureRow, Mark, dot_plot, heat_map
from heed.report.pages import render_template
from heed.runs.table import format_table


def ablation_page(scores: Mapping[str, float], heads: Sequence[HeadImportance], facts: Mapping[str, str]) -> str:
    """Return the HTML of the page on the results of `ablate`; ``facts`` say what was measured on what."""
    figures = {}
    for measure in scores:
        rows = []
        for kind, (title, _) in TITLES.items():
            own = [_row(head, measure) for head in heads if head.attention == kind]
            rows += [FigureRow(title, []), *own] if own else []
        figures[measure] = dot_plot(rows, name=f"{measure} lost", line=0.0)
    first = max(heads, key=lambda head: head.lost["BLEU"])
    useful = sum(head.lost["BLEU"][1][0] > 0 for head in heads)
    headline = (
        f"{useful} of {len(heads)} heads add to BLEU. Head {first.head + 1} of layer {first.layer + 1} "
        f"({TITLES[first.attention][0].lower()}) adds most: {first.lost['BLEU'][0]:.1f}."
    )
    return render_template("ablation.html.j2", headline=headline, scores=scores, figures=figures, facts=facts)


def ablation_table(scores: Mapping[str, float], heads: Sequence[HeadImportance]) -> str:
    """Return one line for each head, the most important first."""
    titles = [title for measure in scores for title in (f"{measure} lost", "95 % interval")]
    lines = [["attention", "layer", "head", *titles]]
    for head in sorted(heads, key=lambda head: head.lost["BLEU"], reverse=True):
        cells = [cell for measure in scores for cell in _cells(head, measure)]
        lines.append([head.attention, f"{head.layer + 1}", f"{head.head + 1}", *cells])
    return format_table(lines, "<" + ">" * (len(lines[0]) - 1))


def _row(head: HeadImportance, measure: str) -> FigureRow:
    value, interval = head.lost[measure]
    style = "side-0" if interval[0] > 0 else "component"
    mark = Mark(value, interval, style, " ".join(_cells(head, measure)))
    return FigureRow(f"layer {head.layer + 1}, head {head.head + 1}", [mark])


def _cells(head: HeadImportance, measure: str) -> list[str]:
    value, interval = head.lost[measure]
    return [_signed(value), f"[{', '.join(map(_signed, interval))}]"]


def _signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}".replace("-", "−")


def patching_page(found: Mapping[str, Patching], facts: Mapping[str, str]) -> str:
    """Return the HTML of the page on the results of `patch` by phenomenon; ``facts`` say what was measured on what."""
    parts = [{"tag": tag, "found": each, "best": _place(each.best), **_example(each)} for tag, each in found.items()]
    first = next(iter(found.values())).best
    headline = f"{_place(first)} carries {100 * first.restored:.0f}\u00a0% of the difference between the sentences."
    return render_template("patching.html.j2", headline=headline, parts=parts, facts=facts, titles=TITLES)


def patching_table(found: Mapping[str, Patching]) -> str:
    """Return one line for each phenomenon and head, the most important first."""
    lines = [["phenomenon", "attention", "layer", "head", "restored", "95 % interval", "p(other word)"]]
    for tag, patching in found.items():
        for each in sorted(patching.heads, key=lambda each: each.restored, reverse=True):
            place = ["all" if number is None else f"{number + 1}" for number in (each.layer, each.head)]
            low, high = each.interval
            effect = [f"{each.restored:.2f}", f"[{low:.2f}, {high:.2f}]", f"{each.probability.mean():.3f}"]
            lines.append([tag, each.attention, *place, *effect])
    return format_table(lines, "<<>>>>>")


def _place(best: PatchedHead) -> str:
    assert best.layer is not None
    assert best.head is not None
    return f"{TITLES[best.attention][0]}, layer {best.layer + 1}, head {best.head + 1},"


def _example(patching: Patching) -> dict[str, Any]:
    """Return the words of the example, and what the best head attends to in the sentence and in its twin."""
    kind, pieces = patching.best.attention, [pair.tgt_pieces for pair in patching.attended]
    first = next(t for t, words in enumerate(zip(*pieces, strict=False)) if words[0] != words[1])
    own, twin = (next(maps for maps in pair.map_sets if maps.kind == kind) for pair in patching.attended)
    keys = first + 1 if kind == "decoder_self" else len(own.columns)
    both = [maps.weights[patching.best.layer, patching.best.head, :, :keys] for maps in (own, twin)]
    # In the decoder, the row that predicts the word; in the encoder, the row that differs most. Targets may have
    # unequal numbers of rows.
    row = int(np.abs(both[0] - both[1]).sum(1).argmax()) if kind == "encoder_self" else first
    columns = [
        " / ".join(dict.fromkeys(map(piece_label, names))) for names in zip(own.columns, twin.columns, strict=False)
    ]
    figure = heat_map(
        ["this", "twin"],
        columns,
        np.stack([maps[row] for maps in both]),
        name="Attention in the sentence and in its twin",
    )
    return {"word": piece_label(pieces[1][first]), "figure": figure, "query": piece_label(own.rows[row])}
