"""Searches, ensembles and devices from what a user names."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import heed
from heed.decoding import BeamSearch, SampleSearch
from heed.errors import HeedError
from heed.inference import model_folder
from heed.inference.loading import find_device, load
from heed.inference.mbr import MBRSearch
from heed.inference.searches import DEFAULTS, build_search
from heed.inference.translator import Translator
from heed.models.ensemble import Ensemble
from heed.models.seq2seq import Seq2Seq
from tests.tokenizers import train_tokenizer

BEAM, SAMPLE, MBR = DEFAULTS.values()
LINES = ["a man rides a bike .", "the dog sleeps .", "two children play with a red ball in the park ."]


def test_build_search_returns_the_saved_search() -> None:
    sample, mbr = build_search(SAMPLE, top_k=3), build_search(MBR, samples=5)
    assert isinstance(sample, SampleSearch)
    assert vars(sample) == vars(SampleSearch(**{**SAMPLE, "top_k": 3}))
    assert isinstance(mbr, MBRSearch)
    assert mbr.beam is not None
    assert mbr.sampler is not None
    assert (mbr.beam.beam, mbr.sampler.n_best) == (BEAM["beam"], 5)
    assert isinstance(build_search(None), BeamSearch)
    assert isinstance(build_search(MBR, sample=True), SampleSearch)


def test_several_models_are_an_ensemble_of_one_vocabulary(tmp_path: Path, tiny_model: Callable[..., Seq2Seq]) -> None:
    for name, family, size in (("a", "rnn", 70), ("b", "transformer", 70), ("c", "rnn", 60)):
        model = tiny_model(family, src_vocab=size, tgt_vocab=size).float()
        tokenizer = train_tokenizer(LINES, vocab_size=size)
        model_folder.save(tmp_path / name, model, tokenizer, extra={"tgt_lang": name})
    both = load(tmp_path / "a", tmp_path / "b")
    assert isinstance(both.model, Ensemble)
    assert [member.config.family for member in both.model.members] == ["rnn", "transformer"]
    assert both.tgt_lang == "a"
    assert not isinstance(load(tmp_path / "a").model, Ensemble)
    with pytest.raises(HeedError, match=r"a and .*c have different vocabularies"):
        load(tmp_path / "a", tmp_path / "b", tmp_path / "c")


def test_find_device() -> None:
    assert find_device("cpu") == torch.device("cpu")
    assert find_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["moon", "cuda:99", "meta", ""])
def test_devices_that_cannot_compute_are_refused(name: str) -> None:
    with pytest.raises(HeedError, match=f"device={name} cannot be used"):
        find_device(name)


def test_load_takes_everything_from_the_model_folder(tmp_path: Path, tiny_model: Callable[..., Seq2Seq]) -> None:
    tokenizer = train_tokenizer(LINES, vocab_size=60)
    model = tiny_model("transformer", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
    alignment = {"layer": 2, "head": 3, "row": "input"}
    extra = {"search": {**BEAM, "beam": 2}, "alignment": alignment, "src_lang": "en", "tgt_lang": "de"}
    model_folder.save(tmp_path / "run" / "model", model, tokenizer, extra=extra)
    translator = heed.load(tmp_path / "run", device="cpu", batch_tokens=50, max_tokens=None)
    assert isinstance(translator.search, BeamSearch)
    assert translator.search.beam == 2
    assert (translator.src_lang, translator.tgt_lang, translator.alignment) == ("en", "de", alignment)
    assert (translator.batch_tokens, translator.max_tokens) == (50, None)
    expected = Translator(model, tokenizer, extra["search"]).translate(LINES)
    assert translator.translate(LINES) == expected
    both = heed.load(str(tmp_path / "run"), tmp_path / "run" / "model")
    assert isinstance(both.model, Ensemble)
    assert both.translate(LINES) == expected
    for wrong, message in (
        (lambda: heed.load(), "There is no model to load"),
        (lambda: heed.load(tmp_path / "run", device="moon"), "device=moon cannot be used"),
        (lambda: heed.load(tmp_path / "run", batch_tokens=0), "batch_tokens=0 must be an integer >= 1"),
    ):
        with pytest.raises(HeedError, match=message):
            wrong()
