"""The same 200 sentences are translated alike by everything that runs a trained model, for several architectures."""

import io
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient

import heed
from heed import launch
from heed.cli import main
from heed.export import to_ctranslate2
from heed.export.to_huggingface import HuggingFaceEngine
from heed.inference.translator import Translator
from heed.launch.compose import compose
from heed.serve.application import create_app
from heed.serve.models import ServedModel
from heed.serve.settings import ServeSettings

pytestmark = pytest.mark.slow

SENTENCES = 200
CLIENTS = 64
TRAINING = [
    "data=synthetic", "data.train=4000", "data.valid=400", "data.test=1", "data.long=1", "tokenizer.vocab_size=1000",
    "trainer=cpu", "trainer.max_steps=250", "trainer.validate_every=250", "logger=none",
    "callbacks.attention_maps=null", "optimizer.lr=3e-3", "schedule.warmup_steps=50", "test=false", "search=beam",
]  # fmt: skip
SMALL = ["model=transformer_tiny", "model.d_model=64", "model.encoder_layers=2", "model.decoder_layers=2",
         "model.dropout=0.1"]  # fmt: skip
ARCHITECTURES = {
    "post-norm": [*SMALL, "model.norm=post"],
    "post-norm-untied": [*SMALL, "model.norm=post", "model.activation=gelu", "model.tie_embeddings=false"],
    "pre-norm": [*SMALL, "model.norm=pre"],
    "pre-norm-uneven": [*SMALL, "model.norm=pre", "model.activation=gelu", "model.decoder_layers=1"],
    "rotary": [*SMALL, "model/positions=rotary", "model.activation=swiglu", "model.norm_kind=rms"],
    "rnn": ["model=rnn", "model.d_model=64", "model.d_embedding=64", "model.layers=1"],
}
ALWAYS = ("pre-norm",)
"""The architectures that `make test` trains."""


def architectures(*without: str) -> list[Any]:
    names = [name for name in ARCHITECTURES if name not in without]
    return [name if name in ALWAYS else pytest.param(name, marks=pytest.mark.full) for name in names]


Trained = Callable[[str], Path]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """``trained(architecture)`` returns a run of a small model that has learned some of the synthetic corpus."""
    root = tmp_path_factory.mktemp("everywhere")

    def train(architecture: str) -> Path:
        folder = root / architecture
        if not folder.exists():
            options = [*TRAINING, *ARCHITECTURES[architecture], f"cache_dir={root / 'cache'}"]
            launch.train(compose(options, folder=folder))
        return folder

    return train


@pytest.fixture(params=architectures())
def run(request: pytest.FixtureRequest, trained: Trained) -> Path:
    return trained(request.param)


@pytest.fixture(params=architectures("rnn"))
def transformer_run(request: pytest.FixtureRequest, trained: Trained) -> Path:
    return trained(request.param)


@pytest.fixture(params=architectures("rnn", "rotary"))
def hugging_face_run(request: pytest.FixtureRequest, trained: Trained) -> Path:
    return trained(request.param)


def test_python_command_line_and_server(run: Path, capsysbinary: pytest.CaptureFixture[bytes],
                                        monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    translator = heed.load(run, device="cpu")
    sentences = sentences_of(run)[:SENTENCES]
    expected = translator.translate(sentences)
    assert len(set(expected)) > SENTENCES / 2  # a model that has learned nothing repeats itself

    text = "".join(f"{line}\n" for line in sentences).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["translate", "--model", str(run), "--device", "cpu", "--engine", "heed"]) == 0
    assert capsysbinary.readouterr().out.decode().splitlines() == expected

    settings = ServeSettings(split_sentences=False)
    with TestClient(create_app([ServedModel("model", translator)], settings)) as client:

        def ask(sentence: str) -> str:
            answer = client.post("/translate", json={"q": sentence, "source": "en", "target": "de"})
            return str(answer.json()["translatedText"])

        assert [ask(sentence) for sentence in sentences] == expected
        with ThreadPoolExecutor(CLIENTS) as pool:
            assert list(pool.map(ask, sentences)) == expected


def test_ctranslate2(transformer_run: Path) -> None:
    sentences, expected = greedy_translations(transformer_run)
    model = to_ctranslate2.load(transformer_run, device="cpu")
    assert model.translate(sentences, beam=1) == expected
    assert [model.translate(sentence, beam=1)[0] for sentence in sentences] == expected


def test_hugging_face(hugging_face_run: Path, tmp_path: Path) -> None:
    sentences, expected = greedy_translations(hugging_face_run)
    assert main(["export", str(hugging_face_run), "--to", "huggingface", "--out", str(tmp_path / "out")]) == 0
    engine = HuggingFaceEngine(tmp_path / "out")
    batch = engine.tokenizer(sentences, return_tensors="pt", padding=True)
    with torch.inference_mode():
        ids = engine.model.generate(**batch, num_beams=1, max_new_tokens=150)
    assert engine.tokenizer.batch_decode(ids, skip_special_tokens=True) == expected


def greedy_translations(run: Path) -> tuple[Sequence[str], list[str]]:
    """Return the first sentences whose greedy translation ends before the length limit, and these translations.

    The other engines have other limits.
    """
    translator: Translator = heed.load(run, device="cpu")
    sentences = sentences_of(run)
    found = translator.hypotheses(sentences, beam=1)
    ended = [(source, best.text) for source, (best,) in zip(sentences, found, strict=True) if best.finished][:SENTENCES]
    assert len({text for _, text in ended}) > SENTENCES / 2
    return [source for source, _ in ended], [text for _, text in ended]


def sentences_of(run: Path) -> list[str]:
    lines = (run / "translations" / "valid.src").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip()][: 2 * SENTENCES]
