"""Read and write ``results.json``, the results of a finished run."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from heed.errors import HeedError
from heed.files import write_file
from heed.languages import Direction
from heed.options import find_wrong_values
from heed.run_format import RUN_FORMAT, check_run_format

if TYPE_CHECKING:
    from heed.evaluation.scores import Scores

RESULTS = "results.json"
"""The last file that a run writes. A run with this file is finished."""

PRUNED = "pruned.txt"
"""Replaces the results if a search ended the run early."""

FACTS_FILE = "facts.json"
"""What the run trains on what, as the terminal shows it at the start."""

INITIAL_SCORES = "initial_scores.json"
"""The scores before fine-tuning, by split."""

RESULT_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("name", "model", "data", "data_digest", "tokenizer_digest", "device", "weights"), str),
    **dict.fromkeys(("src_lang", "tgt_lang", "git", "model_dir", "init_from"), str | None),
    **dict.fromkeys(("format", "seed", "params", "steps", "tokens"), int),
    **dict.fromkeys(("epochs", "train_seconds", "tokens_per_second"), float),
    "search": Mapping[str, Any],
    "options": list[str],
    "decode_seconds": Mapping[str, float],
    "valid": Mapping[str, Any] | None,
    "test": Mapping[str, Any] | None,
    "tests": Mapping[str, Mapping[str, Any]],
    "initial_scores": Mapping[str, Mapping[str, Any]] | None,
}
"""Types of the fields that `read_results` checks."""
SCORE_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("bleu", "chrf"), float),
    "loss": float | None,
    **dict.fromkeys(("bleu_signature", "chrf_signature"), str),
}
"""Types in ``valid``, in ``test`` and in each of ``tests``."""


def direction_of(results: Mapping[str, Any], split: str) -> Direction:
    """Return the languages of a validation or test set of a run."""
    languages = results.get("directions", {}).get(split) or [results.get(f"{side}_lang") for side in ("src", "tgt")]
    return Direction(*(language or "" for language in languages))


def build_results(
    facts: Mapping[str, Any], evaluated: "Mapping[str, tuple[Scores, float]]", *, validated: Sequence[str]
) -> dict[str, Any]:
    """Return the content of ``results.json``: the facts, and the scores and losses of the evaluated splits.

    ``validated`` names the validation sets, one per direction.
    """
    tests = plain_scores(evaluated)
    sets = {split: tests.pop(split) for split in validated}
    valid = sets[validated[0]] if len(sets) == 1 else {**mean_scores(sets), "sets": sets}
    return {"format": RUN_FORMAT, **facts, "valid": valid, "test": scores_of_tests(valid, tests), "tests": tests}


def scores_of_tests(valid: Mapping[str, Any], tests: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return ``test`` of the results: the scores of the first test set or, with several directions, the means."""
    if "sets" in valid and tests:
        return mean_scores(tests)
    return next(iter(tests.values()), None)


def mean_scores(sets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the means of the scores and losses of several sets."""
    parts = list(sets.values())
    losses = [part["loss"] for part in parts]
    signatures = {
        key: " and ".join(dict.fromkeys(part[key] for part in parts)) for key in ("bleu_signature", "chrf_signature")
    }
    return {
        "bleu": fmean(part["bleu"] for part in parts),
        "chrf": fmean(part["chrf"] for part in parts),
        **signatures,
        "not_comparable": f"the mean of {', '.join(sets)}",
        "loss": None if None in losses else fmean(losses),
    }


def scores_by_split(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the scores of every validation and test set."""
    valid = results["valid"]
    return {**(valid.get("sets") or {"valid": valid}), **results["tests"]}


def read_split(run: Path, split: str, suffix: str) -> list[str]:
    """Return the lines of ``translations/<split>.<suffix>`` of a run; ``suffix`` is src, ref or hyp."""
    # Runs end lines with "\n" only; splitlines() would split at other characters, too.
    return (run / "translations" / f"{split}.{suffix}").read_bytes().decode().split("\n")[:-1]


def objective_value(results: Mapping[str, Any], name: str) -> float:
    """Return the objective of a hyperparameter search by its path; raise a HeedError if it has no finite value."""
    value: Any = results
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if not isinstance(value, (int, float)):
        raise HeedError(f"The results hold no number for {name}: it was not measured, or is not finite.")
    return float(value)


def write_results(run: Path, results: Mapping[str, Any]) -> None:
    """Write ``results.json``, and so mark the run as finished."""
    write_file(run / RESULTS, json.dumps(results, indent=2, ensure_ascii=False, allow_nan=False) + "\n", durable=True)


def plain_scores(evaluated: "Mapping[str, tuple[Scores, float]]") -> dict[str, dict[str, Any]]:
    """Return the scores and the loss of each split as plain data. NaN becomes None, because JSON has no NaN."""

    def finite(value: float) -> float | None:
        return value if math.isfinite(value) else None

    plain = {split: {**asdict(scores), "loss": finite(loss)} for split, (scores, loss) in evaluated.items()}
    for scores in plain.values():
        further = {name: {**score, "value": finite(score["value"])} for name, score in scores.pop("metrics").items()}
        scores.update({"metrics": further} if further else {})
    return plain


def read_results(file: Path) -> dict[str, Any]:
    """Read ``results.json``. Fields may be missing, but have the types in `RESULT_FIELDS`.

    Raises:
        HeedError: if the file cannot be read, is not JSON, has another format, or a field has another type.
    """
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise HeedError(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError):
        results = None
    if not isinstance(results, dict):
        raise HeedError(f"{file} is damaged or was not written by heed: copy it again.")
    check_run_format(results.get("format", RUN_FORMAT), file)
    wrong = find_wrong_values(RESULT_FIELDS, results, where="")
    tests = results.get("tests")
    score_sets = {"valid": results.get("valid"), "test": results.get("test")}
    score_sets |= {f"tests.{name}": scores for name, scores in tests.items()} if isinstance(tests, dict) else {}
    for name, scores in score_sets.items():
        if isinstance(scores, dict):
            wrong += find_wrong_values(SCORE_FIELDS, scores, where=f"{name}.")
    if wrong:
        raise HeedError(f"{file} is damaged or was not written by heed: {' '.join(wrong)} Copy it again.")
    return results
