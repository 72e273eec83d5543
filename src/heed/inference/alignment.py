"""Align words by the attention maps of a sentence pair."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from heed.errors import HeedError, argument
from heed.evaluation.alignment import MAP_ROWS, Extraction, candidate_maps
from heed.evaluation.words import AttentionMap, split_words
from heed.inference.outputs import Attended


def word_maps(pair: Attended) -> AttentionMap:
    """Return every cross-attention map over words that an `Extraction` can select: "2 L H T S".

    Words are separated by white space. Raise a HeedError if the model has no cross-attention.
    """
    words = split_words(pair.source), split_words(pair.target)
    return candidate_maps(_cross_attention(pair), pair.src_pieces, pair.tgt_pieces, *words)


def choose_extraction(
    saved: Mapping[str, Any] | None,
    pair: Attended,
    *,
    layer: int | None = None,
    head: int | None = None,
    row: Literal["output", "input"] | None = None,
) -> Extraction:
    """Return the attention map to read alignments from.

    Args:
        saved: the ``alignment`` section of a model folder's config: the map chosen on validation data. None: the mean
            over heads of the second last layer, output row (Garg et al. 2019).
        pair: attention maps of the model for any sentence pair.
        layer, head, row: override the saved map, see `Translator.align`.

    Raises:
        HeedError: if the model has no such layer, head or row, or no cross-attention.
    """
    layers, heads = _cross_attention(pair).shape[:2]
    chosen = Extraction(**saved or {"layer": max(1, layers - 1), "head": None, "row": "output"})
    if layer is not None and layer != chosen.layer:
        chosen = replace(chosen, layer=layer, head=None)  # the saved head belongs to the saved layer
    if head is not None:
        chosen = replace(chosen, head=head or None)
    if row is not None:
        chosen = replace(chosen, row=row)
    if chosen.row not in MAP_ROWS:
        raise HeedError(f"{argument('row', row)} is unknown: choose output or input.")
    if not (1 <= chosen.layer <= layers and 1 <= (chosen.head or 1) <= heads):
        raise HeedError(
            f"{argument('layer', chosen.layer)} {argument('head', chosen.head or 0)}: this model's decoder has layers "
            f"1 to {layers} with heads 1 to {heads}. Choose one of these, or correct the alignment section of its "
            "config.yaml."
        )
    return chosen


def _cross_attention(pair: Attended) -> np.ndarray:
    if pair.cross is None:
        raise HeedError("This model has no cross-attention, so it gives no alignments.")
    return pair.cross
