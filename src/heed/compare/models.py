"""What only the models themselves can tell. Runs that were copied without them are compared without it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from heed.compare.challenge import Accuracy, Contrast, contrastive_accuracy
from heed.decoding import GreedySearch
from heed.evaluation.alignment import candidates, saved_extraction
from heed.evaluation.words import split_words
from heed.inference import model_folder
from heed.inference.translator import Translator
from heed.plot.svg import WordMap

BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Answers:
    """What one model was asked."""

    accuracy: dict[str, Accuracy]
    """By tag of the challenge set."""
    maps: list[WordMap] | None
    """One for each sentence pair."""
    extraction: str
    """Which of its maps these are, or why there are none."""


def load_translator(run: Path) -> Translator:
    """The model of a run, on the GPU where there is one. It scores and attends; its search is greedy."""
    return _translator(model_folder.load(run))


def ask(run: Path, contrasts: Sequence[Contrast], pairs: Sequence[tuple[str, str]]) -> Answers:
    """The model's accuracy on the contrasts, and its maps of (source, translation) pairs, read as its alignment is."""
    folder = model_folder.load(run)
    translator = _translator(folder)
    accuracy = contrastive_accuracy(translator, contrasts) if contrasts else {}
    seen = translator.attend([src for src, _ in pairs], [tgt for _, tgt in pairs]) if pairs else []
    if not seen:
        return Answers(accuracy, None, "")
    if seen[0].cross is None:
        return Answers(accuracy, None, "no cross-attention")
    layers, heads = seen[0].cross.shape[:2]
    extraction = saved_extraction(folder.config.get("alignment"), layers=layers, heads=heads)
    maps = []
    for pair in seen:
        assert pair.cross is not None
        src_words, tgt_words = split_words(pair.source), split_words(pair.target)
        found = candidates(pair.cross, pair.src_pieces, pair.tgt_pieces, src_words, tgt_words)
        maps.append(WordMap(src_words, tgt_words, found[extraction.index]))
    return Answers(accuracy, maps, str(extraction))


def _translator(folder: model_folder.ModelFolder) -> Translator:
    model = folder.model.to("cuda" if torch.cuda.is_available() else "cpu")
    search = GreedySearch(max_length_factor=2.0, max_length_extra=10)
    return Translator(model, folder.tokenizer, search, batch_tokens=BATCH_TOKENS)
