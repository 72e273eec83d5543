"""A command keeps what was asked for: its words, choices and folder."""

from pathlib import Path

import pytest

from heed.launch.compose import compose


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
