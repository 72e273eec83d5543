"""Entropy and alignment error rate of heads in real runs."""

import json
import math
from pathlib import Path
from unittest.mock import Mock

import lightning as L
import numpy as np
import pytest

from heed.decoding import GreedySearch
from heed.evaluation.alignment import Gold, aer, align, candidate_maps, match_counts
from heed.evaluation.words import split_punctuation
from heed.inference import model_folder
from heed.inference.translator import Translator
from heed.runs.records import read_csv
from heed.training.callbacks.attention import MeasureAttentionHeads, normalized_entropy
from tests.finished import FinishedRun


def validations(folder: Path) -> list[str]:
    return [row["valid_aer"] for row in read_csv(folder / "metrics.csv") if row["valid_bleu"]]


def test_it_is_measured_with_gold_alignments(finished: FinishedRun) -> None:
    folder = finished.folder
    found = json.loads((folder / "results.json").read_text())["alignment"]
    assert set(found["aer"]) == {"valid", "test", "long"}
    assert found["sentences"] == 6
    loaded = model_folder.load(folder)
    assert loaded.config["alignment"] == found["extraction"]

    # Compute it again from the model folder and the translations.
    search = GreedySearch(max_length_factor=1.0, max_length_extra=1)
    translator = Translator(loaded.model, loaded.tokenizer, search, batch_tokens=100)
    chosen = (("output", "input").index(found["extraction"]["row"]), found["extraction"]["layer"] - 1)
    chosen += ((found["extraction"]["head"] or 0) - 1,)
    for split, rate in found["aer"].items():
        files = [folder / "translations" / f"{split}.{name}" for name in ("src", "ref", "meta.jsonl")]
        src, tgt, metas = (file.read_text().splitlines()[:6] for file in files)
        counts = []
        for attended, source, target, meta in zip(translator.attend(src, tgt), src, tgt, metas, strict=True):
            links = frozenset((i, j) for i, j in json.loads(meta)["alignment"])
            maps = candidate_maps(
                attended.cross,
                attended.src_pieces,
                attended.tgt_pieces,
                split_punctuation(source),
                split_punctuation(target),
            )
            counts.append(match_counts(align(maps, "target"), Gold(links, links)))
        rates = aer(sum(counts))
        assert rate == pytest.approx(float(rates[chosen]))
        if split == "valid":
            assert rate == float(rates.min())
            # The last validation had the same weights.
            assert len(validations(folder)) == 2
            assert float(validations(folder)[-1]) == pytest.approx(rate, abs=1e-4)


def test_every_head_has_a_row_for_each_validation(finished: FinishedRun) -> None:
    rows = read_csv(finished.folder / "attention" / "heads.csv")
    assert [(row["step"], row["attention"], row["layer"], row["head"]) for row in rows] == [
        (step, "cross", "1", "1") for step in ("2", "4")
    ]
    assert [row["aer"] for row in rows] == validations(finished.folder)  # of one head
    loaded = model_folder.load(finished.folder)
    src, tgt = (
        (finished.folder / "translations" / f"valid.{side}").read_text().splitlines() for side in ("src", "ref")
    )
    entropies: list[float] = []
    for pair in Translator(loaded.model, loaded.tokenizer).attend(src[:6], tgt[:6]):
        assert pair.cross is not None
        maps = pair.cross[0, 0].tolist()
        entropies += [-sum(p * math.log(p) for p in row if p) / math.log(len(row)) for row in maps]
    assert float(rows[-1]["entropy"]) == pytest.approx(sum(entropies) / len(entropies), abs=1e-4)


def test_a_resumed_run_repeats_only_the_validations_after_its_checkpoint(tmp_path: Path) -> None:
    file = tmp_path / "attention" / "heads.csv"
    file.parent.mkdir()
    header, *rows = ["step,attention,layer,head,entropy,aer", "2,cross,1,1,0.5,0.3", "4,cross,1,1,0.4,0.2"]
    file.write_text("\n".join([header, *rows, ""]))
    trainer = Mock(spec=L.Trainer, is_global_zero=True, global_step=2, default_root_dir=tmp_path)
    module = Mock(model=Mock(attention_heads={"cross": (1, 1)}))
    MeasureAttentionHeads(sentences=6).on_train_start(trainer, module)
    assert file.read_text().splitlines() == [header, rows[0]]


def test_the_entropy_is_zero_for_one_key_and_one_for_equal_weights() -> None:
    rows = np.array([[1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0, 0]])
    assert normalized_entropy(rows).tolist() == pytest.approx([0, 1, 0.5])


def test_rows_that_do_not_sum_to_one_have_the_entropy_of_their_distribution() -> None:
    rows = np.array([[0.2, 0.2, 0.0, 0.0], [0.3, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    found = normalized_entropy(rows)
    assert found[:2].tolist() == pytest.approx([0.5, 0])
    assert np.isnan(found[2])


def test_the_entropy_of_a_causal_row_has_the_keys_up_to_its_position() -> None:
    rows = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0]])
    found = normalized_entropy(np.stack([rows, rows]), causal=True)
    assert found.shape == (2, 3)
    assert np.isnan(found[:, 0]).all()  # a single key
    assert found[0, 1:].tolist() == pytest.approx([1, np.log(2) / np.log(3)])
