"""Conclude a study: compare the best configurations over other seeds, and write the winner as a preset."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import variance
from typing import Any

from omegaconf import OmegaConf

from heed.data.text.corpus import Corpus
from heed.decoding.search import Search
from heed.errors import HeedError
from heed.evaluation.scores import SystemOutput, score_output
from heed.files import write_file, writing
from heed.inference.loading import load
from heed.launch import program
from heed.launch.compose import Command
from heed.launch.parts import build_part
from heed.launch.run import load_metrics
from heed.options import get_option, with_options
from heed.report.comparison import compare_runs
from heed.report.sweep import Configuration, TrialSummary, Verdict
from heed.report.sweep_text import format_objective, mean_and_sd
from heed.runs.config import read_config
from heed.runs.folder import RunFolder
from heed.runs.model_card import write_model_card
from heed.runs.results import RESULTS, plain_scores, read_results, scores_of_tests, write_results
from heed.sweep.plan import Plan
from heed.sweep.study import VERDICT
from heed.sweep.summary import read_verdict

LEFT_OUT = ("name", "seed", "test", "logger", "resume", "sweep")
"""Options of a single run, left out of a preset."""
MARK = "# Written by a search: "


def write_verdict(
    plan: Plan, candidates: Sequence[Configuration], trials: Sequence[TrialSummary], *, first_seed: int
) -> None:
    """Write the verdict, unless another worker has written it.

    The winner translates the test sets and becomes a preset, and a page compares the configurations.

    Args:
        trials: runs of the candidates with other seeds, ordered by candidate, then by seed.

    Raises:
        HeedError: if every run failed.
    """
    configurations = confirmed(candidates, trials, first_seed=first_seed)
    written = read_verdict(plan.folder / VERDICT)
    if written and [one.runs for one in written.configurations] == [one.runs for one in configurations]:
        return
    scored = [one for one in configurations if one.valid]
    scored.sort(key=lambda one: one.mean, reverse=plan.settings.directions[0] == "maximize")
    if not scored:
        raise HeedError(f"Every run to confirm the best configurations failed: {configurations[0].failed[0]}")
    winner = scored[0]
    path, command = _write_preset(plan, winner)
    verdict = Verdict(
        configurations=configurations,
        winner=winner.number,
        noise=pooled_deviation(configurations),
        tests=_test_scores(plan.folder, winner),
        experiment=str(path),
        rerun=shlex.join([*command, f"seed={winner.seeds[0]}"]),
        compare=_compare(plan.folder, scored),
    )
    write_file(plan.folder / VERDICT, json.dumps(asdict(verdict), indent=2, ensure_ascii=False) + "\n")


def confirmed(
    candidates: Sequence[Configuration], trials: Sequence[TrialSummary], *, first_seed: int
) -> list[Configuration]:
    """Return the candidates with the scores of the trials that trained them again."""
    count = len(trials) // len(candidates)
    found = []
    for place, candidate in enumerate(candidates):
        by_seed = dict(enumerate(trials[place * count : (place + 1) * count], start=first_seed))
        complete = {seed: trial for seed, trial in by_seed.items() if trial.state == "complete"}
        found.append(
            replace(
                candidate,
                runs=[trial.folder for trial in complete.values()],
                seeds=list(complete),
                valid=[trial.values[0] for trial in complete.values()],
                failed=[f"seed {s}: {t.reason or 'its worker died'}" for s, t in by_seed.items() if s not in complete],
            )
        )
    return found


def pooled_deviation(configurations: Sequence[Configuration]) -> float | None:
    """Return the standard deviation over seeds, pooled over configurations; None if none has two seeds."""
    several = [one.valid for one in configurations if len(one.valid) > 1]
    if not several:
        return None
    squares = sum((len(scores) - 1) * variance(scores) for scores in several)
    return float(squares / sum(len(scores) - 1 for scores in several)) ** 0.5


def score_tests(run: Path) -> dict[str, dict[str, Any]]:
    """Translate the test sets with the model of a finished run, add the scores to its results, and return them."""
    results = read_results(run / RESULTS)
    if results["tests"]:  # another worker did so and died
        return dict(results["tests"])
    folder = RunFolder(run, read_config(run))
    corpus: Corpus = build_part(folder.config["data"], where="data.").load()
    trained = load(run)
    search: Search = build_part(folder.config["search"], where="search.")
    _, metrics = load_metrics(folder.config)
    scored = {}
    for name, (text, direction) in corpus.tests.items():
        translator = trained.in_direction(str(direction))
        translations = translator.without_fallbacks().translate(text.src)
        output = SystemOutput(
            hypotheses=translations,
            references=[text.tgt],
            sources=text.src,
            tgt_lang=direction.tgt_lang,
            likelihood=partial(translator.likelihood, text.src, [text.tgt]),
            maximized=search.utility,
        )
        folder.write_translations(name, text, translations)
        scored[name] = (score_output(output, metrics), float("nan"))  # the loss is not measured here
    results["tests"] = plain_scores(scored)
    results["test"] = scores_of_tests(results["valid"], results["tests"])
    write_model_card(run, results, directions=corpus.directions, license=folder.config["license"])
    write_results(run, results)
    return dict(results["tests"])


def _test_scores(folder: Path, winner: Configuration) -> dict[str, dict[str, Any]]:
    """Return BLEU of the winner's models on each test set."""
    by_run = [score_tests(folder / run) for run in winner.runs]
    return {
        name: {"bleu": [scores[name]["bleu"] for scores in by_run], "signature": first["bleu_signature"]}
        for name, first in by_run[0].items()
    }


def _compare(folder: Path, scored: Sequence[Configuration]) -> str | None:
    """Write a page that compares the configurations on the validation set."""
    if len(scored) < 2:
        return None
    groups = {f"trial {one.number}": [folder / run for run in one.runs] for one in scored}
    compare_runs(groups, split="valid").write(folder / "compare")
    return "compare/index.html"


# ---- the preset


def _write_preset(plan: Plan, winner: Configuration) -> tuple[Path, list[str]]:
    """Write the winner to ``conf/experiment`` of the working directory; return the path and the command to train it.

    If the user has written a preset of this name, the new one gets another name.
    """
    headline = (
        f"trial {winner.number} of the study {plan.name}; {plan.settings.objectives[0]} "
        f"{format_objective(winner.found)} there, {mean_and_sd(winner.valid)} over the seeds "
        f"{', '.join(map(str, winner.seeds))}."
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
    config_dir = [] if program.CONF.parent == Path.cwd() else ["--config-dir", "conf"]
    return path, [*program.command(), *config_dir, f"experiment={path.stem}"]


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
        elif (program.CONF / name).is_dir():
            choices.append({f"override /{name}": choice})
        else:
            options = with_options(options, {name: get_option(command.options, name)})
    return ("" if not choices else OmegaConf.to_yaml({"defaults": choices})) + OmegaConf.to_yaml(options)
