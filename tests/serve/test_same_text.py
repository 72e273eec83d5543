"""A sentence has the same translation by `Translator` and by the server, alone and among others."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import heed
from heed.serve.models import Models, ServedModel
from heed.serve.schemas import TranslateRequest
from heed.serve.service import Service
from heed.serve.settings import ServeSettings

pytestmark = pytest.mark.full

TINY = ["data=files", "data.cleaning.drop_leaked=false", "data.src_lang=en", "data.tgt_lang=de", "trainer=cpu",
        "trainer.max_epochs=null", "trainer.max_steps=250", "trainer.validate_every=250",
        "callbacks.attention_maps.sentences=1", "batching.batch_tokens=400", "optimizer.lr=0.01",
        "module.r_drop=0"]  # fmt: skip
FAMILIES = {
    "transformer": ["model=transformer", "model.d_model=32", "model.num_heads=4", "model.d_ff=64",
                    "model.encoder_layers=1", "model.decoder_layers=1"],
    "rnn": ["model=rnn", "model.d_embedding=32", "model.d_model=32", "model.layers=1"],
}  # fmt: skip


@pytest.fixture
def trained(run: Callable[..., Path], tmp_path: Path) -> Callable[[str], tuple[Path, list[str]]]:
    """``trained(family)`` returns a run that learned to reverse letters, and 64 sentences."""

    def train(family: str) -> tuple[Path, list[str]]:
        rng = random.Random(5)
        lines = list(dict.fromkeys(" ".join(rng.choices("abcdefgh", k=rng.randint(2, 9))) for _ in range(700)))
        for side, order in (("en", 1), ("de", -1)):
            (tmp_path / f"all.{side}").write_text("".join(f"{line[::order]}\n" for line in lines[64:]))
        pair = f"[['{tmp_path}/all.en','{tmp_path}/all.de']]"
        return run(
            family, *TINY, *FAMILIES[family], *(f"data.{split}={pair}" for split in ("train", "valid", "test"))
        ), lines[:64]

    return train


@pytest.mark.parametrize("family", FAMILIES)
def test_alone_and_among_others(trained: Callable[[str], tuple[Path, list[str]]], family: str) -> None:
    folder, sentences = trained(family)
    translator = heed.load(folder, device="cpu")
    expected = translator.translate(sentences)
    assert len(set(expected)) > 50  # it has learned something

    async def ask() -> tuple[list[object], list[object], list[float]]:
        service = Service(Models([ServedModel("m", translator)]), ServeSettings())
        service.start()
        requests = [TranslateRequest(q=sentence, source="en", target="de") for sentence in sentences]
        alone = [(await service.translate(request)).translated_text for request in requests]
        together = await asyncio.gather(*map(service.translate, requests))
        service.stop()
        batches = [sample.value for metric in service.metrics.registry.collect() for sample in metric.samples
                   if sample.name == "heed_batch_sentences_count"]  # fmt: skip
        return alone, [each.translated_text for each in together], batches

    alone, together, (batches,) = asyncio.run(ask())
    assert alone == expected
    assert together == expected
    assert batches < 64 + 16  # those that came together were translated together
