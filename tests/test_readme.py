"""The commands of README.md work: those of train.py with ``debug=smoke``; those of heed are parsed."""

import json
import random
import re
import shlex
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
import yaml
from omegaconf import DictConfig

from heed.cli import COMMANDS, build_parser
from heed.launch.configuration import build_parts
from heed.launch.dry_run import dry_run
from heed.runs.selection import Selection

ROOT = Path(__file__).parent.parent

# Smaller than debug=smoke, because these commands differ only in the data they read.
FAST = ["trainer=cpu", "trainer.max_steps=2", "trainer.validate_every=2", "schedule.warmup_steps=1",
        "model=transformer_tiny", "tokenizer.vocab_size=auto", "search.max_length_factor=0.5",
        "callbacks.attention_maps=null", "logger=none"]  # fmt: skip
FEW = ["data.train=60", "data.valid=6", "data.test=6", "data.long=2"]


def commands(markdown: str) -> Iterator[list[str]]:
    """Yield the words of each command of a Markdown text, from indented lines and from backticks in prose."""
    lines, prose = [], []
    for line in markdown.splitlines():
        (lines if line.startswith("    ") else prose).append(line)
    for command in [*lines, *re.findall(r"`([^`]+)`", " ".join(prose))]:
        if not re.search(r"\b(train\.py|heed) ", command + " "):
            continue
        # Square brackets mark optional arguments of heed; on the command line of train.py they are lists.
        text = command if "train.py" in command else re.sub(r"[][]", "", command)
        parts = shlex.shlex(text, posix=True, punctuation_chars="|<>")
        parts.whitespace_split = True
        words = [word for word in parts if word != "…"]
        for index, word in enumerate(words):
            if word == "train.py" or word.split("/")[-1] == "heed":
                end = next((i for i in range(index, len(words)) if words[i] in ("|", "<", ">")), len(words))
                yield [word.split("/")[-1], *words[index + 1 : end]]


COMMANDS_IN_README = [*map(list, dict.fromkeys(map(tuple, commands((ROOT / "README.md").read_text("utf-8")))))]
TRAIN = [words for program, *words in COMMANDS_IN_README if program == "train.py" and "--help" not in words]
HEED = [words for program, *words in COMMANDS_IN_README if program == "heed" and words]


def test_commands_are_found() -> None:
    text = "Prose, and `heed x [--y]`.\n\n    echo a | .venv/bin/heed z < in  # why\n    python train.py a='[[b]]'\n"
    assert list(commands(text)) == [["heed", "z"], ["train.py", "a=[[b]]"], ["heed", "x", "--y"]]
    assert len(TRAIN) >= 8
    assert {words[0] for words in HEED} >= {"translate", "score", "evaluate", "align", "attend", "compare", "average"}


@pytest.mark.parametrize("words", TRAIN, ids=" ".join)
def test_train_builds(compose: Callable[..., DictConfig], tmp_path: Path, words: list[str]) -> None:
    """Everything except the data is composed and built; of a sweep, each job."""
    overrides = [word for word in words if word != "-m"]
    jobs = [overrides]
    if "-m" in words:
        choices = ([f"{name}={value}" for value in values.split(",")] for name, values in map(_split, overrides))
        jobs = [list(job) for job in product(*choices)]
    for job in jobs:
        cfg = compose(*job, "debug=smoke")
        dry_run(cfg)
        build_parts(cfg)["trainer"](folder=tmp_path, selection=Selection(), callbacks=[], loggers=[])


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [words for words in TRAIN if not words or words[0] == "data=files" or "data.root=DIR" in words],
    ids=" ".join,
)
def test_train_runs(command: Callable[..., tuple[int, str]], tmp_path: Path, words: list[str]) -> None:
    """Commands that differ in the data they read, on a few sentences."""
    write_data(words)
    status, output = command(*words, "debug=smoke", *FAST, *([] if words else FEW), f"hydra.run.dir={tmp_path}/run")
    assert status == 0, output
    assert (tmp_path / "run" / "results.json").exists()


@pytest.mark.parametrize("words", HEED, ids=" ".join)
def test_heed_parses_the_options(words: list[str]) -> None:
    name, *options = words
    assert name in {command.name for command in COMMANDS}
    if options:  # a command without options is only mentioned in prose
        build_parser().parse_args(words)


def write_data(words: list[str]) -> None:
    """Write the files that a command names, and the folder DIR."""
    rng = random.Random(3)
    numbers = [[str(rng.randrange(10)) for _ in range(rng.randint(2, 6))] for _ in range(40)]
    for file in re.findall(r"[\w.]+\.(?:en|de|jsonl)\b", " ".join(words)):
        _write(Path(file), numbers)
    if "data.root=DIR" in words:
        data = yaml.safe_load((ROOT / "conf" / "data" / "multi30k.yaml").read_text(encoding="utf-8"))
        for stem in data["stems"].values():
            for language in (data["src_lang"], data["tgt_lang"]):
                _write(Path("DIR") / f"{stem}.{language}", numbers)


def _write(path: Path, numbers: list[list[str]]) -> None:
    # Sources differ between files, because training pairs that are also in a test set are dropped.
    lines = [f"{path.stem} {' '.join(line)}" for line in numbers]
    if path.suffix == ".jsonl":
        lines = [json.dumps({"en": line, "ja": line.replace(" ", "、")}, ensure_ascii=False) for line in lines]
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _split(override: str) -> tuple[str, str]:
    name, _, value = override.partition("=")
    return name, value
