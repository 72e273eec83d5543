"""From attention maps to word alignments, and the symmetrization of two alignments."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from heed.evaluation.words import AttentionMap

Alignment = npt.NDArray[np.bool_]
"""True where two words are linked, "… T S"."""

NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
"""Offsets (target, source) of the adjacent cells, in the order of Moses."""


def align_each_target(weights: AttentionMap) -> Alignment:
    """Link each target word to the source word with the largest attention weight."""
    return _link_maxima(weights, axis=-1)


def align_each_source(weights: AttentionMap) -> Alignment:
    """Link each source word to the target word with the largest attention weight."""
    return _link_maxima(weights, axis=-2)


def _link_maxima(weights: AttentionMap, axis: int) -> Alignment:
    links = np.zeros(weights.shape, dtype=np.bool_)
    if not weights.size:  # argmax fails on an empty sentence
        return links
    np.put_along_axis(links, np.expand_dims(weights.argmax(axis), axis), True, axis)
    # A word without pieces has no weights and gets no link.
    return links & (weights > 0)


def grow_diag_final_and(forward: Alignment, backward: Alignment) -> Alignment:
    """Symmetrize two alignments by the grow-diag-final-and heuristic, as Moses does.

    Start with the intersection. Add neighbours from the union that link a new word until there are none. Then add
    links of either alignment, ``forward`` first, between two words that have no link yet.

    Source: Koehn et al. 2003; Koehn et al. 2005, the Edinburgh system for IWSLT.
    """
    grown = np.zeros_like(forward)
    for index in np.ndindex(forward.shape[:-2]):
        grown[index] = _grow_diag_final_and(forward[index], backward[index])
    return grown


def _grow_diag_final_and(forward: Alignment, backward: Alignment) -> Alignment:
    """Symmetrize the alignments of one sentence pair, "T S"."""
    grown = forward & backward
    tgt_linked: Alignment = np.any(grown, axis=1)
    src_linked: Alignment = np.any(grown, axis=0)
    points = [(int(t), int(s)) for t, s in np.argwhere(forward | backward)]
    union = set(points)

    def add(t: int, s: int) -> None:
        grown[t, s] = tgt_linked[t] = src_linked[s] = True

    changed = True
    while changed:
        changed = False
        for t, s in points:
            if not grown[t, s]:
                continue
            for u, r in ((t + dt, s + ds) for dt, ds in NEIGHBOURS):
                if (u, r) in union and not (tgt_linked[u] and src_linked[r]):
                    add(u, r)
                    changed = True
    for direction in (forward, backward):
        for t, s in np.argwhere(direction):
            if not (tgt_linked[t] or src_linked[s]):
                add(t, s)
    return grown


SYMMETRIZATIONS: dict[str, Callable[[Alignment, Alignment], Alignment]] = {
    "target": lambda forward, _: forward,
    "source": lambda _, backward: backward,
    "intersection": lambda forward, backward: forward & backward,
    "union": lambda forward, backward: forward | backward,
    "grow-diag-final-and": grow_diag_final_and,
}
"""Functions by name that combine an alignment of each target word (forward) and one of each source word (backward)."""


def align(weights: AttentionMap, method: str) -> Alignment:
    """Return the alignment of an attention map, symmetrized from its own two directions.

    With one model for each direction, call the function in `SYMMETRIZATIONS` with `align_each_target` of the first
    model's map and `align_each_source` of the second model's map, transposed.

    Args:
        weights: Attention over words, "… T S".
        method: A key of `SYMMETRIZATIONS`.
    """
    return SYMMETRIZATIONS[method](align_each_target(weights), align_each_source(weights))
