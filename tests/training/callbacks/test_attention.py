"""Which attention maps are drawn, when and where, and that drawing does not change training."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import lightning as L
import numpy as np
import pytest
import torch

from heed.data.text.source import Sentences
from heed.decoding import GreedySearch
from heed.inference import model_folder
from heed.inference.translator import Translator
from heed.training.callbacks.attention import DrawAttentionMaps, choose_sentences
from tests.finished import FinishedRun

CORPUS = ["data=synthetic", "data.train=60", "data.valid=20", "data.test=6", "data.long=4", "test=false"]
LIMITS = ["trainer.accelerator=cpu", "trainer.max_epochs=null", "trainer.max_steps=4", "trainer.validate_every=2",
          "search.max_length_factor=1.0"]  # fmt: skip
TINY = ["model=transformer", "model.d_model=16", "model.d_ff=16", "model.num_heads=2"]


def drawn_files(folder: Path) -> dict[str, list[str]]:
    return {
        path.name: sorted(file.name for file in path.iterdir()) for path in sorted((folder / "attention").glob("*/"))
    }


@pytest.mark.full
def test_the_same_sentences_are_drawn_at_every_validation_without_changing_training(run: Callable[..., Path]) -> None:
    undrawn = run("undrawn", *CORPUS, *TINY, *LIMITS, "callbacks.attention_maps=null", "weights=last")
    rng = torch.get_rng_state()
    folder = run("drawn", *CORPUS, *TINY, *LIMITS, "callbacks.attention_maps.sentences=2", "weights=last")
    # Metrics, weights and random numbers are the same as without maps.
    assert (folder / "metrics.csv").read_text() == (undrawn / "metrics.csv").read_text()
    assert (folder / "model" / "model.safetensors").read_bytes() == (
        undrawn / "model" / "model.safetensors"
    ).read_bytes()
    assert torch.equal(torch.get_rng_state(), rng)
    assert drawn_files(undrawn) == {}

    names = ["1_pronoun", "2_sense"]
    overviews = [f"{name}.png" for name in names]
    assert drawn_files(folder) == {
        "0000002": [*overviews, "maps.npz"],
        "0000004": [*overviews, "maps.npz"],
        "final": sorted([*overviews, *(f"{n}.{what}.png" for n in names for what in ("cross", "forming")), "maps.npz"]),
    }
    # The arrays equal the maps computed from the model folder.
    loaded = model_folder.load(folder)
    search = GreedySearch(max_length_factor=1.0, max_length_extra=1)
    translator = Translator(loaded.model, loaded.tokenizer, search, batch_tokens=100)
    src, tgt, meta = (
        (folder / "translations" / f"valid.{name}").read_text().splitlines() for name in ("src", "ref", "meta.jsonl")
    )
    assert [json.loads(line)["tag"] for line in meta].count("pronoun") >= 1
    found = {name: dict(np.load(folder / "attention" / name / "maps.npz")) for name in ("0000002", "final")}
    shapes = [found["final"]["1_pronoun"].shape, found["0000002"]["1_pronoun"].shape]
    assert shapes[0] == shapes[1]
    assert not np.array_equal(found["final"]["1_pronoun"], found["0000002"]["1_pronoun"])
    pronouns = [row for row, line in enumerate(meta) if json.loads(line)["tag"] == "pronoun"]
    attended = translator.attend([src[row] for row in pronouns], [tgt[row] for row in pronouns])
    same_shape = [maps for maps in attended if maps.cross is not None and maps.cross.shape == shapes[0]]
    assert any(np.allclose(maps.cross, found["final"]["1_pronoun"], atol=1e-3) for maps in same_shape)


def test_one_map_is_drawn_for_an_rnn(finished: FinishedRun) -> None:
    drawn = drawn_files(finished.folder)
    assert {name: len(files) for name, files in drawn.items()} == {"0000002": 2, "0000004": 2, "final": 4}
    assert drawn["final"] == ["1_pronoun.cross.png", "1_pronoun.forming.png", "1_pronoun.png", "maps.npz"]
    assert np.load(finished.folder / "attention" / "final" / "maps.npz")["1_pronoun"].shape[:2] == (1, 1)


def test_a_resumed_run_removes_maps_of_later_steps(tmp_path: Path) -> None:
    for step in (2, 4, 12):
        (tmp_path / "attention" / f"{step:07d}").mkdir(parents=True)
    callback = DrawAttentionMaps(sentences=1)
    trainer = Mock(spec=L.Trainer, is_global_zero=True, global_step=4, default_root_dir=tmp_path)
    callback.on_train_start(trainer, L.LightningModule())
    assert [path.name for path in sorted((tmp_path / "attention").iterdir())] == ["0000002", "0000004"]


@pytest.mark.parametrize(("count", "kept"), [(1, True), (2, False), (0, True)])
def test_a_resumed_run_that_draws_other_sentences_removes_earlier_maps(tmp_path: Path, count: int, kept: bool) -> None:
    (tmp_path / "attention" / "0000002").mkdir(parents=True)
    (tmp_path / "attention" / "pieces.json").write_text(json.dumps({"1_pronoun": {"source": "b", "target": "B"}}))
    valid = Sentences(["a", "b"], ["A", "B"], [json.dumps({"tag": tag}) for tag in ("sense", "pronoun")])
    encoded = SimpleNamespace(src_lengths=np.array([1, 1]))
    sets = SimpleNamespace(validated=["valid"], texts={"valid": valid}, encoded={"valid": encoded})
    trainer = Mock(spec=L.Trainer, is_global_zero=True, global_step=4, default_root_dir=tmp_path)
    module = Mock(spec=L.LightningModule, data=SimpleNamespace(sets=sets))
    DrawAttentionMaps(sentences=count).on_train_start(trainer, module)
    assert (tmp_path / "attention" / "0000002").exists() == kept


def split(lengths: list[int], tags: list[str] | None = None) -> tuple[Sentences, np.ndarray]:
    meta = None if tags is None else [json.dumps({"tag": tag}) for tag in tags]
    return Sentences(["x"] * len(lengths), ["y"] * len(lengths), meta), np.array(lengths)


def test_sentences_are_divided_among_phenomena_in_order_of_preference() -> None:
    tags = ["chain", "roles", "pronoun", "agreement", "sense", "pronoun", "order", "far", "pronoun", "pronoun"]
    data, lengths = split([9, 9, 9, 9, 9, 4, 9, 9, 2, 30], tags)
    assert choose_sentences(data, lengths, 5) == {"1_pronoun": 5, "2_sense": 4, "3_order": 6, "4_roles": 1, "5_far": 7}
    assert list(choose_sentences(data, lengths, 7))[5:] == ["6_agreement", "7_chain"]
    assert [row for name, row in choose_sentences(data, lengths, 8).items() if "pronoun" in name] == [8, 2]
    assert choose_sentences(data, lengths, 1) == {"1_pronoun": 5}


@pytest.mark.parametrize("count", [1, 3, 7, 40, 99])
def test_without_tags_lengths_are_evenly_spaced(count: int) -> None:
    data, lengths = split(list(np.random.default_rng(0).permutation(40)))
    chosen = choose_sentences(data, lengths, count)
    found = [int(lengths[row]) for row in chosen.values()]
    assert len(set(found)) == min(count, 40)
    assert found == sorted(found)
    assert max(np.diff([0, *found, 40])) <= 2 * 40 / count + 1 or count == 1
    assert chosen == choose_sentences(data, lengths, count)
