"""The choice of the cross-attention map that is used as a word alignment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from heed.errors import HeedError
from heed.evaluation.words import AttentionMap, pool, word_shares

ROWS: tuple[Literal["output"], Literal["input"]] = ("output", "input")
"""The values of `Extraction.row`, in the order of `candidate_maps`."""


@dataclass(frozen=True)
class Extraction:
    """Which cross-attention map of a model is used as its alignment. Choose it on development data, never on test."""

    layer: int
    """Decoder layer, counted from 1."""
    head: int | None
    """Counted from 1; None: the mean over the layer's heads."""
    row: Literal["output", "input"]
    """Which decoder state aligns a target word: "output", the state that predicts it, or "input", the next state, which
    reads it (Chen et al. 2020, "Accurate Word Alignment Induction", Shift-Att)."""

    @property
    def index(self) -> tuple[int, int, int]:
        """Its index in the first three axes of `candidate_maps`."""
        return ROWS.index(self.row), self.layer - 1, -1 if self.head is None else self.head - 1

    def __str__(self) -> str:
        head = "mean of the heads" if self.head is None else f"head {self.head}"
        return f"layer {self.layer}, {head}, {self.row} row"


def default_extraction(layers: int) -> Extraction:
    """Return the extraction to use without gold alignments: the second last layer, all heads (Garg et al. 2019)."""
    return Extraction(layer=max(1, layers - 1), head=None, row="output")


def extraction_from_config(section: Mapping[str, Any] | None, *, layers: int, heads: int) -> Extraction:
    """Return the extraction in the ``alignment`` section of a model folder's config, or the default one without it.

    Args:
        section: The fields of an `Extraction`, or None.
        layers: Decoder layers of the model.
        heads: Attention heads in each layer.

    Raises:
        HeedError: The section names a layer or head that the model does not have.
    """
    extraction = Extraction(**section) if section else default_extraction(layers)
    if not (1 <= extraction.layer <= layers and 1 <= (extraction.head or 1) <= heads):
        raise HeedError(
            f"The model's alignment section names layer {extraction.layer}, head {extraction.head}, but its decoder "
            f"has layers 1 to {layers} with heads 1 to {heads}: correct its config.yaml, or copy the model again."
        )
    return extraction


def candidate_maps(
    cross: AttentionMap,
    src_pieces: Sequence[str],
    tgt_pieces: Sequence[str],
    src_words: Sequence[str],
    tgt_words: Sequence[str],
) -> AttentionMap:
    """Return every attention map over words that an `Extraction` can select: "2 L H T S".

    The first axis is `ROWS`. With several heads, a last head is added that holds their mean.

    Args:
        cross: Cross-attention over pieces, "L H T S"; row t belongs to the state that predicts piece t.
        src_pieces: Source pieces; the last one is EOS.
        tgt_pieces: Target pieces; the last one is EOS.
        src_words: Source words.
        tgt_words: Target words.
    """
    if cross.shape[1] > 1:
        cross = np.concatenate((cross, cross.mean(1, keepdims=True)), axis=1)
    # Rolling moves the first row to EOS, which is no state's input and belongs to no word.
    rows = np.stack((cross, np.roll(cross, -1, axis=-2)))
    return pool(rows, word_shares(tgt_pieces, tgt_words), word_shares(src_pieces, src_words))


def best_extraction(error_rates: npt.NDArray[np.float64]) -> Extraction:
    """Return the extraction with the lowest error rate, given those of all `candidate_maps`, "2 L H"."""
    row, layer, head = (int(i) for i in np.unravel_index(error_rates.argmin(), error_rates.shape))
    heads = error_rates.shape[2]
    return Extraction(layer=layer + 1, head=head + 1 if heads == 1 or head < heads - 1 else None, row=ROWS[row])
