"""config.yaml of runs: which options a resumed run may change, and what the digest depends on."""

import ast
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import heed
from heed.launch.compose import Command
from heed.runs.config import ROLES, changed_options, config_digest, find_config, read_config, role, write_config

CONFIG: dict[str, Any] = {
    "seed": 1,
    "resume": False,
    "cache_dir": "cache",
    "data": {"train": [["a.en", "a.de"]], "cache_dir": "cache"},
    "trainer": {"max_steps": 5, "devices": 1},
}


@pytest.mark.parametrize(
    ("changes", "changed", "same_digest"),
    [
        ({}, [], True),
        ({"seed": 2}, ["seed"], False),
        ({"data": {"train": [["b.en", "b.de"]], "cache_dir": "cache"}}, ["data.train"], False),
        ({"data": {"train": [["a.en", "a.de"]], "cache_dir": "other"}, "cache_dir": "other"}, [], True),
        ({"data": CONFIG["data"] | {"preparation": {"num_proc": 4}}}, [], True),
        ({"resume": True, "trainer": {"max_steps": 5, "devices": 2}}, [], True),
        ({"trainer": {"max_steps": 5, "devices": 1, "precision": "bf16-mixed"}}, ["trainer.precision"], False),
        ({"ckpt_path": "a.ckpt"}, [], False),
        # A resumed run may train longer; the results are then of another run.
        ({"trainer": {"max_steps": 9, "devices": 1}}, [], False),
    ],
)
def test_options_that_may_change(changes: dict[str, Any], changed: list[str], same_digest: bool) -> None:
    now = deepcopy(CONFIG) | changes
    assert changed_options(CONFIG, now) == changed
    assert (config_digest(CONFIG) == config_digest(now)) == same_digest


def test_what_is_written_is_read(tmp_path: Path) -> None:
    shared = [1, 2]
    write_config(tmp_path, {**CONFIG, "one": shared, "two": shared})
    assert read_config(tmp_path) == {**CONFIG, "one": [1, 2], "two": [1, 2]}


def test_a_model_folder_is_not_a_run(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("family: rnn\n")
    assert find_config(tmp_path) is None
    assert find_config(tmp_path / "missing") is None


def test_a_class_that_moved_to_another_module_is_no_change() -> None:
    before = {"model": {"_target_": "heed.models.rnn.RNNConfig", "attention": {"_target_": "old.A", "window": 2}}}
    now = {"model": {"_target_": "heed.models.rnn_config.RNNConfig", "attention": {"_target_": "new.A", "window": 2}}}
    assert changed_options(before, now) == []
    now["model"]["attention"]["_target_"] = "new.B"
    assert changed_options(before, now) == ["model.attention"]


def test_the_number_of_skipped_steps_may_change_and_other_options_of_the_module_may_not() -> None:
    now = {"module": {"_target_": "heed.TranslationModule", "clip_norm": 1.0, "max_skipped_steps": 50}}
    before = {"module": {"_target_": "heed.TranslationModule", "clip_norm": 0.5, "max_skipped_steps": 5}}
    assert changed_options(before, now) == ["module.clip_norm"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("callbacks.attention_maps.sentences", "harmless"),
        ("callbacks.ema.decay", "condition"),
        ("data.preparation.num_proc", "harmless"),
        ("data.train", "text"),
        ("data.train.news.files", "text"),
        ("data.train.news.noise.typos", "condition"),
        ("data.valid.en-de", "text"),
        ("tokenizer.cache_dir", "condition"),
        ("model.attention.score", "model"),
        ("modelling", "condition"),
        ("trainer.max_time", "limit"),
    ],
)
def test_the_role_of_an_option_is_its_own_or_that_of_its_group(name: str, expected: str) -> None:
    assert role(name) == expected


def test_every_option_with_a_role_exists(compose: Callable[..., Command]) -> None:
    plain = [compose(*choices).options for choices in ([], ["data=multi30k"])]
    names = {name for config in plain for name in flatten(config)}
    assert [option for option in ROLES if option not in names] == []


def flatten(config: Any, prefix: str = "") -> Iterator[str]:
    for key, value in config.items() if isinstance(config, dict) else ():
        yield f"{prefix}{key}"
        yield from flatten(value, f"{prefix}{key}.")


def test_the_config_of_a_run_may_name_thousands_of_files(tmp_path: Path) -> None:
    config = {"data": {"train": [[f"part-{number:05d}.en", f"part-{number:05d}.de"] for number in range(7000)]}}
    write_config(tmp_path, config)
    assert read_config(tmp_path) == config


def test_no_message_advises_an_option_that_a_resumed_run_refuses(compose: Callable[..., Command]) -> None:
    options = {*flatten(compose().options)}
    sentences = [sentence for text in texts_of_the_code() for sentence in re.split(r"(?<=[.:]) |\n", text)]
    advised = {
        name
        for sentence in sentences
        if re.search(r"\bresum(e|ing)\b", sentence)
        for name in re.findall(r"\b[a-z_]+(?:\.[a-z_]+)+\b", sentence)
        if name in options
    }
    assert {name: role(name) for name in advised if role(name) not in ("harmless", "limit")} == {}


def texts_of_the_code() -> Iterator[str]:
    """Yield the strings in heed's code without docstrings."""
    for path in Path(heed.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield node.value
