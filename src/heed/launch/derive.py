"""Options that follow from another run: fine-tuning with ``init_from=``, and equal conditions with ``match=``."""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, TypedDict

from heed.data.pairs.tokenizer import Tokenizer
from heed.data.text.corpus import Corpus, EvaluationSet
from heed.data.text.formats.files import read_lines
from heed.data.text.source import Sentences
from heed.errors import HeedError
from heed.inference import model_folder
from heed.languages import Direction, base_language
from heed.launch.compose import Options
from heed.launch.parts import build_model_on, build_part
from heed.models.seq2seq import ModelConfig
from heed.options import format_value, get_option, with_options
from heed.progress import print_line
from heed.runs.config import GRID_FILE, read_config
from heed.runs.results import RESULTS, direction_of, read_results

PARENT_TESTS = "parent-"
"""The beginning of the names of test sets that a run has from the run that it fine-tunes."""


def inherit(options: Options, words: Sequence[str]) -> Options:
    """Return the options with those of ``model`` replaced by the parent model's, except those that ``words`` choose.

    ``model=NAME`` must name a model of the same family. It only makes the family's options known.

    Raises:
        HeedError: if a word asks for another family of models, other shapes of weights, or another tokenizer.
    """
    parent_name, folder = options["init_from"], model_folder.find(Path(options["init_from"]))
    _, parent = model_folder.read_config(folder)
    given = [match[1] for word in words if (match := re.match(r"\+{0,2}([\w./]+)=", word))]
    vocabulary = options["tokenizer"].get("vocabulary")
    if chosen := [name for name in given if re.match(r"tokenizer\b", name) and _is_inherited(name, vocabulary)]:
        other = "" if vocabulary == "new" else ", or set tokenizer.vocabulary=new"
        raise HeedError(
            f"{' and '.join(chosen)} cannot be chosen with init_from= and tokenizer.vocabulary={vocabulary}, because "
            f"it is inherited: leave it out{other}."
        )
    if "model" in given and options["model"].get("_target_", "").rpartition(".")[2] != type(parent).__name__:
        raise HeedError(f"init_from={parent_name} is a model of the family {parent.family}: leave out model=NAME.")
    # model.dropout and model/attention both name options.
    paths = [name.replace("/", ".") for name in given if name.startswith(("model.", "model/"))]
    architecture = _change(parent, options, paths)
    if not _has_shapes(architecture, folder):
        wrong = [path for path in paths if not _has_shapes(_change(parent, options, [path]), folder)] or paths
        raise HeedError(
            f"init_from={parent_name} cannot be trained with other {' and '.join(wrong)}, which change the "
            "shapes of its weights: leave out these options."
        )
    return {**options, "model": _with_targets(architecture)}


def with_parent_tests(corpus: Corpus, parent: Path) -> Corpus:
    """Return the corpus with the test sets of the run that is fine-tuned, as parent-NAME: they show what is forgotten.

    Sets that the corpus has, and those of other directions, are left out. A copy of a model folder has no test sets.
    """
    run = parent if (parent / RESULTS).is_file() else parent.parent
    results = read_results(run / RESULTS) if (run / RESULTS).is_file() else {"tests": {}}
    tests, known = {}, [part.text for part in (*corpus.valid.values(), *corpus.tests.values())]
    for name in results["tests"]:
        direction = direction_of(results, name)
        files = [run / "translations" / f"{name}.{side}" for side in ("src", "ref")]
        is_known = name.startswith(PARENT_TESTS) or direction not in corpus.directions
        if is_known or not all(file.is_file() for file in files):
            continue
        src, tgt = (list(read_lines(file, lambda _: None)) for file in files)
        if all((src, tgt) != (other.src, other.tgt) for other in known):
            tests[PARENT_TESTS + name] = EvaluationSet(Sentences(src, tgt), direction)
    return replace(corpus, tests=corpus.tests | tests)


def _is_inherited(option: str, vocabulary: str) -> bool:
    """Return whether an option of the tokenizer is the parent model's."""
    free = {"vocabulary", "bpe_dropout"}
    if vocabulary == "extend":
        free |= {"vocab_size", "character_coverage", "max_sentences"}
    name = option.removeprefix("tokenizer.")
    return name == "joint" if vocabulary == "new" else name not in free


def compare_directions(parent: Path, directions: Sequence[Direction], *, fits: bool) -> None:
    """Print the directions of a fine-tuning that its model was not trained for.

    Raises:
        HeedError: if there are any, but not ``fits``: each side of the model has only the vocabulary of its language.
    """
    config, _ = model_folder.read_config(model_folder.find(parent))
    before = config.get("directions") or [[config.get("src_lang", ""), config.get("tgt_lang", "")]]
    trained = [Direction(*pair) for pair in before]
    known = {tuple(map(base_language, pair)) for pair in trained}
    new = [pair for pair in directions if tuple(map(base_language, pair)) not in known]
    if not new or {"", "und"} & {*chain(*known, *new)}:  # unknown languages
        return
    fine_tunes = f"fine-tunes {', '.join(map(str, trained))} for {', '.join(map(str, new))}"
    if not fits:
        raise HeedError(
            f"init_from={parent} {fine_tunes}, which have other vocabularies: swap the sides of the text "
            "(data.reverse), or set tokenizer.vocabulary=new."
        )
    print_line(f"init_from={parent} {fine_tunes}.")


def _change(architecture: ModelConfig, options: Options, paths: Iterable[str]) -> ModelConfig:
    """Return the architecture with the values that ``options`` have at these paths ("model.dropout")."""
    changed = {"model": _with_targets(architecture)}
    changed = with_options(changed, {path: get_option(options, path) for path in paths})
    return build_part(changed["model"], where="model.")


def _has_shapes(architecture: ModelConfig, folder: Path) -> bool:
    """Return whether a model of this architecture has weights of the same names and shapes as a model folder."""
    model = build_model_on("meta", architecture, **Tokenizer.load(folder).vocabulary)
    return model_folder.has_shapes_of(model, folder)


def _with_targets(part: Any) -> Any:
    """Return a dataclass as the options from which `build_part` builds an equal one."""
    if not is_dataclass(part):
        return part
    options = {field.name: _with_targets(getattr(part, field.name)) for field in fields(part)}
    return {"_target_": f"{type(part).__module__}.{type(part).__qualname__}", **options}


# ---- match=

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
