"""Results that need the models themselves: contrastive accuracy and attention maps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heed.comparison.challenge import Accuracy, ContrastivePair, contrastive_accuracy
from heed.comparison.comparison import Comparison
from heed.comparison.runs import Side
from heed.errors import HeedError
from heed.evaluation.words import AttentionMap, split_words
from heed.inference.loading import load
from heed.inference.outputs import choose_extraction, word_maps
from heed.progress import progress_bar


@dataclass(frozen=True)
class WordMap:
    """The cross-attention of one sentence pair over words."""

    src_words: list[str]
    tgt_words: list[str]
    weights: AttentionMap  # "T S"; a row sums to at most 1, because attention on EOS belongs to no word


@dataclass(frozen=True)
class Evidence:
    """The results of all models, by side. Sides without models have an empty list or None."""

    challenge: str  # the name of the challenge set
    accuracy: Sequence[Sequence[Mapping[str, Accuracy]]]  # by side and run, by tag
    maps: Sequence[Sequence[WordMap] | None]  # by side, by example
    extractions: Sequence[str]  # by side, the layer and head of the maps, or the reason why there are none


def collect_evidence(
    comparison: Comparison, sides: Sequence[Side], challenge: str, contrasts: Sequence[ContrastivePair]
) -> tuple[Evidence, list[str]]:
    """Run every model that can be loaded on the challenge set, and the first of each side on the examples.

    Returns:
        The evidence, and a warning for each model that could not be used.
    """
    accuracy, maps, extractions, warnings = [], [], [], []
    for number, side in enumerate(sides):
        found = []
        for run in side.runs:
            is_first = run is side.runs[0]
            pairs = [(each.source, each.translations[number]) for each in comparison.examples] if is_first else []
            try:
                if run.has_model:
                    found.append(evaluate_model(run.path, contrasts, pairs, run.direction(comparison.split)))
            except HeedError as error:
                # For example a model of another version of heed. Its translations can still be compared.
                warnings.append(f"The model of {run.path} was not used: {error}")
        accuracy.append([of_run for of_run, _, _ in found if of_run])
        side_maps, extraction = next(((maps, how) for _, maps, how in found if how), (None, ""))
        maps.append(side_maps)
        extractions.append(extraction)
    return Evidence(challenge, accuracy, maps, extractions), warnings


def evaluate_model(
    run: Path, contrasts: Sequence[ContrastivePair], pairs: Sequence[tuple[str, str]], direction: str | None = None
) -> tuple[dict[str, Accuracy], list[WordMap] | None, str]:
    """Evaluate one model on contrastive pairs and (source, translation) pairs, these in a direction of the model.

    Returns:
        The accuracy by tag; the attention map of each (source, translation) pair, or None; and the layer and head of
        the maps, which the model folder's ``alignment`` section selects, or the reason why there are none.
    """
    translator = load(run, max_tokens=None)
    # A contrastive pair is scored twice: the good and the bad translation.
    total = 2 * len(contrasts) + len(pairs)
    with progress_bar(f"Challenge set and attention maps of {run}", total=total, unit="sentences") as bar:
        translator.on_batch = bar.update
        accuracy = contrastive_accuracy(translator, contrasts) if contrasts else {}
        reader = translator.in_direction(direction)
        reader.on_batch = bar.update
        attended = reader.attend([src for src, _ in pairs], [tgt for _, tgt in pairs]) if pairs else []
    if not attended or attended[0].cross is None:
        return accuracy, None, "no cross-attention" if attended else ""
    extraction = choose_extraction(translator.alignment, attended[0])
    maps = [
        WordMap(split_words(pair.source), split_words(pair.target), word_maps(pair)[extraction.index])
        for pair in attended
    ]
    return accuracy, maps, str(extraction)
