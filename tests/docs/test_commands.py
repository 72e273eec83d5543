"""The commands of README.md and docs/: train is composed and built, the other commands are parsed, and some are run."""

import json
import random
import re
import shlex
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest
from docs.pages import ROOT, pages

from heed.cli import build_parser
from heed.cli import main as heed
from heed.launch.compose import Command
from heed.launch.plan import check_options
from heed.runs.config import read_config
from heed_exercises.__main__ import build_parser as exercise_parser

# Smaller than debug=smoke, because these commands differ only in the data they read.
FAST = ["debug=smoke", "trainer=cpu", "trainer.max_steps=2", "trainer.validate_every=2", "schedule.warmup_steps=1",
        "tokenizer.vocab_size=auto", "search.max_length_factor=0.5", "logger=none"]  # fmt: skip
FEW = ["data.train=60", "data.valid=6", "data.test=6", "data.long=2"]
OTHERS = {"uv", "ssh", "git", "cd", "source", "pip", "echo", "cut", "tail", "hf", "wandb"}
"""Programs that are not ours."""


def commands(markdown: str) -> Iterator[list[str]]:
    """Yield the words of each command of a Markdown text: of ``sh`` blocks, and of heed and train.py in prose."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", markdown, re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.*?^```$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += [code for code in re.findall(r"`([^`\n]+)`", prose) if re.match(r"(heed|python train\.py) [^…]*$", code)]
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>&")
        lexer.whitespace_split = True
        command: list[str] = []
        for word in [*lexer, ";"]:
            if word in ("|", "&&", ";"):
                if command:
                    yield command
                command = []
            else:
                command.append(word)


def without_redirections(words: list[str]) -> list[str]:
    end = next((i for i, word in enumerate(words) if word in ("<", ">")), len(words))
    return words[:end]


ALL = [without_redirections(list(words)) for words in dict.fromkeys(
    tuple(words) for page in pages() for words in commands(page.read_text(encoding="utf-8"))
)]  # fmt: skip
TRAIN = [words[2:] for words in ALL if words[:2] in (["heed", "train"], ["python", "train.py"])]
HEED = [words[1:] for words in ALL if words[0] == "heed" and words[1:2] != ["train"] and len(words) > 2]


def test_commands_are_found() -> None:
    text = "Prose, `heed x --y` and `heed`.\n\n```sh\necho a | heed z < in && b  # why\nheed train a='[[b]]'\n```\n"
    assert [*commands(text)] == [
        ["echo", "a"],
        ["heed", "z", "<", "in"],
        ["b"],
        ["heed", "train", "a=[[b]]"],
        ["heed", "x", "--y"],
    ]
    assert len(TRAIN) >= 20
    main = "translate score evaluate align attend compare average runs"
    assert {words[0] for words in HEED} >= {*main.split()}


@pytest.mark.parametrize("words", TRAIN, ids=" ".join)
@pytest.mark.docs
@pytest.mark.full
def test_train_composes(
    compose: Callable[..., Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """The options are composed and every part is built; of a sweep, each job."""
    overrides = [word for word in words if "=" in word and not word.startswith(("hydra.", "resume=runs/"))]
    write_files(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    if "--config-dir" in words:
        overrides.append(f"hydra.searchpath=[file://{tmp_path}/my_conf]")
    if any(word.startswith("sweep=") for word in overrides):
        overrides = [word for word in overrides if "(" not in word]  # ranges of a search
    if any(word.startswith("init_from=") for word in overrides):
        overrides += ["model.dropout=0.1"]  # which a model has that is fine-tuned
    jobs = [overrides]
    if "-m" in words:
        choices = (
            [word] if "[" in word else [f"{name}={value}" for value in values.split(",")]
            for word in overrides
            for name, _, values in [word.partition("=")]
        )
        jobs = [list(job) for job in product(*choices)]
    for job in jobs:
        check_options(compose(*job).options)


@pytest.mark.parametrize("words", HEED, ids=" ".join)
def test_heed_parses_the_arguments(words: list[str]) -> None:
    build_parser().parse_args(words)


@pytest.mark.parametrize("words", [words for words in ALL if words[0] != "heed"], ids=" ".join)
def test_other_commands_exist(words: list[str]) -> None:
    program, *arguments = words
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert set(arguments) <= set(targets)
    elif program == "python" and arguments[0] == "-m":
        assert find_spec(arguments[1])
    elif program == "python" or program.startswith("recipes/"):
        assert (ROOT / (arguments[0] if program == "python" else program)).exists()
    elif program == "heed-exercise":
        exercise_parser().parse_args(arguments)
    else:
        assert program in OTHERS or program.startswith("pytest")


@pytest.mark.parametrize("words", [words for words in TRAIN if words and words[0] == "data=files"], ids=" ".join)
@pytest.mark.full
def test_train_reads_the_files(command: Callable[..., tuple[int, str]], tmp_path: Path, words: list[str]) -> None:
    write_data(words)
    status, output = command(*words, *FAST, f"hydra.run.dir={tmp_path}/run")
    assert status == 0, output
    assert (tmp_path / "run" / "results.json").exists()


@pytest.mark.full
def test_the_first_screen_of_the_readme(
    command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Train, translate, inspect, compare and the lines of Python, with few sentences and steps."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    first = readme.partition("## Install, train, translate, inspect, compare")[2].partition("More:")[0]
    Path("in.txt").write_text("The woman didn't see the dog.\n", encoding="utf-8")
    ran = []
    for program, *words in commands(first):
        if program not in ("python", "heed") or len(words) < 2:  # a command without arguments is only mentioned
            continue
        ran.append(words[0])
        if words[0] == "train.py":
            status, output = command(*words[1:], *FAST, *FEW)
            assert status == 0, output
        else:
            with Path("in.txt").open(encoding="utf-8") as lines:
                monkeypatch.setattr("sys.stdin", lines)
                assert heed(words) == 0, capsys.readouterr().err
    assert ran == ["train.py", "translate", "attend", "train.py", "compare"]
    assert Path("attention.html").exists()
    assert Path("comparison/index.html").exists()
    exec(re.findall(r"^```python\n(.*?)^```$", first, re.DOTALL | re.MULTILINE)[0], {})


@pytest.mark.full
def test_the_course_assignment(command: Callable[..., tuple[int, str]], capsys: pytest.CaptureFixture[str]) -> None:
    """All commands and the lines of Python, with few sentences and steps."""
    page = (ROOT / "docs" / "assignment.md").read_text(encoding="utf-8")
    for program, *words in commands(page):
        assert program == "heed"
        if len(words) < 2:  # only mentioned
            continue
        if words[0] == "train":
            write_data(words)
            is_built_in = "data=files" not in words
            one_seed = ["seed=1"] * any(word.startswith("experiment=") for word in words)
            few = FEW * is_built_in + one_seed
            status, output = command(*words[1:], *FAST, *few)
            assert status == 0, output
        elif "--serve" not in words:
            write_data(words)
            expanded = ([*map(str, Path().glob(word))] if "*" in word else [word] for word in words)
            few = FEW if words[:2] == ["check", "data=synthetic"] else []
            assert heed([*(word for each in expanded for word in each), *few]) == 0, capsys.readouterr().err
    assert {path.suffix for path in Path("figures").iterdir()} == {".pdf"}
    code = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)[0]
    for example, run in {"runs/a": "0_rnn", "runs/b": "2_transformer"}.items():
        code = code.replace(example, str(next(Path().glob(f"runs/assignment/*/{run}"))))
    exec(code, {})
    assert Path("curves.pdf").exists()


SMALLER = {"model.encoder_layers": "1,2", "trainer.max_steps": "1,2", "+callbacks.norm.every": "1"}
"""Values in place of those of the page."""


@pytest.mark.full
def test_synthetic_pairs_linked_options_and_parts_of_your_own(
    command: Callable[..., tuple[int, str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The commands of three sections, with few sentences and steps, and what their files and callbacks do."""
    write_files(tmp_path)
    write_data(["train.en", "train.de", "valid.en", "valid.de", "test.en", "test.de", "more.de"])
    shown = [
        *commands(section("data", "### Back-translation", "### Distillation")),
        *commands(section("training", "## Parts of your own")),
        *commands(section("sweep", "`${…}` takes the value", "### Grids in one command")),
    ]
    for program, *words in shown:
        if words[0] == "train":
            given = {name: value for name, _, value in (word.partition("=") for word in words[1:])}
            fast = [word for word in [*FAST, *FEW * ("data" not in given)] if word.partition("=")[0] not in given]
            if "schedule" in given:  # its own, without the warm-up of debug=smoke
                fast[fast.index("schedule.warmup_steps=1")] = "~schedule.warmup_steps"
            if "data.reverse" in given:  # its translations are not empty
                fast += ["trainer.max_steps=40", "trainer.validate_every=40", "optimizer.lr=0.01"]
            smaller = (f"{name}={SMALLER.get(name, value)}" if value else name for name, value in given.items())
            status, output = command(*smaller, *fast)
            assert status == 0, output
        elif program == "heed":
            expanded = ([*map(str, Path().glob(word))] if "*" in word else [word] for word in words)
            assert heed([word for each in expanded for word in each]) == 0, capsys.readouterr().err
    runs = {path.parent.name: path for path in Path("runs").glob("*/*") if (path / "results.json").exists()}
    texts = json.loads((runs["forward"] / "results.json").read_text(encoding="utf-8"))["texts"]
    assert {*texts} == {"genuine", "synthetic"}
    assert len(Path("back/1.jsonl").read_text(encoding="utf-8").splitlines()) == 40
    norms = [path.read_text(encoding="utf-8") for path in Path("runs").glob("*/*/weight_norm.txt")]
    assert [len(text.splitlines()) for text in norms] == [2]
    optimizers = [read_config(path.parent)["optimizer"] for path in Path("runs").glob("*/*/config.yaml")]
    assert [found["lr"] for found in optimizers if found["_target_"] == "my_optimizers.SignSGD"] == [3e-4]
    layers = [read_config(path.parent)["model"] for path in Path("runs").glob("*/*/*/config.yaml")]
    assert {(m["encoder_layers"], m["decoder_layers"]) for m in layers if "encoder_layers" in m} >= {(1, 1), (2, 2)}


@pytest.mark.full
def test_results_json_has_the_documented_keys(run: Callable[..., Path]) -> None:
    results = json.loads((run("keys", *FAST, *FEW, "metrics=[ter]") / "results.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "run-folder.md").read_text(encoding="utf-8").partition("## results.json")[2]
    tables = [set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", part, re.MULTILINE))))
              for part in text.partition("## Studies")[0].split("A score set:")]  # fmt: skip
    assert tables == [
        {*results, "directions"},
        set(results["valid"]),
    ]  # only models of several directions have directions


def section(name: str, start: str, end: str = "") -> str:
    """Return a part of a page: from one text, which must be there, to another one or the end of the page."""
    text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    first = text.index(start)
    return text[first : text.index(end, first)] if end else text[first:]


def write_files(folder: Path) -> None:
    """Write the files of the user that the pages show."""
    for name in ("quickstart", "training"):
        page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        shown = re.findall(r"`(my_[\w/]+\.(?:py|yaml))`:\n\n```\w+\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        assert shown
        for path, text in shown:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")


def write_data(words: list[str]) -> None:
    """Write the files that a command names."""
    rng = random.Random(3)
    numbers = [[str(rng.randrange(10)) for _ in range(rng.randint(2, 6))] for _ in range(40)]
    for file in re.findall(r"[\w.]+\.(?:en|de|es|gn|jsonl)\b", " ".join(words)):
        _write(Path(file), numbers)


def _write(path: Path, numbers: list[list[str]]) -> None:
    # Sources differ between files, because training pairs that are also in a test set are dropped.
    lines = [f"{path.stem} {' '.join(line)}" for line in numbers]
    if path.suffix == ".jsonl":
        lines = [json.dumps({"en": line, "ja": line.replace(" ", "、")}, ensure_ascii=False) for line in lines]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
