"""Add noise to training sources, because users type text that is less clean than corpora."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from heed.languages import upper
from heed.options import Probability
from heed.symbols import PLACEHOLDERS

PUNCTUATION = ".!?…。！？"  # marks at the end of a sentence that noise omits or repeats


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Changes source sentences at random, so that a model learns to translate badly written text.

    The changes are independent. Targets are unchanged (Belinkov and Bisk 2018; Karpukhin et al. 2019).
    """

    upper: Probability = 0.0  # of a sentence in upper case
    title: Probability = 0.0  # of a sentence in which every word starts with an upper-case letter
    typos: Probability = 0.0  # of a typing error in a word: two letters swapped, one omitted, or one typed twice
    punctuation: Probability = 0.0  # that the mark at the end of a sentence is omitted or repeated

    def __call__(self, sentence: str, rng: random.Random, lang: str = "") -> str:
        """Return a sentence with noise; its language decides how letters change their case."""
        words = sentence.split(" ")
        if self.typos:
            words = [_with_typo(word, rng) if rng.random() < self.typos else word for word in words]
        changed = " ".join(words)
        if rng.random() < self.punctuation and changed[-1:] in PUNCTUATION and changed:
            left_out = changed[:-1].rstrip()
            changed = left_out if rng.random() < 0.5 and left_out else changed + changed[-1]
        if rng.random() < self.upper:
            return upper(changed, lang)
        if rng.random() < self.title:
            return " ".join(upper(word[:1], lang).title() + word[1:] for word in changed.split(" "))
        return changed


def add_noise(
    noise: Noise, sentences: Sequence[str], numbers: Sequence[int], *, seed: str, lang: str = ""
) -> list[str]:
    """Return sentences of a language with noise, as a function of the seed and the number of each sentence."""
    return [
        noise(sentence, random.Random(f"{seed} noise {number}"), lang)
        for sentence, number in zip(sentences, numbers, strict=True)
    ]


def _with_typo(word: str, rng: random.Random) -> str:
    """Return the word with a typing error, if it has at least two letters. What is to be copied stays."""
    if len(word) < 2 or any(char in PLACEHOLDERS for char in word):
        return word
    position = rng.randrange(len(word) - 1)
    left, right = word[position], word[position + 1]
    middle = rng.choice((right + left, left, left + left + right))
    return word[:position] + middle + word[position + 2 :]
