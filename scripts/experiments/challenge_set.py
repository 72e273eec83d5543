"""The part of the built-in challenge set that the experiments use."""

from heed.synthetic import ContrastivePair, challenge

PER_TAG = 400
"""Contrasts for each phenomenon."""
SEED = 1
"""Seed of the corpus that the experiments train on."""


def contrasts(*tags: str, seed: int = SEED) -> list[ContrastivePair]:
    """Return the contrasts of these phenomena; of all phenomena if none is named."""
    return [contrast for contrast in challenge(seed=seed, per_tag=PER_TAG) if not tags or contrast.tag in tags]
