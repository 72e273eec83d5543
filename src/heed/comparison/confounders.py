"""Confounders: what else differs between the sides of a comparison, and what limits its conclusions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from heed.comparison.runs import Run, Side, TestSet
from heed.evaluation.significance import TESTED
from heed.options import format_value
from heed.runs.config import effective_options, role
from heed.runs.results import scores_by_split

OPTIONS_OF_FACTS = ("search.", "weights")  # options that results.json contains

MATCHED_QUANTITIES = {
    "params": ("parameters", "params"),
    "time": ("training time", "train_seconds"),
    "tokens": ("target tokens", "tgt_tokens"),
}
"""What ``match=`` makes equal, and the field of results.json that has the amount."""

UNEQUAL = 1.05  # amounts of training differ if their ratio is larger


@dataclass(frozen=True)
class Fact:
    """A property of every side, formatted, in the order of the sides; None if a run does not record it."""

    name: str
    values: list[str | None]
    equal: bool  # all runs of all sides have the same value


def side_facts(test_set: TestSet, sides: Sequence[Side]) -> list[Fact]:
    """Return the properties of every side: model, data, training, search, speed."""

    def fact(name: str, read: Callable[[Run], Any], form: Callable[[Any], str] = str) -> Fact:
        values = [[_read_or_none(read, run) for run in side.runs] for side in sides]
        equal = len({str(value) for own in values for value in own}) == 1
        return Fact(name, [_format_values(own, form) for own in values], equal)

    number: Callable[[float], str] = "{:,.0f}".format
    decimal: Callable[[float], str] = "{:,.1f}".format
    split, sentences = test_set.split, len(test_set.sources)
    return [
        fact("Model", lambda run: run.results["model"]),
        fact("Parameters", lambda run: run.results["params"], number),
        fact("Training data", lambda run: f"{run.results['data']} {run.results['train_digest'][:8]}"),
        fact("Tokenizer", lambda run: run.results["tokenizer_digest"][:8]),
        fact("Test set", lambda _: f"{split}, {sentences:,} sentences"),
        fact("Updates", lambda run: run.results["steps"], number),
        fact("Epochs", lambda run: run.results["epochs"]),
        fact("Tokens seen", lambda run: run.results["tokens"], number),
        fact("Training, minutes", lambda run: run.results["train_seconds"] / 60, decimal),
        fact("Training, tokens/s", lambda run: run.results["tokens_per_second"], number),
        fact("Device", lambda run: run.results["device"]),
        fact("Search", lambda run: _format_search(run.results["search"])),
        fact("Decoding, sentences/s", lambda run: sentences / run.results["decode_seconds"][split], decimal),
        fact("Weights", lambda run: run.results["weights"]),
        fact("Code", lambda run: run.results["git"]),
    ]


def _read_or_none(read: Callable[[Run], Any], run: Run) -> Any:
    """Return None if the run does not record the value."""
    try:
        return read(run)
    except (KeyError, ZeroDivisionError):
        return None


def _format_values(values: Sequence[Any], form: Callable[[Any], str]) -> str | None:
    """Format the values of a side's runs: one value, the range of numbers, or a list of distinct texts."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if isinstance(known[0], int | float) and form(min(known)) != form(max(known)):
        return f"{form(min(known))} – {form(max(known))}"
    return ", ".join(dict.fromkeys(map(form, known)))


def _format_search(settings: Mapping[str, Any]) -> str:
    if "utility" in settings:
        return f"minimum Bayes risk by {settings['utility']}, {settings['samples']} samples and beam {settings['beam']}"
    if "temperature" in settings:
        return f"sampling at temperature {settings['temperature']}"
    return f"beam {settings['beam']}, length penalty {settings['length_penalty']}" if "beam" in settings else "greedy"


def option_facts(sides: Sequence[Side], *, of_model: bool) -> list[Fact]:
    """Return the options that differ between runs and can change the scores.

    Args:
        of_model: return the options of the models, which are compared; otherwise all others, which should be equal.
            Seeds, paths of equal texts, and options that `side_facts` contains are left out.
    """
    options = [[effective_options(run.config or {}) for run in side.runs] for side in sides]
    runs = [run for own in options for run in own]
    known = {name for run in runs for name in run}
    for run in runs:
        for name in [name for name in known if f"{name}._target_" in run]:
            _join_object(run, name)
    ignored = {"seed"} if _differ(sides, "train_digest") else {"seed", "text"}
    facts = []
    for name in dict.fromkeys(name for run in runs for name in run):
        values = [[format_value(run.get(name)) for run in own] for own in options]
        if (
            len({value for own in values for value in own}) > 1
            and (role(name) == "model") == of_model
            and role(name) not in ignored
            and not name.startswith(OPTIONS_OF_FACTS)
            and not _is_of_one_class(name, runs)
        ):
            facts.append(
                Fact(name.removesuffix("._target_"), [_format_values(own, str) for own in values], equal=False)
            )
    return facts


def _join_object(run: dict[str, Any], name: str) -> None:
    """Make an option of the options of its object, because other runs have a plain value: ``linear``, ``0.5``."""
    inner = {option: run.pop(option) for option in [*run] if option.startswith(f"{name}.")}
    kind = inner.pop(f"{name}._target_")
    arguments = (f"{option.removeprefix(f'{name}.')}={format_value(value)}" for option, value in inner.items())
    run[name] = f"{kind}({', '.join(arguments)})"


def _is_of_one_class(name: str, runs: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether some runs lack an option because they have an object of another class."""
    groups = accumulate(name.split(".")[:-1], "{}.{}".format)
    classes = [f"{group}._target_" for group in groups if f"{group}._target_" != name]
    return any(name not in run for run in runs) and any(len({run.get(each) for run in runs}) > 1 for each in classes)


def find_confounders(test_set: TestSet, sides: Sequence[Side], signatures: Mapping[str, str]) -> list[str]:
    """Return a sentence for each reason why the difference may not come from the models.

    ``signatures`` are sacreBLEU's of the comparison's scores, by metric.
    """
    of_runs = [sentence for side in sides for sentence in _unequal_runs(side)]
    return [*_unequal_sides(test_set, sides, signatures), *of_runs, *_weak_evidence(test_set, sides)]


def _unequal_sides(test_set: TestSet, sides: Sequence[Side], signatures: Mapping[str, str]) -> Iterator[str]:
    scores = [scores_by_split(run.results).get(test_set.split) for side in sides for run in side.runs]
    recorded = {each[f"{metric.lower()}_signature"] for each in scores if each for metric in TESTED}
    if others := sorted(recorded - {*signatures.values()}):
        yield (
            "NOT COMPARABLE as recorded: some results.json files have scores with another sacreBLEU signature "
            f"({'; '.join(others)}). All scores in this comparison are computed again with one signature."
        )
    if _differ(sides, "train_digest"):
        yield "Not a fair comparison: the training data differ."
    elif _differ(sides, "data_digest"):
        yield "The training text is the same, but the validation sets or other test sets differ."
    if _differ(sides, "tokenizer_digest"):
        yield "Not a fair comparison: the tokenizers differ, so token counts are not comparable either."
    amounts = {side.name: side.mean("tokens") for side in sides}
    most, least = max(amounts, key=amounts.__getitem__), min(amounts, key=amounts.__getitem__)
    if amounts[most] > UNEQUAL * amounts[least]:
        ratio = f"{amounts[most] / amounts[least]:.1f}×" if amounts[least] else "many times"
        yield f"Different amounts of training: {most} had {ratio} the tokens of {least}."
    if _differ(sides, "search"):
        yield "The search settings differ: part of the difference may come from the search."
    names = {name.lower(): name for name in TESTED}
    for side in sides:
        if metric := names.get(side.runs[0].results.get("search", {}).get("utility")):
            yield f"{metric} of {side.name} is biased, because minimum Bayes risk search maximized it."
    if _differ(sides, "weights"):
        yield "The weights are selected differently (best, last or an average of checkpoints)."
    if lacking := [str(run.path) for side in sides for run in side.runs if run.config is None]:
        yield f"The options of {', '.join(lacking)} are unknown, because config.yaml is missing: copy it, too."
    elif facts := option_facts(sides, of_model=False):
        yield f"Options outside the model differ: {describe_options(facts)}."


def describe_match(sides: Sequence[Side]) -> str:
    """Return the parameters of the sides, and which quantities ``match=`` made equal."""
    params = ", ".join(f"{side.name} {side.mean('params'):,.0f}" for side in sides)
    runs = [run for side in sides for run in side.runs]
    asked = {each["quantity"]: None for run in runs if (each := run.results.get("match"))}
    matched = []
    for name, key in map(MATCHED_QUANTITIES.__getitem__, asked):
        amounts = [run.results.get(key, 0) for run in runs]
        if 0 < max(amounts) <= UNEQUAL * min(amounts):  # runs may have been matched to others than those compared
            matched.append(name)
    return f"Parameters: {params}; {'matched: ' + ', '.join(matched) if matched else 'nothing was matched'}."


def describe_options(facts: Sequence[Fact]) -> str:
    """Return the options with the values of each side."""
    return ", ".join(f"{fact.name} ({' | '.join(map(str, fact.values))})" for fact in facts)


def _unequal_runs(side: Side) -> Iterator[str]:
    """Yield differences between the runs of one side other than the seed."""
    keys = ("model", "params", "data_digest", "tokenizer_digest", "steps", "weights")
    if unequal := [key for key in keys if _differ([side], key)]:
        yield f"The runs of {side.name} differ in more than their seeds: {', '.join(unequal)}."
    if len({run.results.get("seed") for run in side.runs}) < len(side.runs):
        yield f"Runs of {side.name} share a seed: its standard deviation over seeds is too small."


def _weak_evidence(test_set: TestSet, sides: Sequence[Side]) -> Iterator[str]:
    if all(len(side.runs) == 1 for side in sides):
        yield "One seed each: the variance over seeds is unknown."
    elif any(len(side.runs) < 5 for side in sides):
        yield "A system has fewer than five seeds: the variance over seeds is a rough estimate."
    if test_set.split.startswith("valid"):
        yield "The models were selected on the validation set: their scores on it are too high."
    if len(test_set.sources) < 100:
        yield f"Only {len(test_set.sources)} sentences: p-values and intervals are rough estimates."


def _differ(sides: Sequence[Side], key: str) -> bool:
    return len({str(run.results.get(key)) for side in sides for run in side.runs}) > 1
