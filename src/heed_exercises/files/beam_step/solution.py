"""One step of beam search (Sutskever et al. 2014, §3.2)."""

from torch import Tensor


def beam_step(scores: Tensor, log_probs: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the `beam` best extensions of each sentence's prefixes by one token, best first.

    The score of a prefix y₁ … yₜ is Σ log p(yᵢ | y₁ … yᵢ₋₁). All extensions of a sentence compete with each other.

    Args:
        scores: the scores of K prefixes of each sentence, shape (B, K).
        log_probs: log p of the next token after each prefix, shape (B, K, V).
        beam: the number of extensions to keep, which may differ from K: at the first step K is 1.

    Returns:
        Three tensors of shape (B, beam): the scores of the extensions, the number of the prefix that each one extends
        (0 … K − 1), and the token that it adds.
    """
    extended = (scores[:, :, None] + log_probs).flatten(1)  # (B, K · V)
    best, index = extended.topk(beam)
    vocab = log_probs.shape[2]
    return best, index // vocab, index % vocab
