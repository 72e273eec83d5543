"""Guided alignment: a head of the cross-attention learns given word alignments (Chen et al. 2016; Garg et al. 2019)."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor

from heed.data.pairs.tokenizer import Tokenizer
from heed.data.steps.batch import Batch
from heed.data.text.corpus import TrainingSet
from heed.data.text.formats.files import read_lines
from heed.errors import HeedError
from heed.evaluation.alignment import Extraction
from heed.layers.edits import Heads
from heed.symbols import EOS_PIECE, PAD_PIECE, WORD_START

LINK = re.compile(r"(\d{1,4})[-?p](\d{1,4})")
"""Source word and target word; a possible link is learned like a sure one."""


class GuidedAlignment:
    """The alignments of the training pairs, and a loss that makes an attention head follow them.

    The head is the first of the second last decoder layer (Garg et al. 2019, §4.2), or an RNN's attention. Its row that
    predicts a subword is compared with the uniform distribution over the subwords of the linked source words. Pairs
    with placeholders are left out: spaces around these change the numbers of the words.

    Args:
        file: alignments in Pharaoh format, with a line for each pair of the text that is trained on, before cleaning.
        heads: the attention of the model.
        reverse: whether the text is used swapped; the file is not.

    Raises:
        HeedError: if the file does not fit the text, there are several texts or directions, or the model has no
            cross-attention.
    """

    def __init__(self, file: Path, train: TrainingSet, tokenizer: Tokenizer, heads: Heads, *, reverse: bool) -> None:
        if "cross" not in heads:
            raise HeedError("module.guided_alignment needs a model with cross-attention.")
        if train.is_mixture or len(train.directions) > 1:
            raise HeedError("module.guided_alignment needs a single training text of one direction.")
        layers, _ = heads["cross"]
        self.extraction = Extraction(layer=max(1, layers - 1), head=1, row="output")
        """The map that gives the trained model's alignments."""
        by_line = _read_links(file, train.texts[0].clean.report.total, reverse=reverse)
        self._links = [by_line[line] for line in train.texts[0].clean.lines()]
        self._placeholders = torch.tensor([*tokenizer.placeholders.values()], dtype=torch.long)
        self._src_marks = _mark_pieces(tokenizer.src_pieces(range(tokenizer.src_vocab)))
        self._tgt_marks = _mark_pieces(tokenizer.tgt_pieces(range(tokenizer.tgt_vocab)))

    def targets(self, batch: Batch) -> Float[Tensor, "B T S"]:
        """Return the distribution over source positions for each target position, zeros where nothing is linked."""
        src, tgt = _words_of(batch.src, self._src_marks), _words_of(batch.tgt_out, self._tgt_marks)
        shares = np.zeros((*tgt.shape, src.shape[1]), np.float32)
        masked = torch.isin(batch.tgt_out.cpu(), self._placeholders).any(1).tolist()
        for row, pair in enumerate(batch.index.tolist()):
            for i, j in () if masked[row] else self._links[pair]:
                shares[row] += (tgt[row] == j)[:, None] & (src[row] == i)
        return torch.from_numpy(shares / shares.sum(2, keepdims=True).clip(1))

    def loss(self, cross: Float[Tensor, "L H R T S"], batch: Batch) -> Float[Tensor, ""]:
        """Return −Σ_t Σ_s G_ts log A_ts of the head's attention A and the targets G, summed over the sentences.

        A weight of exactly 0, outside the window of a local reach, is left out: it would be a constant.

        Args:
            cross: attention of the batch, or of one in which every sentence is repeated; then the mean is taken.
        """
        weights = cross[self.extraction.layer - 1, 0].float()
        targets = self.targets(batch).to(weights.device)
        passes = len(weights) // len(targets)
        logs = weights.where(weights > 0, 1.0).clamp_min(torch.finfo(weights.dtype).tiny).log()
        return -(targets.repeat_interleave(passes, 0) * logs).sum() / passes


def _read_links(file: Path, pairs: int, *, reverse: bool) -> list[npt.NDArray[np.uint16]]:
    """Return the links of each pair, "N 2": source word, target word. Raise a HeedError if a line is wrong."""
    links = []
    for number, line in enumerate(read_lines(file, lambda _: None), start=1):
        found = [LINK.fullmatch(word) for word in line.split()]
        if not all(found):
            raise HeedError(f"{file}, line {number:,}: {line.split()[found.index(None)]!r} is not a link such as 0-0.")
        words = [[int(word) for word in match.groups()] for match in found if match]
        links.append(np.array(words, np.uint16).reshape(-1, 2)[:, :: -1 if reverse else 1])
    if len(links) != pairs:
        raise HeedError(
            f"{file} has {len(links):,} lines for {pairs:,} training pairs: give one line of links for each pair."
        )
    return links


def _mark_pieces(pieces: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return whether each piece of a vocabulary starts a word, and whether it has text: "2 V"."""
    empty = (PAD_PIECE, EOS_PIECE, WORD_START)
    return np.array([[piece.startswith(WORD_START), piece not in empty] for piece in pieces]).T


def _words_of(ids: Int[Tensor, "B N"], marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the index of the word of each subword "B N"; -1 for subwords without text."""
    starts, has_text = marks[:, ids.cpu().numpy()]
    return np.where(has_text, starts.cumsum(1) - 1, -1)
