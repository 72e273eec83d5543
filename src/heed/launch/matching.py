"""Give an arm of a grid the parameters, the time or the target tokens of the first arm (``match=``)."""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, TypedDict

from heed.errors import HeedError
from heed.launch.compose import Options
from heed.launch.parts import build_model_on
from heed.models.seq2seq import ModelConfig
from heed.options import format_value, get_option
from heed.progress import print_line
from heed.runs.config import GRID_FILE, read_config
from heed.runs.results import RESULTS, read_results

QUANTITIES = {"params": "parameters", "time": "seconds of training", "tokens": "target tokens"}
TOLERANCE = 0.02  # the largest relative difference of the numbers of parameters
FACTORS = (8, 4, 2, 1)
"""Of the smallest step between two widths. Products of matrices with round sizes are faster."""


class Match(TypedDict):
    """What matches a run with another one, for ``results.json``."""

    quantity: str
    run: str | None  # the other one; None for the first job of a grid
    options: dict[str, Any]  # that give the run the same quantity


def match_run(
    given: Options, folder: Path | None, architecture: ModelConfig, vocabulary: Callable[[], Mapping[str, Any]]
) -> Match:
    """Return the options with which a run has the parameters, time or target tokens of another one.

    Args:
        folder: of the run; None if it is only described.
        architecture: of its model.
        vocabulary: returns the arguments of `build_model_on` that follow from its tokenizer.

    Raises:
        HeedError: if there is no finished run to match, or no width has about as many parameters.
    """
    quantity = given["match"]
    if quantity not in QUANTITIES:
        raise HeedError(f"match={quantity} is unknown: choose one of {', '.join(QUANTITIES)}.")
    if given["match_to"] is None:
        raise HeedError(f"match={quantity} needs a run to match: train a grid (-m), or give match_to=RUN.")
    run = Path(given["match_to"])
    if (run / GRID_FILE).is_file():
        run = next(run.glob("0_*/"), run / "0")
    if folder and run.resolve() == folder.resolve():
        return {"quantity": quantity, "run": None, "options": {}}
    if not (run / RESULTS).is_file():
        raise HeedError(f"match={quantity} needs the {RESULTS} of {run}: this run is not finished.")
    results = read_results(run / RESULTS)
    options: dict[str, Any] = dict.fromkeys(("trainer.max_steps", "trainer.max_epochs", "trainer.max_time"))
    if quantity == "params":
        value, options = results["params"], _match_parameters(architecture, results["params"], vocabulary())
    elif quantity == "time":
        value = max(1, round(results["train_seconds"]))
        minutes, hours = value // 60, value // 3600
        options["trainer.max_time"] = f"{hours // 24:02}:{hours % 24:02}:{minutes % 60:02}:{value % 60:02}"
    else:
        value, before = results["tgt_tokens"], read_config(run)["batching"]["batch_tokens"]
        options["trainer.max_steps"] = max(1, round(results["steps"] * before / given["batching"]["batch_tokens"]))
    changes = [
        f"{name}={format_value(new)} instead of {format_value(old)}"
        for name, new in options.items()
        if new != (old := get_option(given, name))
    ]
    print_line(f"Match:    {value:,} {QUANTITIES[quantity]}, as {run}: {', '.join(changes) or 'no option changes'}")
    return {"quantity": quantity, "run": str(run), "options": options}


def _match_parameters(architecture: ModelConfig, params: int, vocabulary: Mapping[str, Any]) -> dict[str, int]:
    """Return both widths of the architecture, as options, with which it has ``params`` parameters."""

    @cache
    def count(candidate: ModelConfig) -> int:
        return sum(weight.numel() for weight in build_model_on("meta", candidate, **vocabulary).parameters())

    found = match_widths(architecture, params, count)
    if abs(count(found) - params) > TOLERANCE * params:
        raise HeedError(
            f"match=params: no width of this model gives {params:,} parameters within {TOLERANCE:.0%}; the nearest "
            f"gives {count(found):,}. Change model.* of one of the arms."
        )
    return {f"model.{name}": found.to_plain()[name] for name in ("d_model", found.second_width)}


def match_widths(architecture: ModelConfig, params: int, count: Callable[[ModelConfig], int]) -> ModelConfig:
    """Return the architecture with the widths that make its parameters ``params`` within `TOLERANCE`, or else nearest.

    The ratio of the widths stays the same if some multiple of ``width_multiple`` is near enough. Otherwise ``d_model``
    is the nearest multiple, and the other width makes up for the rest. ``count`` must grow with the widths.
    """
    second, before = architecture.second_width, architecture.to_plain()

    def difference(candidate: ModelConfig) -> int:
        return abs(count(candidate) - params)

    def nearest(make: Callable[[int], ModelConfig]) -> ModelConfig:
        """Return the best of ``make(1)``, ``make(2)``, …, which are ever larger."""
        high = 1
        while count(make(high)) < params:
            high *= 2
        best = bisect_left(range(high), params, lo=1, key=lambda n: count(make(n)))
        return min(map(make, {max(best - 1, 1), best}), key=difference)

    def proportional(multiple: int, n: int) -> ModelConfig:
        other = max(1, round(before[second] * n * multiple / before["d_model"]))
        return replace(architecture, **{"d_model": n * multiple, second: other})

    found = architecture
    for factor in FACTORS:
        if difference(found) > TOLERANCE * params:
            found = nearest(partial(proportional, factor * architecture.width_multiple))
    return found if difference(found) <= TOLERANCE * params else nearest(lambda n: replace(found, **{second: n}))
