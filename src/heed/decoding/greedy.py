"""Greedy search: the likeliest token, again and again."""

from itertools import count

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from heed.decoding.search import Hypothesis, Search, next_tokens
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS, EOS


class GreedySearch(Search):
    """One hypothesis per sentence, its score its log p."""

    @torch.inference_mode()
    def __call__(
        self, model: Seq2Seq, src: Int[Tensor, "B S"], src_mask: Bool[Tensor, "B S"]
    ) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in range(len(src))]
        state = model.start(model.encode(src, src_mask))
        # One row per sentence still being written.
        sentence = torch.arange(len(src), device=src.device)
        limit = torch.tensor(self.limits(model, src_mask), device=src.device)
        tokens = torch.full((len(src), 1), BOS, device=src.device)
        log_prob = torch.zeros(1, device=src.device)
        for length in count(1):
            output, state = model.step(tokens[:, -1], state)
            gain, token = next_tokens(output.logits[:, -1], 1)
            log_prob = log_prob + gain[:, 0]
            tokens = torch.cat([tokens, token], dim=1)
            finished = token[:, 0] == EOS
            leaves = finished | (limit == length)
            if not leaves.any():
                continue
            for row, ids, total, done in zip(
                sentence[leaves].tolist(),
                tokens[leaves, 1:].tolist(),
                log_prob[leaves].tolist(),
                finished[leaves].tolist(),
                strict=True,
            ):
                found[row] = [Hypothesis(ids[:-1] if done else ids, total, total, done)]
            stays = (~leaves).nonzero().squeeze(1)
            if not len(stays):
                break
            state = state.reorder(stays)
            sentence, limit, tokens, log_prob = (t[stays] for t in (sentence, limit, tokens, log_prob))
        return found
