"""The surfaces through which hostile input can enter heed, each with a strategy of cases."""

import argparse
import gzip
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from heed.cli import build_parser
from tests.reliability import options
from tests.reliability.damage import PIECES, damaged, parquet, write
from tests.reliability.execution import DATA, SRC, TGT, TINY, TWO_STEPS, UNFINISHED, Case, sides, training
from tests.reliability.options import NUMBERS, PLAIN, TEXTS, hydra_value, valid_values

WORDS = st.text("abcdefgäßéжю中文日本あ가. ,'-", max_size=12).map(lambda text: f"a{text}")
FILES: dict[str, Callable[[Sequence[tuple[str, str]]], Sequence[bytes]]] = {
    "[in/c.xx,in/c.yy]": sides,
    "[in/c.xx.gz,in/c.yy.gz]": lambda pairs: [gzip.compress(side, mtime=0) for side in sides(pairs)],
    "in/c.jsonl": lambda pairs: ["".join(json.dumps({"src": s, "tgt": t}) + "\n" for s, t in pairs).encode()],
    "in/c.parquet": lambda pairs: [parquet(src=[s for s, _ in pairs], tgt=[t for _, t in pairs])],
    "['in/ä ö.xx','in/💥.yy']": sides,
}
"""By value of ``data.train`` and so on: the content of the files it names."""


@st.composite
def corpora(draw: st.DrawFn, home: Path) -> Case:
    """Train, validate or test on a generated corpus."""
    entry, split = draw(st.sampled_from(list(FILES))), draw(st.sampled_from(["train", "valid", "test"]))
    names = [name.strip("'") for name in entry.strip("[]").split(",")]
    contents = FILES[entry](draw(st.lists(st.tuples(WORDS, WORDS), min_size=4, max_size=20)))
    files = tuple((write, name, (content, 1)) for name, content in zip(names, contents, strict=True))
    own = {"data.cleaning.max_ratio": "null", f"data.{split}": f"[{entry}]"}
    return draw(damaged(replace(training(DATA["files"], TINY["rnn"], own), damages=files), names))


COMMANDS: dict[str, Callable[[str, str], tuple[str, ...]]] = {
    "translate": lambda one, other: ("--model", one),
    "score": lambda one, other: ("--model", one, "--src", SRC, "--tgt", TGT),
    "align": lambda one, other: ("--model", one, "--src", SRC, "--tgt", TGT, "--gold", "in/gold.txt"),
    "attend": lambda one, other: ("--model", one, "--out", "out.html", "a b c"),
    "evaluate": lambda one, other: ("--model", one, "--src", SRC, "--ref", TGT),
    "average": lambda one, other: (one, "--last", "2", "--out", "out"),
    "compare": lambda one, other: (one, other, "--out", "out"),
    "runs": lambda one, other: ("in",),
}
"""By command: its arguments, given two runs."""
CLEAN = st.tuples(st.text("ab cdefäж中🙂\u3000\u2028\u0301\u200d<>|", max_size=40).map(str.encode), st.just(1))
"""A line of text that every command accepts."""


@st.composite
def models(draw: st.DrawFn, home: Path) -> Case:
    """Run any command on finished runs."""
    command, (run, other) = draw(st.sampled_from(list(COMMANDS))), draw(st.permutations(["in/rnn", "in/transformer"]))
    files = sorted(path.relative_to(home) for path in (home / run).rglob("*") if path.is_file())
    whole = command in ("average", "compare", "runs")
    read = [str(file) for file in files if whole or file.parent.name == "model"]
    case = Case("heed", (command, *COMMANDS[command](run, other)), stdin=draw(st.tuples(CLEAN)), valid=True)
    return draw(damaged(case, read))


@st.composite
def checkpoints(draw: st.DrawFn, home: Path) -> Case:
    """Resume a run, or start from a checkpoint or a model."""
    start_from = draw(st.sampled_from(["resume", "ckpt_path", "init_from"]))
    family = "rnn" if start_from == "resume" else draw(st.sampled_from(list(TINY)))
    steps = {"trainer.max_steps": f"{draw(st.integers(3, 9))}", "trainer.log_every": f"{draw(st.integers(1, 9))}"}
    folder = UNFINISHED if start_from == "resume" else f"in/{family}"
    last = f"{folder}/checkpoints/last-0000002.ckpt"
    files = sorted(str(path.relative_to(home)) for path in (home / folder).rglob("*") if path.is_file())
    value, read = {
        "resume": ("true", [last] * len(files) + files),  # most cases damage the checkpoint
        "ckpt_path": (last, [last, SRC]),
        "init_from": (folder, [file for file in files if "/model/" in file]),
    }[start_from]
    return draw(damaged(training(DATA["files"], TINY[family], TWO_STEPS, steps, {start_from: value}), read))


OPTIONS, CHOICES = list(options.options()), options.choices()
DEPENDENT = [
    "model.d_model", "model.num_heads", "model.residual", "model.positions.kind", "model.positions.max_length",
    "model.positions.merge", "model.attention.coverage", "model.attention.input_feeding",
    "model.attention.max_source", "model.attention.order", "model.attention.reach", "model.attention.score",
    "model.attention.window", "schedule.total_steps", "schedule.warmup_steps", "data.cleaning.max_chars",
    "data.max_eval_tokens", "data.temperature", "search.n_best", "trainer.precision", "batching.device_tokens",
    "module.compile", "tokenizer.bpe_dropout", "tokenizer.vocab_size", "tokenizer.vocabulary",
]  # fmt: skip
"""Options whose valid values depend on other options or on the text."""
ALWAYS_VALID = [option for option in OPTIONS if valid_values(option.hint) is not None and option.name not in DEPENDENT]


@st.composite
def option(draw: st.DrawFn, *, valid: bool) -> Mapping[str, str]:
    """One option with a value, and the choices of groups that it needs."""
    drawn = draw(st.sampled_from(ALWAYS_VALID if valid else OPTIONS))
    inside = valid_values(drawn.hint)
    outside = options.boundary_values(drawn.hint) | PLAIN
    values = outside if inside is None else inside if valid else outside | inside
    return {**drawn.where, drawn.name: hydra_value(draw(values))}


OTHER_CHOICES = st.sampled_from([{group: name} for group, names in CHOICES.items() for name in names])
NAMES = st.sampled_from([option.name for option in OPTIONS])
INVALID_WORDS = st.one_of(
    (NAMES | st.sampled_from(list(CHOICES))).map("~{}".format),
    st.builds("{}{}{}={}".format, st.sampled_from(["", "+", "++"]), NAMES, st.sampled_from(["", "x", ".x"]),
              PLAIN.map(hydra_value)),
    st.text("a=~+${}[]'\"\\,:. \nä", min_size=1, max_size=8),
)  # fmt: skip
"""Deleted options and groups, unknown names, and words that are no options."""


@st.composite
def configurations(draw: st.DrawFn, home: Path) -> Case:
    """Train with options of the command line."""
    valid = draw(st.sampled_from([True, False, False]))
    drawn = draw(st.tuples(option(valid=True)) if valid else st.lists(option(valid=False) | OTHER_CHOICES, max_size=3))
    words = () if valid else draw(st.lists(INVALID_WORDS, min_size=0 if drawn else 1, max_size=1))
    chosen = {name: value for each in drawn for name, value in each.items()}
    data = chosen.get("data", "files")
    family = "rnn" if chosen.get("model", "rnn") == "rnn" else "transformer"
    # BASE has one step, which must be after the warm-up.
    schedule = {"schedule.warmup_steps": "0"} if chosen.get("schedule") == "cosine" else {}
    return training({"data": data}, DATA[data], TINY[family], schedule, chosen, words=words, valid=valid)


LINES_OF_INPUT: st.SearchStrategy[tuple[bytes, int]] = st.one_of(
    st.tuples(st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")), st.just(1)),
    st.tuples(st.binary(max_size=40), st.just(1)),
    st.tuples(st.sampled_from(PIECES), st.sampled_from([1, 3000])),
    st.sampled_from([(b"a ", 20_000), (b"a", 100_000), ("中".encode(), 50_000), (b"a", 10_000_000), (b"a\n", 3000)]),
)
STREAMS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [*[{}] * 20, {"stdin": None}, {"stdout": "full"}, {"stdout": "closed"}]
)


@st.composite
def inputs(draw: st.DrawFn, home: Path) -> Case:
    """Run a command on sentences from standard input or files, with up to two options."""
    valid = draw(st.sampled_from([True, False, False]))
    command = draw(st.sampled_from(["translate", "score", "attend", "align", "evaluate"][: 2 if valid else 5]))
    lines = draw(st.lists(CLEAN if valid or draw(st.booleans()) else LINES_OF_INPUT, max_size=4))
    added = [] if valid else draw(st.lists(command_option(command), max_size=2))
    # Minimum Bayes risk decoding takes up to a quarter of a second for a line.
    most = 100 if "--mbr" in added else sys.maxsize
    content = tuple((text, min(count, most)) for line in lines for text, count in (line, (b"\n", 1)))
    arguments = COMMANDS[command](draw(st.sampled_from(["in/rnn", "in/transformer"])), "")
    if command == "attend":
        arguments = arguments[:-1]  # without its sentence
    files = draw(st.sampled_from([[SRC, TGT], [SRC]][: 1 if valid else 2]))
    written = tuple((write, file, *content) for file in files)
    case = Case("heed", (command, *arguments, *added), written, stdin=content, valid=valid)
    return case if valid else replace(case, **draw(STREAMS))


PATHS = ["in", "in/rnn", "in/transformer/model", "in/text.xx", "in/nothing", "in/text.xx/out", "out", ""]
DEVICES = ["cpu", "cuda", "cuda:1", "mps", "meta", "cpu:1", "x", ""]


def command_option(command: str) -> st.SearchStrategy[str]:
    """One option of a ``heed`` command with a valid or invalid value."""
    (commands,) = (action for action in build_parser()._actions if isinstance(action.choices, dict))
    actions = commands.choices[command]._actions
    known = [each for each in actions if each.option_strings and each.dest not in ("help", "comet")]
    return st.sampled_from(known).flatmap(lambda action: st.sampled_from(list(_words(action))))


def _words(action: argparse.Action) -> Iterator[str]:
    """Yield an option with each value, as one word, because a separate -1 would be read as an option."""
    if action.nargs == 0:
        yield action.option_strings[-1]
        return
    texts: Sequence[str] = [*TEXTS, *DEVICES] if action.dest == "device" else TEXTS
    if action.choices:
        texts = [*map(str, action.choices), "x"]
    elif action.type in (int, float):
        texts = [*map(str, NUMBERS), "", "x", "1_0", "0x10"]
    elif action.type is Path:
        texts = [*PATHS, "/dev/full"] if action.dest in ("out", "png", "npz") else PATHS
    yield from (f"{action.option_strings[-1]}={text}" for text in texts)


SURFACES: dict[str, tuple[Callable[[Path], st.SearchStrategy[Case]], float]] = {
    "corpora": (corpora, 0.06),
    "models": (models, 0.48),
    "checkpoints": (checkpoints, 0.05),
    "configurations": (configurations, 0.09),
    "inputs": (inputs, 0.32),
}
"""By name: the strategy, given the folder of undamaged files, and its share of all cases."""
