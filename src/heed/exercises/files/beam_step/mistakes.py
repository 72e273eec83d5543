"""Mistakes that the check explains."""

from torch import Tensor


def last_step_only(scores: Tensor, log_probs: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """The extensions are ranked by log p of their last token. Add the score of the prefix."""
    best, index = log_probs.flatten(1).topk(beam)
    return best, index // log_probs.shape[2], index % log_probs.shape[2]


def prefix_and_token_swapped(scores: Tensor, log_probs: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """Prefix and token are swapped: in the flattened (K, V), index // V is the prefix and index % V the token."""
    best, index = (scores[:, :, None] + log_probs).flatten(1).topk(beam)
    return best, index % log_probs.shape[2], index // log_probs.shape[2]


def one_for_each_prefix(scores: Tensor, log_probs: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """Each prefix keeps one extension. All extensions of a sentence must compete: a good prefix has several."""
    best, token = (scores[:, :, None] + log_probs).max(2)
    best, parent = best.sort(descending=True)
    return best, parent, token.gather(1, parent)


def worst_first(scores: Tensor, log_probs: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """These are the worst extensions. The score is a log-probability: larger is better."""
    best, index = (scores[:, :, None] + log_probs).flatten(1).topk(beam, largest=False)
    return best, index // log_probs.shape[2], index % log_probs.shape[2]
