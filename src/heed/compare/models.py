"""Results that need the models themselves: contrastive accuracy and attention maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from heed.compare.challenge import Accuracy, Contrast, contrastive_accuracy
from heed.decoding import GreedySearch
from heed.evaluation.words import AttentionMap, split_words
from heed.inference import model_folder
from heed.inference.alignment import choose_extraction, word_maps
from heed.inference.search_settings import LENGTH_LIMITS
from heed.inference.translator import Translator
from heed.progress import progress_bar

BATCH_TOKENS = 4096


@dataclass(frozen=True)
class WordMap:
    """The cross-attention of one sentence pair over words."""

    src_words: list[str]
    tgt_words: list[str]
    weights: AttentionMap
    """ "T S"; a row sums to at most 1, because attention on EOS belongs to no word."""


@dataclass(frozen=True)
class ModelResults:
    """The results of one model."""

    accuracy: dict[str, Accuracy]
    """By tag of the challenge set."""
    maps: list[WordMap] | None
    """One for each sentence pair; None if the model has no cross-attention or there are no pairs."""
    extraction: str
    """The layer and head of the maps, or the reason why there are none."""


@dataclass(frozen=True)
class Evidence:
    """The results of all models, by side. Sides without models have an empty list or None."""

    challenge: str
    """The name of the challenge set."""
    accuracy: Sequence[Sequence[Mapping[str, Accuracy]]]
    """By side and run, by tag."""
    maps: Sequence[Sequence[WordMap] | None]
    """By side, by example."""
    extractions: Sequence[str]
    """By side, `ModelResults.extraction`."""

    def to_plain(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the correct answers by side, of these names, run and tag, for ``compare.json``."""
        return {
            name: [{tag: {"right": found.right, "total": found.total} for tag, found in run.items()} for run in runs]
            for name, runs in zip(names, self.accuracy, strict=True)
        }


def load_translator(run: Path) -> Translator:
    """Load the model of a run, on the GPU if there is one, for scoring, attention maps and greedy search."""
    return _translator(model_folder.load(run))


def evaluate_model(run: Path, contrasts: Sequence[Contrast], pairs: Sequence[tuple[str, str]]) -> ModelResults:
    """Return a model's accuracy on contrasts, and its attention maps for (source, translation) pairs.

    The maps are those that the model folder's ``alignment`` section selects.
    """
    folder = model_folder.load(run)
    translator = _translator(folder)
    # A contrast is scored twice: the good and the bad translation.
    total = 2 * len(contrasts) + len(pairs)
    with progress_bar(f"Challenge set and attention maps of {run}", total=total, unit="sentences") as bar:
        translator.on_batch = bar.update
        accuracy = contrastive_accuracy(translator, contrasts) if contrasts else {}
        attended = translator.attend([src for src, _ in pairs], [tgt for _, tgt in pairs]) if pairs else []
    if not attended:
        return ModelResults(accuracy, None, "")
    if attended[0].cross is None:
        return ModelResults(accuracy, None, "no cross-attention")
    extraction = choose_extraction(folder.config.get("alignment"), attended[0])
    maps = []
    for pair in attended:
        src_words, tgt_words = split_words(pair.source), split_words(pair.target)
        maps.append(WordMap(src_words, tgt_words, word_maps(pair)[extraction.index]))
    return ModelResults(accuracy, maps, str(extraction))


def _translator(folder: model_folder.ModelFolder) -> Translator:
    model = folder.model.to("cuda" if torch.cuda.is_available() else "cpu")
    search = GreedySearch(**LENGTH_LIMITS)
    return Translator(model, folder.tokenizer, search, batch_tokens=BATCH_TOKENS)
