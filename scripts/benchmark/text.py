"""Large parallel text for measurements: random sentences with the word frequencies of a natural language."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

VOCABULARY = 50_000
BLOCK = 50_000
SYLLABLES = [consonant + vowel for consonant in "bcdfghklmnprstvwz" for vowel in ("a", "e", "i", "o", "u", "ei", "en")]


def write_text(folder: Path, pairs: int, *, seed: int = 1) -> tuple[Path, Path]:
    """Write ``train-PAIRS.en`` and ``.de``, unless they exist, and return their paths.

    A target sentence is its source sentence, word for word in another language. Words follow Zipf's law; sentences have
    log-normal lengths with a mean of 20 words, about 125 bytes on each side.
    """
    rng = np.random.default_rng(seed)
    files = folder / f"train-{pairs}.en", folder / f"train-{pairs}.de"
    if all(file.exists() for file in files):
        return files
    folder.mkdir(parents=True, exist_ok=True)
    vocabularies = [_words(rng), _words(rng)]
    weights = 1 / np.arange(1, VOCABULARY + 1)
    edges = np.cumsum(weights / weights.sum())
    partial = [file.with_name(f"{file.name}.partial") for file in files]
    with partial[0].open("w", encoding="utf-8") as src, partial[1].open("w", encoding="utf-8") as tgt:
        for start in range(0, pairs, BLOCK):
            lengths = np.clip(rng.lognormal(2.85, 0.5, min(BLOCK, pairs - start)), 3, 80).astype(np.int64)
            words = np.searchsorted(edges, rng.random(int(lengths.sum()))).clip(max=VOCABULARY - 1)
            for side, vocabulary in zip((src, tgt), vocabularies, strict=True):
                sentences = np.split(vocabulary[words], np.cumsum(lengths)[:-1])
                side.writelines(f"{' '.join(sentence.tolist())}.\n" for sentence in sentences)
    for file, finished in zip(partial, files, strict=True):
        file.replace(finished)
    return files


def _words(rng: np.random.Generator) -> npt.NDArray[np.object_]:
    """Return words of one to four syllables; the frequent ones are short."""
    lengths = np.clip(1 + np.log2(np.arange(1, VOCABULARY + 1)) / 5 + rng.normal(0, 0.5, VOCABULARY), 1, 5).astype(int)
    return np.array(["".join(rng.choice(SYLLABLES, length)) for length in lengths], dtype=object)
