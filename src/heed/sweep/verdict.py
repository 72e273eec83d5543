"""Conclude a study: compare the best configurations over other seeds, and write the winner as a preset."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from omegaconf import OmegaConf

from heed.errors import HeedError
from heed.files import CONF, write_file, writing
from heed.launch import program_words
from heed.launch.compose import Command
from heed.options import get_option, with_options
from heed.report.comparison import compare_runs
from heed.report.sweep import TrialSummary, Verdict, format_objective, mean_and_sd
from heed.runs.results import RESULTS, read_results
from heed.sweep.plan import Plan
from heed.sweep.study import SharedStudy

LEFT_OUT = ("name", "seed", "test", "logger", "resume", "sweep")
"""Options of a single run, left out of a preset."""
MARK = "# Written by a search: "


def write_verdict(
    plan: Plan, study: SharedStudy, candidates: Sequence[TrialSummary], score_tests: Callable[[TrialSummary], None]
) -> None:
    """Write the verdict on trials that were trained again with other seeds, unless another worker has written it.

    A page compares them, and the winner becomes a preset.

    Args:
        score_tests: translates the test sets with the model of a trial.

    Raises:
        HeedError: if all these trainings failed.
    """
    repeated = [trial for trial in study.all_trials() if trial.confirms]
    complete = [trial for trial in repeated if trial.state == "complete"]
    groups = [(trial, [one for one in complete if one.repeats(trial.number)]) for trial in candidates]
    ranked = [(fmean(one.value for one in runs), trial, runs) for trial, runs in groups if runs]
    ranked.sort(key=lambda group: group[0], reverse=plan.maximize)
    if not ranked:
        raise HeedError(f"Every run to confirm the best configurations failed: {repeated[0].reason}")
    folders = [one.folder for _, _, runs in ranked for one in runs]
    if (written := study.verdict()) and written.runs == folders:
        return
    _, winner, runs = ranked[0]
    for one in runs:
        score_tests(one)
    path, command = _write_preset(plan, winner, runs)
    verdict = Verdict(
        winner=winner.number,
        runs=folders,
        comparison=_compare(plan.folder, {f"trial {trial.number}": group for _, trial, group in ranked}),
        tests=_test_scores(plan.folder, runs),
        experiment=str(path),
        rerun=shlex.join([*command, runs[0].overrides[-1]]),  # the seed
    )
    study.study.set_user_attr("verdict", asdict(verdict))


def _test_scores(folder: Path, runs: Sequence[TrialSummary]) -> dict[str, dict[str, Any]]:
    """Return BLEU of the winner's models on each test set."""
    by_run = [read_results(folder / run.folder / RESULTS)["tests"] for run in runs]
    return {
        name: {"bleu": [scores[name]["bleu"] for scores in by_run], "signature": first["bleu_signature"]}
        for name, first in by_run[0].items()
    }


def _compare(folder: Path, groups: Mapping[str, Sequence[TrialSummary]]) -> Sequence[str]:
    """Write a page that compares configurations on the validation set, and return its verdict on each pair."""
    if len(groups) < 2:
        return []
    report = compare_runs({name: [folder / run.folder for run in runs] for name, runs in groups.items()}, split="valid")
    report.write(folder / "compare")
    return report.comparison.verdict


# ---- the preset


def _write_preset(plan: Plan, winner: TrialSummary, runs: Sequence[TrialSummary]) -> tuple[Path, list[str]]:
    """Write the winner to ``conf/experiment`` of the working directory; return the path and the command to train it.

    If the user has written a preset of this name, the new one gets another name.
    """
    headline = (
        f"trial {winner.number} of the study {plan.name}; {plan.settings.objective} "
        f"{format_objective(winner.score)} there, {mean_and_sd([run.value for run in runs])} over the seeds "
        f"{', '.join(str(run.confirms[1]) for run in runs if run.confirms)}."
    )
    ranges = [option for option in plan.space.options if option.range]
    searched = [f"# {option.name} was searched in {option.text}" for option in ranges]
    preset = _preset(plan.compose(winner.overrides))
    text = "\n".join(["# @package _global_", f"{MARK}{headline}", *searched, preset])
    folder = Path("conf/experiment")
    path, number = folder / f"{plan.name}.yaml", 1
    while path.exists() and MARK not in path.read_text(encoding="utf-8"):
        number += 1
        path = folder / f"{plan.name}_{number}.yaml"
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
    config_dir = [] if CONF.parent == Path.cwd() else ["--config-dir", "conf"]
    return path, [*program_words(), *config_dir, f"experiment={path.stem}"]


def _preset(command: Command) -> str:
    """Return the choices and options of a command as YAML."""
    choices: list[Any] = []
    options: dict[str, Any] = {}
    for word in command.differences:
        name, _, choice = word.lstrip("+~").partition("=")
        if name.partition(".")[0] in LEFT_OUT:
            continue
        if name == "experiment":
            choices.insert(0, choice)
        elif (CONF / name).is_dir():
            choices.append({f"override /{name}": choice})
        else:
            options = with_options(options, {name: get_option(command.options, name)})
    return ("" if not choices else OmegaConf.to_yaml({"defaults": choices})) + OmegaConf.to_yaml(options)
