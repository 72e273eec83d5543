"""A command keeps what was asked for; options that are ``auto`` follow from the number of training pairs."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from heed.launch.compose import compose
from heed.launch.plan import check_options, settle_auto

CONF = Path(__file__).parents[2] / "conf"
TABLE = yaml.safe_load((CONF / "auto.yaml").read_text(encoding="utf-8"))
FILES = ["data=files", "data.train=[[a.en,a.de]]", "data.valid=[[b.en,b.de]]", "data.test=[[c.en,c.de]]"]


def settled(pairs: int, *overrides: str) -> Any:
    """Return the options with values instead of ``auto``; ``init_from`` is not read, only its column is chosen."""
    return OmegaConf.create(settle_auto(compose([*FILES, *overrides]).options, lambda: pairs)[0])


@pytest.mark.parametrize("family", ["transformer", "rnn", "fine_tuning"])
def test_every_column_of_the_table_builds(family: str) -> None:
    overrides = ["init_from=RUN", "model.dropout=0.1"] if family == "fine_tuning" else [f"model={family}"]
    for row, pairs in enumerate(TABLE["pairs"]):
        cfg = settled(pairs, *overrides)
        assert {name: OmegaConf.select(cfg, name) for name in TABLE[family]} == {
            name: values[row] for name, values in TABLE[family].items()
        }
        check_options(OmegaConf.to_container(cfg))  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ["transformer", "rnn"])
def test_the_nearest_number_of_pairs_by_ratio_decides(family: str) -> None:
    sizes, steps = TABLE["pairs"], TABLE[family]["batching.batch_tokens"]
    between = int((sizes[1] * sizes[2]) ** 0.5)
    for pairs, row in [(0, 0), (1, 0), (sizes[0], 0), (between - 1, 1), (between + 2, 2), (10**9, -1)]:
        assert settled(pairs, f"model={family}").batching.batch_tokens == steps[row], pairs


def test_a_value_of_the_user_and_of_a_preset_stays() -> None:
    given = compose([*FILES, "model=transformer_tiny", "schedule.warmup_steps=7"]).options
    options, said = settle_auto(given, lambda: 600)
    assert given["batching"]["batch_tokens"] == "auto"
    assert options["schedule"]["warmup_steps"] == 7
    assert options["model"]["dropout"] == 0.3  # of transformer_tiny
    assert "(for 600 pairs)" in said
    assert "batching.batch_tokens=400" in said
    assert not {"warmup_steps", "model."} & set(said.replace("=", " ").split())


def test_the_text_is_not_counted_if_no_option_depends_on_it() -> None:
    options = compose(["experiment=multi30k_en_de"]).options
    assert settle_auto(options, lambda: pytest.fail("counted"))[1] == ""


@pytest.mark.parametrize("limit", ["trainer.max_steps=9", "trainer.max_time=00:00:01:00"])
def test_a_limit_of_steps_or_time_replaces_that_of_epochs(limit: str) -> None:
    assert settled(600).trainer.max_epochs == TABLE["transformer"]["trainer.max_epochs"][0]
    assert settled(600, limit).trainer.max_epochs is None
    assert settled(600, limit, "trainer.max_epochs=3").trainer.max_epochs == 3


def test_a_limit_of_time_is_no_reason_to_fine_tune_for_more_epochs() -> None:
    fine_tuned = settled(600, "init_from=RUN", "model.dropout=0.1", "trainer.max_time=00:00:01:00")
    assert fine_tuned.trainer.max_epochs == TABLE["fine_tuning"]["trainer.max_epochs"][0]
    assert settled(600, "init_from=RUN", "model.dropout=0.1", "trainer.max_steps=9").trainer.max_epochs is None


def test_the_warm_up_is_at_most_a_tenth_of_the_steps() -> None:
    table = TABLE["transformer"]["schedule.warmup_steps"]
    for steps, expected in ((150, 15), (9, 1), (100_000, table[-1])):
        assert settled(10**6, f"trainer.max_steps={steps}").schedule.warmup_steps == expected
    assert settled(10**6, "trainer.max_steps=150", "schedule.warmup_steps=140").schedule.warmup_steps == 140
    given = compose([*FILES, "trainer.max_steps=150"]).options
    resumed, _ = settle_auto(given, lambda: 10**6, {"schedule": {"warmup_steps": 400}})
    assert resumed["schedule"]["warmup_steps"] == 400
    for wrong in ("abc", "[3]"):  # reported with the other wrong options
        assert settled(10**6, f"trainer.max_steps={wrong}").schedule.warmup_steps == table[-1]


def test_a_model_of_the_user_gets_no_values_of_a_family() -> None:
    options = compose([*FILES, "model._target_=builtins.dict"]).options
    assert settle_auto(options, lambda: pytest.fail("counted"))[1] == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], []),
        (["resume=true", "logger=[csv,wandb]", "folder=a", "cache_dir=b", "hydra.run.dir=c"], []),  # change no result
        (["model=rnn", "model.dropout=0.4", "seed=2"], ["model=rnn", "model.dropout=0.4", "seed=2"]),
        (["model=rnn", "model/attention=additive"], ["model=rnn", "model/attention=additive"]),
        (["~callbacks.ema", "+callbacks.mine._target_=a.B"], ["~callbacks.ema", "+callbacks.mine._target_=a.B"]),
        (["experiment=multi30k_quick", "optimizer.lr=0.1"], ["experiment=multi30k_quick", "optimizer.lr=0.1"]),
    ],
)
def test_words_that_change_what_is_computed(words: list[str], expected: list[str]) -> None:
    assert compose(words).differences == expected


def test_options_are_plain_data_without_interpolations() -> None:
    options = compose(["data=multi30k", "cache_dir=x", "seed=7"]).options
    assert (options["data"]["cache_dir"], options["batching"]["seed"]) == ("x", 7)
    assert options["name"] == "multi30k-transformer"
    assert options["batching"]["batch_tokens"] == "auto"
    assert "hydra" not in options


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        ([], None),
        (["name=x"], None),
        (["folder=a/b"], "a/b"),
        (["hydra.run.dir=a/b"], "a/b"),
        (["name=x", "folder=runs/x"], "runs/x"),
    ],
)
def test_the_folder_is_new_unless_the_command_names_it(words: list[str], folder: str | None) -> None:
    assert compose(words).folder == (None if folder is None else Path(folder).absolute())
