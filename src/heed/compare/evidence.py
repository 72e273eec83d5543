"""Collect the results that need the models of the compared runs, and choose the challenge set."""

from collections.abc import Sequence
from pathlib import Path

from heed import synthetic
from heed.compare.challenge import Contrast, read_challenge
from heed.compare.comparison import Comparison
from heed.compare.models import Evidence, evaluate_model
from heed.compare.runs import Side
from heed.errors import HeedError

CONTRASTS_PER_TAG = 200
"""Sentences per phenomenon from the built-in challenge set: enough to distinguish 60 % accuracy from chance."""


def choose_challenge(challenge: str | None, sides: Sequence[Side]) -> tuple[str, Sequence[Contrast]]:
    """Return the name and the items of the challenge set, which may be empty.

    Without a file, it is the built-in one if all runs were trained on the built-in corpus.
    """
    if challenge == "none":
        return "", []
    if challenge:
        return challenge, read_challenge(Path(challenge))
    runs = [run for side in sides for run in side.runs]
    corpora = [[run.results.get(key) for key in ("data", "src_lang", "tgt_lang")] for run in runs]
    if any(corpus != ["synthetic", "en", "de"] for corpus in corpora) or not any(run.has_model for run in runs):
        return "", []
    return "the built-in challenge set", synthetic.challenge(seed=1, per_tag=CONTRASTS_PER_TAG)


def collect_evidence(
    comparison: Comparison, sides: Sequence[Side], challenge: str, contrasts: Sequence[Contrast]
) -> tuple[Evidence, list[str]]:
    """Run every model that can be loaded on the challenge set, and the first of each side on the examples.

    Returns:
        The evidence, and a warning for each model that could not be used.
    """
    accuracy, maps, extractions, warnings = [], [], [], []
    for number, side in enumerate(sides):
        answers = []
        for run in side.runs:
            first = run is side.runs[0]
            examples = [(each.source, each.translations[number]) for each in comparison.examples] if first else []
            try:
                if run.has_model:
                    answers.append(evaluate_model(run.path, contrasts, examples))
            except HeedError as error:
                # For example a model of another version of heed. Its translations can still be compared.
                warnings.append(f"The model of {run.path} was not used: {error}")
        with_maps = next((answer for answer in answers if answer.extraction), None)
        accuracy.append([answer.accuracy for answer in answers if answer.accuracy])
        maps.append(with_maps.maps if with_maps else None)
        extractions.append(with_maps.extraction if with_maps else "")
    return Evidence(challenge, accuracy, maps, extractions), warnings
