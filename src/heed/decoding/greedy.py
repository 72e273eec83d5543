"""Greedy search."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heed import kernels
from heed.decoding.search import Constraints, NBest, Search, decode_rows, for_search, token_log_probs
from heed.models.seq2seq import Seq2Seq
from heed.symbols import EOS


class GreedySearch(Search):
    """Choose the most probable next token at every step. The score is the log-probability."""

    @torch.inference_mode()
    def __call__(
        self, model: Seq2Seq, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"], constraints: Constraints = None
    ) -> list[NBest]:
        model = for_search(model)
        state = model.start(model.encode(src, src_mask))
        limits = self.limits(model, src_mask, constraints)
        found = decode_rows(model, state, limits, _most_probable, self.rules(constraints, limits))
        return [[hypothesis] for hypothesis in found]


def _most_probable(
    logits: Float[Tensor, "R V"], rows: Int[Tensor, " R"], length: int
) -> tuple[Float[Tensor, " R"], Int[Tensor, " R"]]:
    log_prob, token = kernels.stable_topk(token_log_probs(logits), 1)
    # Where no token is possible, or the model has diverged, a translation ends.
    return log_prob[:, 0], token.where(log_prob > -torch.inf, EOS)[:, 0]
