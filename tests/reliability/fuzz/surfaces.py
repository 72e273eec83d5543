"""The surfaces through which hostile input can enter heed, each with a strategy of cases."""

import gzip
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.reliability.fuzz.case import Case
from tests.reliability.fuzz.damage import PIECES, damaged
from tests.reliability.fuzz.home import BASE, DATA, TINY, TWO_STEPS, UNFINISHED, overrides, parquet, text_files
from tests.reliability.fuzz.options import (
    PLAIN,
    boundary_values,
    choices,
    command_option,
    hydra_value,
    options,
    valid_values,
)

Cases = st.SearchStrategy[Case]


@dataclass(frozen=True)
class Surface:
    """One kind of input.

    Attributes:
        cases: the strategy, given the folder of undamaged files.
        share: its share of all cases.
        valid: minimum share of its cases that is valid by construction.
    """

    name: str
    cases: Callable[[Path], Cases]
    share: float
    valid: float


CLEAN = st.tuples(st.text("ab cdefäж中🙂\u3000\u2028\u0301\u200d<>|", max_size=40).map(str.encode), st.just(1))
"""A line of text that every command accepts."""


# ---- corpora

WORDS = st.text("abcdefgäßéжю中文日本あ가. ,'-", max_size=12).map(lambda text: f"a{text}")
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=4, max_size=20)


def _jsonl(pairs: Sequence[tuple[str, str]]) -> bytes:
    return "".join(json.dumps({"src": src, "tgt": tgt}) + "\n" for src, tgt in pairs).encode()


FILES: dict[str, Callable[[Sequence[tuple[str, str]]], Sequence[bytes]]] = {
    "[in/c.xx,in/c.yy]": text_files,
    "[in/c.xx.gz,in/c.yy.gz]": lambda pairs: [gzip.compress(side, mtime=0) for side in text_files(pairs)],
    "in/c.jsonl": lambda pairs: [_jsonl(pairs)],
    "in/c.parquet": lambda pairs: [parquet(src=[s for s, _ in pairs], tgt=[t for _, t in pairs])],
    "['in/ä ö.xx','in/💥.yy']": text_files,
}
"""By value of ``data.train`` and so on: the content of the files it names."""


@st.composite
def corpora(draw: st.DrawFn, home: Path) -> Case:
    """Train, validate or test on a generated corpus."""
    entry, split = draw(st.sampled_from(list(FILES))), draw(st.sampled_from(["train", "valid", "test"]))
    names = [name.strip("'") for name in entry.strip("[]").split(",")]
    contents = FILES[entry](draw(PAIRS))
    files = tuple(("write", name, (content, 1)) for name, content in zip(names, contents, strict=True))
    options = {**BASE, "data": "files", **DATA["files"], **TINY["rnn"], "data.cleaning.max_ratio": "null"}
    case = Case("train.py", overrides({**options, f"data.{split}": f"[{entry}]"}), files, valid=True)
    return draw(damaged(case, names))


SRC, TGT = "in/text.xx", "in/text.yy"


# ---- model folders and runs

MODELS = ("in/rnn", "in/transformer")
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
WHOLE_RUNS = ("average", "compare", "runs")


@st.composite
def models(draw: st.DrawFn, home: Path) -> Case:
    """Run any command on finished runs."""
    command = draw(st.sampled_from(list(COMMANDS)))
    run, other = draw(st.permutations(MODELS))
    files = sorted(path.relative_to(home) for path in (home / run).rglob("*") if path.is_file())
    read = [str(file) for file in files if command in WHOLE_RUNS or file.parent.name == "model"]
    case = Case("heed", (command, *COMMANDS[command](run, other)), stdin=draw(st.tuples(CLEAN)), valid=True)
    return draw(damaged(case, read))


# ---- checkpoints


@st.composite
def checkpoints(draw: st.DrawFn, home: Path) -> Case:
    """Resume a run, or start from a checkpoint or a model."""
    start_from = draw(st.sampled_from(["resume", "ckpt_path", "init_from"]))
    family = "rnn" if start_from == "resume" else draw(st.sampled_from(list(TINY)))
    options = {**BASE, "data": "files", **DATA["files"], **TINY[family], **TWO_STEPS}
    options |= {"trainer.max_steps": f"{draw(st.integers(3, 9))}", "trainer.log_every": f"{draw(st.integers(1, 9))}"}
    folder = UNFINISHED if start_from == "resume" else f"in/{family}"
    last = f"{folder}/checkpoints/last-0000002.ckpt"
    files = sorted(str(path.relative_to(home)) for path in (home / folder).rglob("*") if path.is_file())
    value, read = {
        "resume": ("true", [last] * len(files) + files),  # most cases damage the checkpoint
        "ckpt_path": (last, [last, SRC]),
        "init_from": (folder, [file for file in files if "/model/" in file]),
    }[start_from]
    case = Case("train.py", overrides({**options, start_from: value}), valid=True)
    return draw(damaged(case, read))


# ---- configurations

OPTIONS = list(options())
CHOICES = choices()
NAMES = [option.name for option in OPTIONS]
DEPENDENT = {
    "model.positions.max_length": "for learned positions only",
    "model.d_model": "even for a bidirectional encoder, or a multiple of the heads",
    "model.num_heads": "a divisor of the width",
    "model.residual": "for several layers only",
    "model.attention.coverage": "for some scores only",
    "model.attention.input_feeding": "not without attention",
    "model.attention.max_source": "for location only",
    "model.attention.order": "not bahdanau with input feeding",
    "model.attention.reach": "local with a window, global without one",
    "model.attention.score": "location with max_source, none with the global reach",
    "model.attention.window": "with a local reach",
    "model.positions.kind": "learned with max_length, absolute ones with merge",
    "model.positions.merge": "for absolute positions only",
    "schedule.total_steps": "more than the steps of warming up",
    "schedule.warmup_steps": "fewer than the steps in all, with cosine",
    "data.cleaning.max_chars": "at least the length of a sentence",
    "data.max_eval_tokens": "at least the longest sentence of validation and test",
    "search.n_best": "not more than the beam",
    "trainer.precision": "not 16-mixed with an LSTM on a CPU",
    "module.activation_checkpointing": "for transformers only",
    "module.compile": "for transformers only",
    "data.temperature": "for a mixture only",
    "batching.device_tokens": "at least the longest pair",
    "tokenizer.bpe_dropout": "for BPE only",
    "tokenizer.vocab_size": "at least the characters, at most the pieces of the text",
}
"""Options whose valid values depend on other options."""
ALWAYS_VALID = [option for option in OPTIONS if valid_values(option.hint) is not None and option.name not in DEPENDENT]
"""Options whose type and range alone decide which values are valid."""


@st.composite
def valid_option(draw: st.DrawFn) -> Mapping[str, str]:
    """One option with a valid value, and the choices of groups that it needs."""
    option = draw(st.sampled_from(ALWAYS_VALID))
    values = valid_values(option.hint)
    assert values is not None
    return {**option.where, option.name: hydra_value(draw(values))}


@st.composite
def any_option(draw: st.DrawFn) -> Mapping[str, str]:
    """One option with a valid or invalid value, and the choices of groups that it needs."""
    option = draw(st.sampled_from(OPTIONS))
    valid = valid_values(option.hint)
    values = boundary_values(option.hint) | PLAIN | (st.nothing() if valid is None else valid)
    return {**option.where, option.name: hydra_value(draw(values))}


OTHER_CHOICES = st.sampled_from([{group: name} for group, names in CHOICES.items() for name in names])
INVALID_WORDS = st.one_of(
    st.sampled_from([*CHOICES, *NAMES]).map("~{}".format),
    st.builds(
        "{}{}{}={}".format,
        st.sampled_from(["", "+", "++"]),
        st.sampled_from(NAMES),
        st.sampled_from(["", "x", ".x"]),
        PLAIN.map(hydra_value),
    ),
    st.text("a=~+${}[]'\"\\,:. \nä", min_size=1, max_size=8),
)
"""Deleted options and groups, unknown names, and words that are no options."""


@st.composite
def configurations(draw: st.DrawFn, home: Path) -> Case:
    """Train with options of the command line."""
    valid = draw(st.sampled_from([True, False, False]))
    several = st.lists(any_option() | OTHER_CHOICES, max_size=3)
    drawn = [draw(valid_option())] if valid else draw(several)
    words = () if valid else draw(st.lists(INVALID_WORDS, min_size=0 if drawn else 1, max_size=1))
    chosen = {name: value for options in drawn for name, value in options.items()}
    data = chosen.get("data", "files")
    family = "rnn" if chosen.get("model", "rnn") == "rnn" else "transformer"
    # BASE has one step, which must be after the warm-up.
    schedule = {"schedule.warmup_steps": "0"} if chosen.get("schedule") == "cosine" else {}
    options = {**BASE, "data": data, **DATA[data], **TINY[family], **schedule, **chosen}
    return Case("train.py", (*overrides(options), *words), valid=valid)


# ---- standard input and options of commands

LINES: st.SearchStrategy[tuple[bytes, int]] = st.one_of(
    st.tuples(st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")), st.just(1)),
    st.tuples(st.binary(max_size=40), st.just(1)),
    st.tuples(st.sampled_from(PIECES), st.sampled_from([1, 3000])),
    st.sampled_from([(b"a ", 20_000), (b"a", 100_000), ("中".encode(), 50_000), (b"a", 10_000_000), (b"a\n", 3000)]),
)


@st.composite
def inputs(draw: st.DrawFn, home: Path) -> Case:
    """Run a command on sentences from standard input or files, with up to two options."""
    valid = draw(st.sampled_from([True, False, False]))
    command = draw(st.sampled_from(["translate", "score", "attend", "align", "evaluate"][: 2 if valid else 5]))
    lines = draw(st.lists(CLEAN if valid or draw(st.booleans()) else LINES, max_size=4))
    added = () if valid else draw(st.lists(command_option(command), max_size=2))
    words = [word for option in added for word in option]
    # Minimum Bayes risk decoding takes up to a quarter of a second for a line.
    most = 100 if "--mbr" in words else sys.maxsize
    content = tuple((text, min(count, most)) for line in lines for text, count in (line, (b"\n", 1)))
    arguments = COMMANDS[command](draw(st.sampled_from(MODELS)), "")
    if command == "attend":
        arguments = arguments[:-1]  # without its sentence
    files = draw(st.sampled_from([[SRC, TGT], [SRC]][: 1 if valid else 2]))
    damage = tuple(("write", file, *content) for file in files)
    case = Case("heed", (command, *arguments, *words), damage, stdin=content, valid=valid)
    return case if valid else replace(case, **draw(STREAMS))


STREAMS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [*[{}] * 20, {"stdin": None}, {"stdout": "full"}, {"stdout": "closed"}]
)

SURFACES = [
    Surface("corpora", corpora, share=0.06, valid=0.1),
    Surface("models", models, share=0.48, valid=0.1),
    Surface("checkpoints", checkpoints, share=0.05, valid=0.1),
    Surface("configurations", configurations, share=0.09, valid=0.1),
    Surface("inputs", inputs, share=0.32, valid=0.1),
]
