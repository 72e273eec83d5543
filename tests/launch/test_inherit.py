"""``init_from=``: what a run inherits from a trained model, and its scores before training."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from heed import launch
from heed.errors import HeedError
from heed.languages import Direction
from heed.launch.compose import choose_for_parent, compose
from heed.launch.derive import compare_directions
from heed.runs.records import read_csv

Command = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a small RNN whose architecture differs from every preset."""
    folder = tmp_path_factory.mktemp("trained")
    small = ["model=rnn", "model.d_embedding=12", "model.d_model=8", "model/attention=dot", "model.dropout=0.15"]
    overrides = [*write_options(folder), *small, "trainer.max_steps=3", f"cache_dir={folder}/cache"]
    launch.train(compose(overrides, folder=folder / "parent"))
    return folder / "parent"


@pytest.fixture
def parent(command: Command, trained: Path) -> Path:
    """A copy of the trained run in the working directory."""
    return shutil.copytree(trained, Path("parent"))


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    return write_options(tmp_path)


def write_options(tmp_path: Path, letters: str = "a b c d e f") -> list[str]:
    """Write a small corpus and return the options of its training."""
    tmp_path.mkdir(exist_ok=True)
    lines = [f"{letters[: 1 + i % 11]} {i}" for i in range(12)]
    (tmp_path / "a.xx").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "a.yy").write_text("".join(f"{line[::-1]}\n" for line in lines))
    pair = f"[['{tmp_path}/a.xx','{tmp_path}/a.yy']]"
    return [
        "data=files", "data.cleaning.drop_leaked=false", *(f"data.{s}={pair}" for s in ("train", "valid", "test")),
        "trainer=cpu", "trainer.max_epochs=null", "callbacks.attention_maps=null", "logger=none", "weights=last",
        "batching.batch_tokens=40", "search.beam=2",
    ]  # fmt: skip


def read_results(run: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads(Path(run, "results.json").read_text())
    return results


def test_the_start_of_a_fine_tuning_is_step_0_of_the_selection(
    command: Command, options: list[str], parent: Path
) -> None:
    ruinous = [*options, f"init_from={parent}", "optimizer.lr=9", "weights=best", "select=loss", "trainer.max_steps=2"]
    status, err = command(*ruinous, "callbacks.early_stopping.patience=1", "hydra.run.dir=child")
    assert status == 0, err
    assert "Weights:  best, of step 0, selected by valid loss: no validation was better than the start." in err
    assert read_csv(Path("child/metrics.csv"))[0]["step"] == "0"
    results = read_results("child")
    assert (results["selected_step"], results["steps"]) == (0, 2)
    assert results["initial_scores"] == {"valid": results["valid"], **results["tests"]}
    before, after = (Path(run, "model", "model.safetensors").read_bytes() for run in ("parent", "child"))
    assert before == after

    # A kill after the first validation leaves its checkpoint, which is resumed: the validation is not repeated.
    killed = shutil.copytree("child", "killed", ignore=shutil.ignore_patterns("results.json", "last-*"))
    shutil.copy("child/checkpoints/best-0000000.ckpt", "killed/checkpoints/last-0000000.ckpt")
    status, err = command(f"resume={killed}")
    assert status == 0, err
    assert Path("killed/metrics.csv").read_text() == Path("child/metrics.csv").read_text()
    assert read_results("killed")["tests"] == results["tests"]


@pytest.mark.parametrize(
    ("config", "given", "chosen"),
    [
        ("family: rnn\nmodel: {cell: lstm}", [], ["model=rnn"]),
        ("family: rnn", ["model.dropout=0.1", "optimizer.lr=1"], ["model=rnn"]),
        ("family: transformer\nmodel: {norm: pre}", [], ["model=transformer"]),
        ("family: transformer\nmodel: {norm: post}", [], ["model=transformer", "optimizer=adamw"]),
        ("family: transformer\nmodel: {norm: post}", ["optimizer=muon"], ["model=transformer"]),
        ("model_type: marian\nfamily: hostile", ["model=transformer"], ["optimizer=adamw"]),
        ("model_type: pegasus", [], ["model=transformer"]),
        ("family: rnn", ["experiment=tatoeba_en_de"], []),
        ("family: [mine]\nmodel: 3", [], []),
        ("model: [}", [], []),
    ],
)
def test_a_fine_tuning_has_the_optimizer_of_its_models_family(
    tmp_path: Path, config: str, given: list[str], chosen: list[str]
) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / ("config.json" if "model_type" in config else "config.yaml")).write_text(config)
    words = [f"init_from='{tmp_path}/a b'", *given]
    assert choose_for_parent(words) == [*chosen, *words]


def test_a_fine_tuned_rnn_is_not_trained_as_a_transformer(command: Command, options: list[str], parent: Path) -> None:
    status, err = command(*options, f"init_from={parent}", "trainer.max_steps=1", "hydra.run.dir=child")
    assert status == 0, err
    before, after = (yaml.safe_load(Path(run, "config.yaml").read_text()) for run in ("parent", "child"))
    assert (after["name"], after["optimizer"], after["schedule"]["_target_"]) == (
        before["name"], before["optimizer"], before["schedule"]["_target_"],
    )  # fmt: skip


def test_the_test_sets_of_the_parent_show_what_is_forgotten(command: Command, tmp_path: Path, parent: Path) -> None:
    other = write_options(tmp_path / "other", "u v w x y z")
    once = [*other, "trainer.max_steps=1"]
    status, err = command(*once, f"init_from={parent}", "hydra.run.dir=child")
    assert status == 0, err
    trained, results = read_results("parent"), read_results("child")
    assert results["initial_scores"]["parent-test"] == trained["tests"]["test"]
    assert results["tests"].keys() == {"test", "parent-test"}
    status, err = command(*once, "init_from=child/model", "hydra.run.dir=grandchild")
    assert status == 0, err
    assert read_results("grandchild")["tests"].keys() == {"test"}, "the child's own set is the same"


@pytest.mark.full
def test_a_fine_tuned_run_inherits_architecture_and_tokenizer_and_has_the_scores_before(
    command: Command, options: list[str], parent: Path
) -> None:
    """``model=rnn`` makes the options of RNNs known; sizes and attention are inherited."""
    changes = ["model=rnn", "model.dropout=0.25", "tokenizer.bpe_dropout=0.1"]
    more = [*options, f"init_from={parent}", *changes, "hydra.run.dir=child"]
    status, err = command(*more, "trainer.max_steps=2")
    assert status == 0, err
    before, after = (yaml.safe_load(Path(run, "model", "config.yaml").read_text()) for run in ("parent", "child"))
    assert after["family"] == "rnn"
    assert after["model"] == {**before["model"], "dropout": 0.25}
    # Hydra builds the same model from the config of the run.
    config = yaml.safe_load(Path("child", "config.yaml").read_text())
    assert config["model"]["_target_"] == "heed.models.rnn_config.RNNConfig"
    assert config["model"]["attention"]["score"] == "dot"

    trained, tuned = read_results("parent"), read_results("child")
    assert (tuned["init_from"], tuned["tokenizer_digest"]) == ("parent", trained["tokenizer_digest"])
    # The data are the same, so the scores before are those that the parent ended with.
    assert tuned["initial_scores"] == {"valid": trained["valid"], **trained["tests"]}
    assert tuned["initial_scores"]["valid"]["loss"] != tuned["valid"]["loss"]
    assert f"BLEU before {trained['test']['bleu']:.2f}" in err
    assert trained["init_from"] is trained["initial_scores"] is None

    Path("child", "results.json").unlink()
    status, err = command(*more, "trainer.max_steps=3", "resume=true")
    assert status == 0, err
    assert read_results("child")["initial_scores"] == tuned["initial_scores"]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model=transformer"], "init_from=parent is a model of the family rnn: leave out model=NAME."),
        (["model.d_model=10", "model.dropout=0.3"], "cannot be trained with other model.d_model, which change"),
        (["model=rnn", "model/attention=general"], "cannot be trained with other model.attention, which change"),
        (["model.dropout=1.5"], "model.dropout=1.5 must be a number in [0, 1)"),
        (["tokenizer=unigram"], "tokenizer cannot be chosen with init_from= and tokenizer.vocabulary=inherit, because"),
        (["tokenizer.vocab_size=50"], "tokenizer.vocab_size cannot be chosen with init_from="),
    ],
)
def test_what_cannot_be_changed(
    command: Command, options: list[str], parent: Path, overrides: list[str], message: str
) -> None:
    status, err = command(*options, "init_from=parent", *overrides, "trainer.max_steps=1", "hydra.run.dir=child")
    assert status == 2
    assert message in err
    assert "Traceback" not in err
    assert not Path("child").exists()


@pytest.mark.parametrize(
    ("src", "tgt", "is_new"),
    [("xx", "yy", False), ("XX_Latn", "yy-CH", False), ("yy", "xx", True), ("xx", "zz", True), ("xx", "und", False)],
)
def test_directions_are_compared_with_those_of_the_parent(
    src: str, tgt: str, is_new: bool, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directions = [Direction("xx", "yy"), Direction(src, tgt)]
    compare_directions(trained, directions, fits=True)
    said = f"init_from={trained} fine-tunes xx-yy for {src}-{tgt}.\n" if is_new else ""
    assert capsys.readouterr().err == said
    if is_new:
        with pytest.raises(HeedError, match=rf"fine-tunes xx-yy for {src}-{tgt}, which have other vocabularies: swap"):
            compare_directions(trained, directions, fits=False)
    else:
        compare_directions(trained, directions, fits=False)


@pytest.mark.full
def test_a_swapped_text_is_refused_for_separate_vocabularies(command: Command, options: list[str]) -> None:
    separate = [*options, "tokenizer.joint=false", "model=rnn", "model.d_embedding=8", "model.d_model=8",
                "trainer.max_steps=1"]  # fmt: skip
    status, err = command(*separate, "hydra.run.dir=parent")
    assert status == 0, err
    status, err = command(*options, "init_from=parent", "data.reverse=true", "hydra.run.dir=child")
    assert (status, "fine-tunes xx-yy for yy-xx, which have other vocabularies: swap the sides" in err) == (2, True)
    assert not Path("child", "results.json").exists()
