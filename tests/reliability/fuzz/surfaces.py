"""Where hostile input can enter: for each surface a strategy of cases."""

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import strategies as st

from tests.reliability.fuzz.case import Case, Damage
from tests.reliability.fuzz.damage import PIECES, damaged
from tests.reliability.fuzz.home import BASE, DATA, TINY, TWO_STEPS, overrides, parquet, text_files
from tests.reliability.fuzz.options import PLAIN, choices, ends, flags, inside, options, written

Cases = st.SearchStrategy[Case]


@dataclass(frozen=True)
class Surface:
    """One way into heed.

    Attributes:
        cases: given the folder of undamaged files.
        share: of all cases.
        valid: at least this fraction of its cases is valid by construction.
    """

    name: str
    cases: Callable[[Path], Cases]
    share: float
    valid: float


# ---- corpora

WORDS = st.text("abcdefgäßéжю中文日本あ가. ,'-", max_size=12).map(lambda text: f"a{text}")
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=4, max_size=20)
TABLES = [
    parquet(src=[1, 2], tgt=["a", "b"]), parquet(src=[None, "a"], tgt=["a", None]), parquet(src=["a"]), parquet(),
    parquet(src=[["a"]], tgt=["b"]), parquet(src=[{"a": "b"}], tgt=["b"]), parquet(src=[b"\xff"], tgt=["b"]),
    parquet(src=[], tgt=[]),
]  # fmt: skip


def _jsonl(pairs: Sequence[tuple[str, str]]) -> bytes:
    return "".join(json.dumps({"src": src, "tgt": tgt}) + "\n" for src, tgt in pairs).encode()


FILES: dict[str, Callable[[Sequence[tuple[str, str]]], Sequence[bytes]]] = {
    "[in/c.xx,in/c.yy]": text_files,
    "[in/c.xx.gz,in/c.yy.gz]": lambda pairs: [gzip.compress(side, mtime=0) for side in text_files(pairs)],
    "in/c.jsonl": lambda pairs: [_jsonl(pairs)],
    "in/c.parquet": lambda pairs: [parquet(src=[s for s, _ in pairs], tgt=[t for _, t in pairs])],
    "['in/ä ö.xx','in/💥.yy']": text_files,
}
"""How a corpus is written on the command line, and the content of its files."""


@st.composite
def corpora(draw: st.DrawFn, home: Path) -> Case:
    pairs, entry, split = (
        draw(PAIRS),
        draw(st.sampled_from(list(FILES))),
        draw(st.sampled_from(["train", "valid", "test"])),
    )
    names = [name.strip("'") for name in entry.strip("[]").split(",")]
    files: tuple[Damage, ...] = tuple(
        ("write", name, (content, 1)) for name, content in zip(names, FILES[entry](pairs), strict=True)
    )
    options = {**BASE, "data": "files", **DATA["files"], **TINY["rnn"], f"data.{split}": f"[{entry}]"}
    options |= {"data.cleaning.max_ratio": "null"}
    case = Case("train.py", overrides(options), files, valid=True)
    tables = st.sampled_from(TABLES).map(
        lambda table: replace(case, damages=(*files, ("write", names[0], (table, 1))), valid=False)
    )
    return draw(damaged(case, names) | tables if entry == "in/c.parquet" else damaged(case, names))


# ---- model folders and runs

MODELS = ("in/rnn", "in/transformer")
SRC, TGT = ("in/text.xx",), ("in/text.yy",)
COMMANDS: dict[str, Callable[[str, str], tuple[str, ...]]] = {
    "translate": lambda one, other: ("--model", one),
    "score": lambda one, other: ("--model", one, "--src", *SRC, "--tgt", *TGT),
    "align": lambda one, other: ("--model", one, "--src", *SRC, "--tgt", *TGT, "--gold", "in/gold.txt"),
    "attend": lambda one, other: ("--model", one, "--out", "out.html", "a b c"),
    "evaluate": lambda one, other: ("--model", one, "--src", *SRC, "--ref", *TGT),
    "average": lambda one, other: (one, "--last", "2", "--out", "out"),
    "compare": lambda one, other: (one, other, "--out", "out"),
    "runs": lambda one, other: ("in",),
}
"""By command: its arguments for a run and another."""
WHOLE_RUNS = ("average", "compare", "runs")


@st.composite
def models(draw: st.DrawFn, home: Path) -> Case:
    command = draw(st.sampled_from(list(COMMANDS)))
    run, other = draw(st.permutations(MODELS))
    files = sorted(path.relative_to(home) for path in (home / run).rglob("*") if path.is_file())
    read = [str(file) for file in files if command in WHOLE_RUNS or file.parent.name == "model"]
    case = Case("heed", (command, *COMMANDS[command](run, other)), stdin=((b"a b\nc d e\n", 1),), valid=True)
    return draw(damaged(case, read))


# ---- checkpoints


@st.composite
def checkpoints(draw: st.DrawFn, home: Path) -> Case:
    options = {**BASE, "data": "files", **DATA["files"], **TINY["rnn"], **TWO_STEPS, "trainer.max_steps": "3"}
    folder, beginning = draw(
        st.sampled_from([
            ("runs/run/2026-01-01_00-00-00", {"resume": "true"}),
            ("in/rnn", {"ckpt_path": "in/rnn/checkpoints/last-0000002.ckpt"}),
            ("in/rnn", {"init_from": "in/rnn"}),
        ])
    )  # fmt: skip
    files = sorted(str(path.relative_to(home)) for path in (home / folder).rglob("*") if path.is_file())
    last = [file for file in files if "last-0000002.ckpt" in file]
    read = {"resume": [*last, *last, *files], "ckpt_path": last, "init_from": [f for f in files if "/model/" in f]}
    case = Case("train.py", overrides({**options, **beginning}), valid=True)
    return draw(damaged(case, read[next(iter(beginning))]))


# ---- configurations

OPTIONS = list(options())
CHOICES = choices()


@st.composite
def configurations(draw: st.DrawFn, home: Path) -> Case:
    """One option inside its range, which must succeed; or up to three options, choices, deletions and misspellings."""
    safe = draw(st.integers(0, 3)) == 0
    told: dict[str, str] = {}
    rest: list[str] = []
    if safe:
        option = draw(st.sampled_from(SAFE))
        told |= option.where
        value = inside(option.hint)
        assert value is not None
        told[option.name] = written(draw(value))
    else:
        for _ in range(draw(st.integers(1, 3))):
            match draw(st.sampled_from(["option", "option", "option", "choice", "delete", "unknown", "raw"])):
                case "option":
                    option = draw(st.sampled_from(OPTIONS))
                    told |= option.where
                    values = [
                        strategy for strategy in (inside(option.hint), ends(option.hint), PLAIN) if strategy is not None
                    ]
                    told[option.name] = written(draw(st.one_of(values)))
                case "choice":
                    group = draw(st.sampled_from(list(CHOICES)))
                    told[group] = draw(st.sampled_from(CHOICES[group]))
                case "delete":
                    name = draw(st.sampled_from([*CHOICES, *(option.name for option in OPTIONS)]))
                    rest.append(f"~{name}")
                case "unknown":
                    name = draw(st.sampled_from([option.name for option in OPTIONS]))
                    plus = draw(st.sampled_from(["", "+", "++"]))
                    rest.append(f"{plus}{name}{draw(st.sampled_from(['x', '.x', '']))}={written(draw(PLAIN))}")
                case _:
                    rest.append(draw(st.text("a=~+${}[]'\"\\,:. \nä", min_size=1, max_size=8)))
    family = "rnn" if told.get("model", "rnn") == "rnn" else "transformer"
    data = told.get("data", "files")
    arguments = overrides({**BASE, "data": data, **DATA[data], **TINY[family], **told})
    return Case("train.py", (*arguments, *rest), valid=safe)


DEPENDENT = {
    "model.positions.max_length": "for learned positions only",
    "model.residual": "for several layers only",
    "model.attention.coverage": "for some scores only",
    "schedule.total_steps": "more than the steps of warming up",
}
"""Options whose values other options may rule out."""
SAFE = [option for option in OPTIONS if inside(option.hint) is not None and option.name not in DEPENDENT]
"""Options with values that are right by themselves."""


# ---- standard input and options of commands

LINES: st.SearchStrategy[tuple[bytes, int]] = st.one_of(
    st.tuples(st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")), st.just(1)),
    st.tuples(st.binary(max_size=40), st.just(1)),
    st.tuples(st.sampled_from(PIECES), st.sampled_from([1, 3000])),
    st.sampled_from([(b"a ", 20_000), (b"a", 100_000), ("中".encode(), 50_000), (b"a", 10_000_000), (b"a\n", 3000)]),
)
CLEAN = st.tuples(st.text("ab cdefäж中🙂\u3000\u2028\u0301\u200d<>|", max_size=40).map(str.encode), st.just(1))


@st.composite
def inputs(draw: st.DrawFn, home: Path) -> Case:
    command = draw(st.sampled_from(["translate", "attend", "score", "align", "evaluate"]))
    clean = draw(st.booleans())
    lines = draw(st.lists(CLEAN if clean else LINES, max_size=4))
    given = tuple(piece for line in lines for piece in (line, (b"\n", 1)))
    arguments = COMMANDS[command](draw(st.sampled_from(MODELS)), "")
    damage: tuple[Damage, ...] = ()
    if command == "attend":
        arguments = arguments[:-1]
    elif command != "translate":
        damage = tuple(("write", file, *given) for file in draw(st.sampled_from([SRC, (*SRC, *TGT)])))
    added = draw(st.lists(flags(command), max_size=2))
    case = Case("heed", (command, *arguments, *(word for option in added for word in option)), damage, stdin=given)
    match draw(st.integers(0, 20)):
        case 0:
            return replace(case, stdin=None)
        case 1:
            return replace(case, stdout="full")
        case 2:
            return replace(case, stdout="closed")
    return replace(case, valid=command == "translate" and clean and not added)


SURFACES = [
    Surface("corpora", corpora, share=0.10, valid=0.1),
    Surface("models", models, share=0.40, valid=0.1),
    Surface("checkpoints", checkpoints, share=0.08, valid=0.1),
    Surface("configurations", configurations, share=0.12, valid=0.1),
    Surface("inputs", inputs, share=0.30, valid=0.02),
]
