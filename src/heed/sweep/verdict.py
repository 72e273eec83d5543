"""The end of a study: the best configurations with other seeds, compared, and the winner as a preset."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from heed.data.corpus import Corpus
from heed.errors import HeedError
from heed.evaluation.scores import corpus_scores
from heed.inference.loading import load
from heed.launch.compose import find_differences
from heed.launch.configuration import build_part
from heed.launch.finish import write_card
from heed.report.comparison import write_comparison
from heed.runs.config import read_config
from heed.runs.folder import RunFolder
from heed.runs.objectives import StudyDirection
from heed.runs.results import RESULTS, plain_scores, read_results
from heed.sweep.plan import Plan
from heed.sweep.preset import preset_text, write_preset
from heed.sweep.stored import FORMAT, REASON
from heed.sweep.study import SharedStudy


@dataclass(frozen=True)
class Candidate:
    """One of the best trials of a search."""

    arm: str
    number: int
    folder: str
    overrides: list[str]
    found: float | None
    """Its objective in the search."""


@dataclass(frozen=True)
class Confirmed:
    """A candidate with the runs that trained it again."""

    trial: int
    arm: str
    found: float | None
    overrides: list[str]
    runs: list[str] = field(default_factory=list)
    """Folders relative to that of the study."""
    seeds: list[int] = field(default_factory=list)
    valid: list[float] = field(default_factory=list)
    """The objective of each run."""
    failed: list[str] = field(default_factory=list)
    """Why runs failed."""

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return fmean(self.valid)

    @property
    def sd(self) -> float | None:
        """The standard deviation over the seeds; None for fewer than two."""
        return stdev(self.valid) if len(self.valid) > 1 else None

    def to_plain(self) -> dict[str, Any]:
        """Return it as numbers, strings, lists and dicts."""
        return {**asdict(self), "mean": self.mean if self.valid else None, "sd": self.sd}


def rank(shared: SharedStudy) -> list[tuple[int, list[FrozenTrial]]]:
    """Return the complete trials of a study with one objective, best first; among equals the earlier one first."""
    complete = [(number, chain) for number, chain in shared.trials().items() if chain[-1].state == TrialState.COMPLETE]
    sign = _sign(shared.study.direction.name.lower())  # type: ignore[arg-type]
    return sorted(complete, key=lambda item: (-sign * (item[1][-1].value or 0.0), item[0]))


def confirmation_name(study: str, candidates: Sequence[Candidate]) -> str:
    """Return the name of the Optuna study that trains these candidates again."""
    return f"{study} confirm {' '.join(candidate.folder for candidate in candidates)}"


def confirmed(candidates: Sequence[Candidate], confirmation: SharedStudy) -> list[Confirmed]:
    """Return the candidates with the runs of the confirmation."""
    found = {
        candidate.folder: Confirmed(candidate.number, candidate.arm, candidate.found, candidate.overrides)
        for candidate in candidates
    }
    for _, chain in sorted(confirmation.trials().items()):
        trial = chain[-1]
        if "folder" not in trial.user_attrs:  # a surplus trial
            continue
        folder = trial.user_attrs["folder"]
        name, _, seed = folder.removeprefix("confirm/").rpartition("_seed")
        if trial.state == TrialState.COMPLETE and trial.value is not None:
            found[name].runs.append(folder)
            found[name].seeds.append(int(seed))
            found[name].valid.append(trial.value)
        else:
            found[name].failed.append(f"seed {seed}: {trial.user_attrs.get(REASON, 'its worker died')}")
    return list(found.values())


def winners(configurations: Sequence[Confirmed], direction: StudyDirection) -> list[Confirmed]:
    """Return the best configuration of each arm, the best of all first.

    Raises:
        HeedError: if every run of the confirmation failed.
    """
    valid = sorted((one for one in configurations if one.valid), key=lambda one: -_sign(direction) * one.mean)
    if not valid:
        reasons = [reason for one in configurations for reason in one.failed]
        raise HeedError(f"Every run that was to confirm the best configurations failed: {reasons[:1]}")
    best: dict[str, Confirmed] = {}
    for one in valid:
        best.setdefault(one.arm, one)
    return list(best.values())


def pooled_deviation(configurations: Sequence[Confirmed]) -> float | None:
    """Return the standard deviation over seeds, pooled over the configurations; None without two seeds of any."""
    freedom = sum(len(one.valid) - 1 for one in configurations if len(one.valid) > 1)
    if not freedom:
        return None
    squares = sum((len(one.valid) - 1) * one.sd**2 for one in configurations if one.sd is not None)
    return (squares / freedom) ** 0.5


def score_tests(run: Path) -> dict[str, dict[str, Any]]:
    """Translate the test sets with the model of a finished run, and add them to its results and its model card.

    Returns:
        The scores by test set. A run that has them already is not translated again.
    """
    results = read_results(run / RESULTS)
    if results["tests"]:
        return dict(results["tests"])
    folder = RunFolder(run, read_config(run))
    corpus: Corpus = build_part(folder.config["data"], where="data.").load()
    translator = load(run)
    scored = {}
    for name, (text, direction) in corpus.tests.items():
        translations = translator.in_direction(str(direction)).translate(text.src)
        folder.write_translations(name, text, translations)
        scores = corpus_scores(translations, text.tgt, tgt_lang=direction.tgt_lang)
        scored[name] = (scores, float("nan"))  # the loss is not measured here
    results["tests"] = plain_scores(scored)
    results["test"] = next(iter(results["tests"].values()), None)
    write_card(folder, corpus, results)
    folder.write_results(results)
    return dict(results["tests"])


def summarize_tests(folder: Path, winner: Confirmed) -> dict[str, Any]:
    """Return BLEU on each test set by seed, after translating the test sets with the winner's models."""
    by_run = [score_tests(folder / run) for run in winner.runs]
    summary = {}
    for name in by_run[0]:
        bleu = [scores[name]["bleu"] for scores in by_run]
        summary[name] = {
            "bleu": bleu,
            "mean": fmean(bleu),
            "sd": stdev(bleu) if len(bleu) > 1 else None,
            "signature": by_run[0][name]["bleu_signature"],
        }
    return summary


def decide(plan: Plan, configurations: Sequence[Confirmed], *, trials: int) -> dict[str, Any]:
    """Return the content of ``verdict.json``.

    The winners translate the test sets, the configurations are compared on a page, and the best one becomes a preset.

    Args:
        trials: of the search, for the preset's comment.
    """
    best = winners(configurations, plan.settings.directions[0])
    tests = {one.arm: summarize_tests(plan.folder, one) for one in best}
    path, command = _write_preset(plan, best[0], trials)
    return {
        "format": FORMAT,
        "study": plan.name,
        "configurations": [one.to_plain() for one in configurations],
        "winner": best[0].trial,
        "winner_arm": best[0].arm,
        "noise": pooled_deviation(configurations),
        "test": tests[best[0].arm],
        "tests_by_arm": tests,
        "experiment": str(path),
        "rerun": shlex.join([*command, f"seed={best[0].seeds[0]}"]),
        "compare": _compare(plan.folder, configurations, best),
    }


def _compare(folder: Path, configurations: Sequence[Confirmed], best: Sequence[Confirmed]) -> str | None:
    """Write the comparison page of the configurations or, if there are arms, of their winners on the test set."""
    sides = best if len(best) > 1 else [one for one in configurations if one.runs]
    if len(sides) < 2:
        return None
    groups = [(one.arm.partition("=")[2] or f"trial {one.trial}", [folder / run for run in one.runs]) for one in sides]
    write_comparison(groups, split=None if len(best) > 1 else "valid", out=folder / "compare")
    return "compare/index.html"


def _write_preset(plan: Plan, winner: Confirmed, trials: int) -> tuple[Path, list[str]]:
    """Write the winner as a preset, and return its path and the command that trains it."""
    spread = "" if winner.sd is None else f" ± {winner.sd:.2g}"
    headline = (
        f"trial {winner.trial} of {trials} of the study {plan.name}; {plan.settings.objectives[0]} {winner.found:.4g} "
        f"there, {winner.mean:.4g}{spread} over the seeds {', '.join(map(str, winner.seeds))}."
    )
    reasons = {name: f"searched in {text}" for name, text in plan.arms[winner.arm].texts_by_name().items()}
    with plan.compose(winner.overrides) as cfg:
        text = preset_text(cfg, find_differences(cfg), reasons=reasons, headline=headline)
    return write_preset(text, plan.name)


def _sign(direction: StudyDirection) -> int:
    return 1 if direction == "maximize" else -1
