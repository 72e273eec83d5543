"""Attention as word alignment: how maps are read, how far they are from gold, and what else they look like.

Arrays over a sentence pair are "… T S": target words, source words. Links, in files and here, are (source, target),
counted from 0.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from heed.errors import HeedError
from heed.evaluation.words import Map, pool, word_shares

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Alignment = npt.NDArray[np.bool_]
"""Which words are linked, "… T S"."""
Link = tuple[int, int]

# ---- from maps to alignments


@dataclass(frozen=True)
class Extraction:
    """Which of a model's cross-attention maps is read as its alignment. Chosen on development data, never on test."""

    layer: int
    """Of the decoder, counted from 1."""
    head: int | None
    """Counted from 1; None: the mean over the layer's heads."""
    row: Literal["output", "input"]
    """A target word's row is that of the state whose output it is, or of the next state, whose input it is. The latter
    knows the word it is to align (Chen et al. 2020, "Accurate Word Alignment Induction", Shift-Att)."""

    @property
    def index(self) -> tuple[int, int, int]:
        """Its place in `candidates`."""
        return ROWS.index(self.row), self.layer - 1, -1 if self.head is None else self.head - 1

    def __str__(self) -> str:
        head = "mean of the heads" if self.head is None else f"head {self.head}"
        return f"layer {self.layer}, {head}, {self.row} row"


ROWS: tuple[Literal["output"], Literal["input"]] = ("output", "input")


def usual_extraction(layers: int) -> Extraction:
    """Where to look when no gold alignment says better: the last layer but one, all heads (Garg et al. 2019)."""
    return Extraction(layer=max(1, layers - 1), head=None, row="output")


def saved_extraction(saved: Mapping[str, Any] | None, *, layers: int, heads: int) -> Extraction:
    """Return the extraction of a model folder's ``alignment`` section, or the usual one.

    Raises:
        HeedError: if it names a layer or head that the model does not have.
    """
    extraction = Extraction(**saved) if saved else usual_extraction(layers)
    if not (1 <= extraction.layer <= layers and 1 <= (extraction.head or 1) <= heads):
        raise HeedError(
            f"The model's alignment section names layer {extraction.layer}, head {extraction.head}, and its decoder "
            f"has layers 1 to {layers} with heads 1 to {heads}: mend its config.yaml, or copy it again."
        )
    return extraction


def candidates(
    cross: Map, src_pieces: Sequence[str], tgt_pieces: Sequence[str], src_words: Sequence[str], tgt_words: Sequence[str]
) -> Map:
    """All maps over words that an `Extraction` chooses from: "2 L H T S", first the output rows, then the input rows.

    Of several heads the last stands for their mean.

    Args:
        cross: "L H T S" over pieces; row t belongs to the state whose output is piece t. EOS is the last piece.
    """
    if cross.shape[1] > 1:
        cross = np.concatenate((cross, cross.mean(1, keepdims=True)), axis=1)
    # The first row comes round to EOS, which no state has as its input, and which belongs to no word.
    rows = np.stack((cross, np.roll(cross, -1, axis=-2)))
    return pool(rows, word_shares(tgt_pieces, tgt_words), word_shares(src_pieces, src_words))


def best_extraction(error_rates: Floats) -> Extraction:
    """The one with the lowest error rate, given those of all `candidates`, "2 L H"."""
    row, layer, head = (int(i) for i in np.unravel_index(error_rates.argmin(), error_rates.shape))
    heads = error_rates.shape[2]
    return Extraction(layer=layer + 1, head=head + 1 if heads == 1 or head < heads - 1 else None, row=ROWS[row])


def by_target(weights: Map) -> Alignment:
    """Each target word and the source word it looks at most."""
    return _strongest(weights, axis=-1)


def by_source(weights: Map) -> Alignment:
    """Each source word and the target word that looks at it most."""
    return _strongest(weights, axis=-2)


def _strongest(weights: Map, axis: int) -> Alignment:
    chosen = np.zeros(weights.shape, dtype=np.bool_)
    if not weights.size:  # an empty line has no words, and no largest weight
        return chosen
    np.put_along_axis(chosen, np.expand_dims(weights.argmax(axis), axis), True, axis)
    # A word without pieces looks nowhere.
    return chosen & (weights > 0)


def grow_diag_final_and(forward: Alignment, backward: Alignment) -> Alignment:
    """Grow the intersection by neighbours from the union that link a new word, then add links between two new words.

    As Moses does it (Koehn et al. 2003; Koehn et al. 2005, the Edinburgh system for IWSLT). Of the final links those of
    ``forward`` come first.
    """
    grown = np.zeros_like(forward)
    for place in np.ndindex(forward.shape[:-2]):
        grown[place] = _grow_diag_final_and(forward[place], backward[place])
    return grown


NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def _grow_diag_final_and(forward: Alignment, backward: Alignment) -> Alignment:
    """The same for one sentence pair, "T S"."""
    grown = forward & backward
    tgt_done: Alignment = np.any(grown, axis=1)
    src_done: Alignment = np.any(grown, axis=0)
    points = [(int(t), int(s)) for t, s in np.argwhere(forward | backward)]
    union = set(points)

    def add(t: int, s: int) -> None:
        grown[t, s] = tgt_done[t] = src_done[s] = True

    growing = True
    while growing:
        growing = False
        for t, s in points:
            if not grown[t, s]:
                continue
            for u, r in ((t + dt, s + ds) for dt, ds in NEIGHBOURS):
                if (u, r) in union and not (tgt_done[u] and src_done[r]):
                    add(u, r)
                    growing = True
    for direction in (forward, backward):
        for t, s in np.argwhere(direction):
            if not (tgt_done[t] or src_done[s]):
                add(t, s)
    return grown


SYMMETRIZATIONS: dict[str, Callable[[Alignment, Alignment], Alignment]] = {
    "target": lambda forward, _: forward,
    "source": lambda _, backward: backward,
    "intersection": lambda forward, backward: forward & backward,
    "union": lambda forward, backward: forward | backward,
    "grow-diag-final-and": grow_diag_final_and,
}
"""From links of every target word (forward) and links of every source word (backward) to one alignment."""


def align(weights: Map, how: str) -> Alignment:
    """The alignment that a map shows, symmetrised from its own two directions.

    For a model in each direction, call the entry of `SYMMETRIZATIONS` with `by_target` of the one map and `by_source`
    of the other, transposed.
    """
    return SYMMETRIZATIONS[how](by_target(weights), by_source(weights))


# ---- from alignments to error rates


@dataclass(frozen=True)
class Gold:
    """What people say about one sentence pair."""

    sure: frozenset[Link]
    possible: frozenset[Link]
    """Links that are no mistake; the sure ones among them."""


def matches(alignment: Alignment, gold: Gold) -> Counts:
    """|A ∩ S|, |A ∩ P|, |A| and |S| of alignments "… T S", as "… 4". Sum them over sentences before taking a rate."""
    sure, possible = (_array(links, alignment.shape[-2:]) for links in (gold.sure, gold.possible))
    ones = np.ones_like(alignment)
    counted = (alignment & sure, alignment & possible, alignment, ones & sure)
    return np.stack([part.sum((-2, -1), dtype=np.int64) for part in counted], axis=-1)


def aer(counts: npt.NDArray[Any]) -> Floats:
    """Alignment error rate 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|), from 0 to 1 (Och and Ney 2003).

    0 where there was nothing to align and nothing was aligned.
    """
    hit_sure, hit_possible, proposed, sure = np.moveaxis(counts, -1, 0)
    return 1 - _ratio(hit_sure + hit_possible, proposed + sure, otherwise=1.0)


def precision(counts: npt.NDArray[Any]) -> Floats:
    """|A ∩ P| / |A|; 1 where nothing was aligned."""
    return _ratio(counts[..., 1], counts[..., 2], otherwise=1.0)


def recall(counts: npt.NDArray[Any]) -> Floats:
    """|A ∩ S| / |S|; 1 where nothing is sure."""
    return _ratio(counts[..., 0], counts[..., 3], otherwise=1.0)


def aer_interval(counts: Counts, *, seed: int = 0, resamples: int = 1000, level: float = 0.95) -> tuple[float, float]:
    """Percentile bootstrap interval of the corpus AER over sentences (Efron and Tibshirani 1993, ch. 13).

    Args:
        counts: `matches` of each sentence, "N 4".
    """
    number = len(counts)
    drawn = np.random.default_rng(seed).multinomial(number, np.full(number, 1 / number), size=resamples)
    low, high = np.quantile(aer(drawn @ counts), ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)


def _array(links: Iterable[Link], shape: tuple[int, ...]) -> Alignment:
    array = np.zeros(shape, dtype=np.bool_)
    for src, tgt in links:
        array[tgt, src] = True
    return array


# ---- what maps look like


def entropy(weights: Map) -> Floats:
    """How spread the looks are, in nats: mean over t of H(p_t) = −Σ_s p_ts ln p_ts, from 0 (one word) to ln S (all).

    Rows are scaled to sum 1 first; empty rows are left out.
    """
    p = _rows(weights)
    terms = p * np.log(p, out=np.zeros_like(p), where=p > 0)
    looking = (p.sum(-1) > 0).sum(-1)
    return _ratio(-terms.sum((-2, -1)), looking)


def coverage(weights: Map) -> Floats:
    """How much of the source is looked at: mean over s of min(1, Σ_t a_ts), from 0 to 1 (cf. Wu et al. 2016, §7)."""
    return np.minimum(weights.sum(-2), 1.0).mean(-1)


def monotonicity(weights: Map) -> Floats:
    """How far the order of looks is that of the source: Kendall's τ of (t, c_t) with c_t = Σ_s s p_ts.

    τ = Σ_{t<u} sign(c_u − c_t) / #{t < u}, from 1 (left to right) over 0 (no order) to −1 (right to left), over the
    rows that look somewhere; 1 where there are fewer than two.
    """
    p = _rows(weights)
    # Equal centres must not differ by rounding.
    centres = (p @ np.arange(p.shape[-1])).round(9)
    looking = p.sum(-1) > 0
    pairs = np.triu(looking[..., :, None] & looking[..., None, :], k=1)
    signs = np.sign(centres[..., None, :] - centres[..., :, None])
    return _ratio((signs * pairs).sum((-2, -1)), pairs.sum((-2, -1)), otherwise=1.0)


def _rows(weights: Map) -> Floats:
    """The rows as distributions; empty ones stay empty."""
    return _ratio(weights, weights.sum(-1, keepdims=True))


def _ratio(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any], *, otherwise: float = 0.0) -> Floats:
    out = np.full(np.broadcast_shapes(numerator.shape, denominator.shape), otherwise)
    return np.divide(numerator, denominator, out=out, where=denominator > 0)


# ---- files


def parse_links(
    lines: Sequence[str], lengths: Sequence[tuple[int, int]], *, name: str, first_index: int, drop_outside: bool
) -> list[Gold]:
    """Alignments in Pharaoh format, one sentence pair a line: ``i-j`` links source word i surely with target word j,
    ``i?j`` or ``ipj`` possibly. The talp format is the same; there words are often counted from 1.

    Args:
        lengths: (source words, target words) of each pair.
        name: what errors call the file.
        first_index: the number of the first word, 0 or 1.
        drop_outside: leave out links beyond a sentence's ends instead of refusing them.

    Raises:
        HeedError: naming the line that is malformed, links words that are not there, or is missing.
    """
    if len(lines) != len(lengths):
        raise HeedError(
            f"{name} has {len(lines):,} lines for {len(lengths):,} sentence pairs: give one line of links for each."
        )
    golds = []
    for number, (line, (src_length, tgt_length)) in enumerate(zip(lines, lengths, strict=True), start=1):
        sure, possible = set(), set()
        for token in line.split():
            if not (match := re.fullmatch(r"(\d{1,9})([-?p])(\d{1,9})", token)):
                raise HeedError(
                    f"Line {number} of {name}: {token!r} is not a link. A link is i-j, or i?j (ipj) where it is only "
                    "possible, between source word i and target word j."
                )
            link = int(match[1]) - first_index, int(match[3]) - first_index
            if not (0 <= link[0] < src_length and 0 <= link[1] < tgt_length):
                if drop_outside:
                    continue
                raise HeedError(
                    f"Line {number} of {name}: {token} is out of range. The source has {src_length} words and the "
                    f"target {tgt_length}, counted from {first_index}."
                )
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        golds.append(Gold(frozenset(sure), frozenset(possible)))
    return golds


def pharaoh(gold: Gold) -> str:
    """One line as `parse_links` reads it, words counted from 0: by source word, then by target word."""
    return " ".join(f"{src}{'-' if (src, tgt) in gold.sure else '?'}{tgt}" for src, tgt in sorted(gold.possible))


def links(alignment: Alignment) -> Gold:
    """An alignment "T S" as links, all sure."""
    found = frozenset((int(src), int(tgt)) for tgt, src in np.argwhere(alignment))
    return Gold(sure=found, possible=found)
