"""Word alignment from cross-attention, and its error rate.

Arrays over a sentence pair are "… T S": target words, source words. Links are (source, target) positions from 0.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from heed.errors import HeedError, argument
from heed.evaluation.significance import Floats
from heed.evaluation.words import AttentionMap, WordShares, divide, pool, word_shares

Alignment = npt.NDArray[np.bool_]  # True where two words are linked, "… T S"
Link = tuple[int, int]


# ---- choosing an attention map

MAP_ROWS: tuple[Literal["output"], Literal["input"]] = ("output", "input")
"""The values of `Extraction.row`, in the order of `candidate_maps`."""


@dataclass(frozen=True)
class Extraction:
    """The cross-attention map of a model that gives its alignment. Choose it on validation data, never on test data."""

    layer: int  # of the decoder, counted from 1
    head: int | None  # counted from 1; None: the mean over the layer's heads
    row: Literal["output", "input"]
    """The decoder state that aligns a target word: "output", the state that predicts it, or "input", the next state,
    which reads it (Chen et al. 2020, "Accurate Word Alignment Induction", Shift-Att)."""

    @property
    def index(self) -> tuple[int, int, int]:
        """Index into the first three axes of `candidate_maps`."""
        return MAP_ROWS.index(self.row), self.layer - 1, -1 if self.head is None else self.head - 1

    def __str__(self) -> str:
        head = "mean of the heads" if self.head is None else f"head {self.head}"
        return f"layer {self.layer}, {head}, {self.row} row"


def candidate_maps(
    cross: AttentionMap,
    src_pieces: Sequence[str],
    tgt_pieces: Sequence[str],
    src_words: Sequence[str],
    tgt_words: Sequence[str],
) -> AttentionMap:
    """Return every attention map over words that an `Extraction` can select: "2 L H T S".

    The first axis is `MAP_ROWS`. With several heads, their mean is appended as a last head.

    Args:
        cross: cross-attention over pieces, "L H T S". Row t belongs to the state that predicts piece t.
        src_pieces, tgt_pieces: pieces; the last one is EOS.
    """
    if cross.shape[1] > 1:
        cross = np.concatenate((cross, cross.mean(1, keepdims=True)), axis=1)
    # Rolling moves the first row to EOS, which no state reads and which belongs to no word.
    rows = np.stack((cross, np.roll(cross, -1, axis=-2)))
    return pool(rows, word_shares(tgt_pieces, tgt_words), word_shares(src_pieces, src_words))


def best_extraction(error_rates: npt.NDArray[np.float64]) -> Extraction:
    """Return the extraction with the lowest error rate, given the rates of all `candidate_maps`, "2 L H"."""
    row, layer, head = (int(i) for i in np.unravel_index(error_rates.argmin(), error_rates.shape))
    heads = error_rates.shape[2]
    return Extraction(layer=layer + 1, head=head + 1 if heads == 1 or head < heads - 1 else None, row=MAP_ROWS[row])


# ---- from attention to an alignment

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
"""Offsets (target, source) of the adjacent cells, in the order of Moses."""


def align_each_target(weights: AttentionMap) -> Alignment:
    """Link each target word that has pieces to the source word with the largest attention weight."""
    links = np.zeros(weights.shape, dtype=np.bool_)
    if weights.size:  # argmax fails on an empty sentence
        np.put_along_axis(links, weights.argmax(-1, keepdims=True), True, axis=-1)
    return links & (weights > 0)


def align_each_source(weights: AttentionMap) -> Alignment:
    """Link each source word to the target word with the largest attention weight."""
    return align_each_target(weights.swapaxes(-1, -2)).swapaxes(-1, -2)


def grow_diag_final_and(forward: Alignment, backward: Alignment) -> Alignment:
    """Symmetrize two alignments of one sentence pair, "T S", by the grow-diag-final-and heuristic, as Moses does.

    Start with the intersection. Add neighbours from the union that link a new word, until there are none. Then add
    links between two unlinked words from ``forward`` and then from ``backward``.

    Source: Koehn et al. 2003; Koehn et al. 2005, the Edinburgh system for IWSLT.
    """
    grown = forward & backward
    union = dict.fromkeys((int(t), int(s)) for t, s in np.argwhere(forward | backward))  # a set in order
    changed = True
    while changed:
        changed = False
        for t, s in union:
            if not grown[t, s]:
                continue
            for u, r in ((t + dt, s + ds) for dt, ds in NEIGHBOURS):
                if (u, r) in union and not (grown[u].any() and grown[:, r].any()):
                    grown[u, r] = changed = True
    for direction in (forward, backward):
        for t, s in np.argwhere(direction):
            if not (grown[t].any() or grown[:, s].any()):
                grown[t, s] = True
    return grown


SYMMETRIZATIONS: dict[str, Callable[[Alignment, Alignment], Alignment]] = {
    "target": lambda forward, _: forward,
    "source": lambda _, backward: backward,
    "intersection": lambda forward, backward: forward & backward,
    "union": lambda forward, backward: forward | backward,
    "grow-diag-final-and": np.vectorize(grow_diag_final_and, [np.bool_], signature="(t,s),(t,s)->(t,s)"),
}
"""Functions by name that combine `align_each_target` (forward) and `align_each_source` (backward)."""


def align(weights: AttentionMap, method: str) -> Alignment:
    """Return the alignment of an attention map "… T S", symmetrized by ``method``, a key of `SYMMETRIZATIONS`.

    With one model per direction, call the function in `SYMMETRIZATIONS` with `align_each_target` of the first model's
    map and `align_each_source` of the second model's map, transposed.
    """
    if method not in SYMMETRIZATIONS:
        raise HeedError(f"{argument('symmetrize', method)} is unknown: choose one of {', '.join(SYMMETRIZATIONS)}.")
    return SYMMETRIZATIONS[method](align_each_target(weights), align_each_source(weights))


# ---- gold alignments in Pharaoh format: one line per sentence pair, ``i-j`` per link


@dataclass(frozen=True)
class Gold:
    """The links (source, target) of one sentence pair in a gold alignment."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # links that count as correct, including the sure ones


def to_gold(alignment: Alignment) -> Gold:
    """Return the links of an alignment "T S", all of them sure."""
    links = frozenset((int(src), int(tgt)) for tgt, src in np.argwhere(alignment))
    return Gold(sure=links, possible=links)


def annotated_gold(meta: str) -> Gold:
    """Return the links in the annotation of a sentence pair of the built-in corpus, all of them sure."""
    links = frozenset((src, tgt) for src, tgt in json.loads(meta)["alignment"])
    return Gold(sure=links, possible=links)


def link_pieces(gold: Gold, src: WordShares, tgt: WordShares) -> Alignment:
    """Return where pieces belong to linked words, "T S". ``src`` "S I" and ``tgt`` "T J" are `word_shares`."""
    links = np.zeros((tgt.shape[1], src.shape[1]), dtype=np.bool_)
    for i, j in gold.possible:
        links[j, i] = True
    return (tgt > 0) @ links @ (src > 0).T


def parse_pharaoh(
    lines: Sequence[str], lengths: Sequence[tuple[int, int]], *, name: str, first_index: int, drop_outside: bool
) -> list[Gold]:
    """Parse alignments in Pharaoh format.

    ``i-j`` is a sure link between source word i and target word j; ``i?j`` or ``ipj`` is a possible link. The talp
    format is the same, but often counts words from 1.

    Args:
        lines: one line per sentence pair.
        lengths: (source words, target words) of each sentence pair.
        name: name of the file in error messages.
        first_index: index of the first word in the file, 0 or 1.
        drop_outside: ignore links beyond the end of a sentence instead of raising an error.

    Raises:
        HeedError: if a line is malformed or missing, or links a word that does not exist.
    """
    if len(lines) != len(lengths):
        raise HeedError(
            f"{name} has {len(lines):,} lines for {len(lengths):,} sentence pairs: give one line of links for each."
        )
    golds = []
    for number, (line, (src_length, tgt_length)) in enumerate(zip(lines, lengths, strict=True), start=1):
        sure, possible = set(), set()
        for text in line.split():
            if not (match := re.fullmatch(r"(\d{1,9})([-?p])(\d{1,9})", text)):
                raise HeedError(
                    f"Line {number} of {name}: {text!r} is not a link. Write i-j for a sure link and i?j or ipj for a "
                    "possible link between source word i and target word j."
                )
            link = int(match[1]) - first_index, int(match[3]) - first_index
            if not (0 <= link[0] < src_length and 0 <= link[1] < tgt_length):
                if drop_outside:
                    continue
                raise HeedError(
                    f"Line {number} of {name}: {text} is out of range. The source has {src_length} words and the "
                    f"target {tgt_length}, counted from {first_index}."
                )
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        golds.append(Gold(frozenset(sure), frozenset(possible)))
    return golds


def format_pharaoh(gold: Gold) -> str:
    """Format the links of one sentence pair as a line, sorted by source, then target word, both counted from 0."""
    return " ".join(f"{src}{'-' if (src, tgt) in gold.sure else '?'}{tgt}" for src, tgt in sorted(gold.possible))


# ---- error rate

MatchCounts = npt.NDArray[np.int64]
"""|A ∩ S|, |A ∩ P|, |A| and |S| of an alignment A, given sure links S and possible links P: "… 4"."""


def match_counts(alignment: Alignment, gold: Gold) -> MatchCounts:
    """Count the matches of alignments "… T S" with a gold alignment: "… 4", summable over sentences."""
    sure, possible = np.zeros((2, *alignment.shape[-2:]), dtype=np.bool_)
    for array, links in ((sure, gold.sure), (possible, gold.possible)):
        for src, tgt in links:
            array[tgt, src] = True
    counted = (alignment & sure, alignment & possible, alignment, np.broadcast_to(sure, alignment.shape))
    return np.stack([links.sum((-2, -1), dtype=np.int64) for links in counted], axis=-1)


def aer(counts: npt.NDArray[Any]) -> Floats:
    """Return the alignment error rate 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), in [0, 1] (Och and Ney 2003).

    It is 0 if there are neither links nor sure gold links. ``counts`` is `match_counts`, "… 4", of a sentence or summed
    over a corpus.
    """
    hit_sure, hit_possible, proposed, sure = np.moveaxis(counts, -1, 0)
    return 1 - divide(hit_sure + hit_possible, proposed + sure, otherwise=1.0)


def precision(counts: npt.NDArray[Any]) -> Floats:
    """Return |A ∩ P| / |A|, and 1 if A is empty."""
    return divide(counts[..., 1], counts[..., 2], otherwise=1.0)


def recall(counts: npt.NDArray[Any]) -> Floats:
    """Return |A ∩ S| / |S|, and 1 if S is empty."""
    return divide(counts[..., 0], counts[..., 3], otherwise=1.0)
