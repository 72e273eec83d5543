"""``tokenizer.vocabulary=``: fine-tuning with another vocabulary, from the command to the model folder."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from heed.inference import model_folder
from tests.launch.test_inherit import write_options

Command = Callable[..., tuple[int, str]]
FAMILIES = {
    "rnn": ["model=rnn", "model.d_embedding=12", "model.d_model=8"],
    "transformer": ["model=transformer_tiny", "model.tie_embeddings=false", "tokenizer.joint=false"],
}


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    return [*write_options(tmp_path), "test=false", "optimizer.lr=1e-30", "trainer.max_steps=1"]


@pytest.fixture
def other(tmp_path: Path) -> list[str]:
    """The options of a text in another script."""
    lines = [f"{'ж з и к л м'[: 1 + i % 11]} {i}" for i in range(12)]
    (tmp_path / "b.xx").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "b.yy").write_text("".join(f"{line[::-1]}\n" for line in lines))
    return [f"data.{s}=[['{tmp_path}/b.xx','{tmp_path}/b.yy']]" for s in ("train", "valid", "test")]


def digest(run: str) -> str:
    results: dict[str, Any] = json.loads(Path(run, "results.json").read_text())
    found: str = results["tokenizer_digest"]
    return found


@pytest.mark.parametrize(("family", "vocabulary"), [("rnn", "extend"), ("transformer", "extend"), ("rnn", "new")])
def test_a_model_gets_another_vocabulary(
    command: Command, options: list[str], other: list[str], family: str, vocabulary: str
) -> None:
    status, err = command(*options, *FAMILIES[family], "hydra.run.dir=parent")
    assert status == 0, err
    words = [*options, *other, "init_from=parent", f"tokenizer.vocabulary={vocabulary}"]
    status, err = command(*words, "hydra.run.dir=child")
    assert status == 0, err
    assert "of the validation set change" in err
    assert "the vocabulary is that of init_from" not in err

    before, after = (model_folder.load(run) for run in ("parent", "child"))
    assert after.tokenizer.joint == before.tokenizer.joint
    changed = model_folder.VOCABULARY_WEIGHTS
    for name, weight in after.model.state_dict().items():
        old = before.model.state_dict()[name]
        if name not in changed:
            torch.testing.assert_close(weight, old)
            continue
        new, known = (folder.tokenizer.processors[changed[name]] for folder in (after, before))
        shared = [new.id_to_piece(id_) for id_ in range(new.get_piece_size())]
        shared = [piece for piece in shared if known.piece_to_id(piece) > 1]
        assert len(shared) > 4
        rows = (tokenizer.piece_to_id(shared) for tokenizer in (new, known))
        torch.testing.assert_close(weight[next(rows)], old[next(rows)])
    ids = after.tokenizer.encode_src(["ж з"])[0]
    assert not any(map(after.tokenizer.processors[0].is_byte, ids))

    # Without the cache, the resumed run finds the same tokenizer.
    Path("child", "results.json").unlink()
    first = after.tokenizer.digest
    shutil.rmtree(Path("data/cache/tokenizer"), ignore_errors=True)
    status, err = command(*words, "trainer.max_steps=2", "resume=true", "hydra.run.dir=child")
    assert status == 0, err
    assert digest("child") == first != digest("parent")

    status, err = command(*options, "init_from=child", "tokenizer.vocabulary=inherit", "hydra.run.dir=grandchild")
    assert status == 0, err
    assert digest("grandchild") == first


def test_a_model_of_one_direction_becomes_one_of_two(command: Command, options: list[str]) -> None:
    status, err = command(*options, *FAMILIES["rnn"], "hydra.run.dir=parent")
    assert status == 0, err
    both = [*options, "init_from=parent", "data.both_directions=true"]
    status, err = command(*both, "hydra.run.dir=refused")
    assert (status, "This tokenizer starts a source with no tag" in err) == (2, True)
    status, err = command(*both, "tokenizer.vocabulary=extend", "hydra.run.dir=child")
    assert status == 0, err
    assert model_folder.load("child").tokenizer.tags == ("<2yy>", "<2xx>")
    status, err = command(*options, "init_from=child", "tokenizer.vocabulary=extend", "hydra.run.dir=grandchild")
    assert status == 0, err
    assert model_folder.load("grandchild").tokenizer.tags == ("<2yy>", "<2xx>")


def test_the_inherited_vocabulary_of_another_script_is_diagnosed(
    command: Command, options: list[str], other: list[str]
) -> None:
    status, err = command(*options, *FAMILIES["rnn"], "hydra.run.dir=parent")
    assert status == 0, err
    status, err = command(*options, *other, "init_from=parent", "hydra.run.dir=child")
    assert status == 0, err
    assert "because the vocabulary is that of init_from: set tokenizer.vocabulary=extend, or new." in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tokenizer.vocabulary=extend"], "adds to the vocabulary of a trained model: give init_from=RUN."),
        (["tokenizer.vocabulary=other"], "tokenizer.vocabulary=other must be inherit or extend or new"),
        (
            ["init_from=parent", "tokenizer.vocabulary=extend", "tokenizer.kind=unigram"],
            "tokenizer.kind cannot be chosen with init_from= and tokenizer.vocabulary=extend, because it is inherited",
        ),
        (
            ["init_from=parent", "tokenizer.vocabulary=new", "tokenizer.joint=false"],
            "tokenizer.joint cannot be chosen with init_from= and tokenizer.vocabulary=new, because it is inherited",
        ),
    ],
)
def test_what_cannot_be_chosen(command: Command, options: list[str], words: list[str], message: str) -> None:
    if "init_from=parent" in words:
        assert command(*options, *FAMILIES["rnn"], "hydra.run.dir=parent")[0] == 0
    status, err = command(*options, *words, "hydra.run.dir=child")
    assert status == 2
    assert message in err
    assert "Traceback" not in err
