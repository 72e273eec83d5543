"""The stream of steps: one plan for all, the same from any cursor on, and new segmentations in every epoch."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path

import pytest
from datasets import Dataset

from heed.data.batch import Batch
from heed.data.cleaning import CleaningReport
from heed.data.corpus import Corpus
from heed.data.datamodule import StepShard, StepStream, TranslationData
from heed.data.plan import Planner
from heed.data.tokenizer import TokenizerTrainer
from heed.errors import HeedError
from heed.symbols import EOS, PAD
from heed.launch.summary import idle_devices

ROOT = Path(__file__).parents[2]

PAIRS = Dataset.from_dict(
    {
        "src": [f"the dog number {n} sleeps {'very ' * (n % 5)}well" for n in range(60)],
        "tgt": [f"der Hund Nummer {n} schläft {'sehr ' * (n % 5)}gut" for n in range(60)],
    }
)
HELD_OUT = Dataset.from_dict({"src": ["the dog sleeps", "a dog"], "tgt": ["der Hund schläft", "ein Hund"]})


def corpus(*, both_directions: bool = False, tgt_lang: str = "de") -> Corpus:
    return Corpus(
        name="dogs",
        src_lang="en",
        tgt_lang=tgt_lang,
        train=PAIRS,
        valid=HELD_OUT,
        tests={},
        both_directions=both_directions,
        max_eval_tokens=None,
        fingerprint="",
        cleaning=CleaningReport(total=60, dropped={}, examples={}),
    )


def data(cache: Path, *, sampling: float = 0.0, seed: int = 1, **changes: bool) -> TranslationData:
    trainer = TokenizerTrainer(
        kind="bpe",
        joint=True,
        vocab_size="auto",
        byte_fallback=True,
        character_coverage=1.0,
        normalization="identity",
        max_sentences=1000,
        sampling=sampling,
    )
    dogs = corpus(**changes)  # type: ignore[arg-type]
    tokenizer = trainer.train(dogs.train, cache, tags=dogs.tags)
    planner = Planner(batch_tokens=120, device_tokens=128, pool=30, seed=seed)
    return TranslationData(dogs, tokenizer, planner, sampling=trainer.sampling, with_tests=True, cache_dir=cache)


def sentences(batch: Batch) -> list[tuple[int, list[int], list[int]]]:
    """Row number and ids of every pair, EOS left out."""
    sides = ([[t for t in row if t not in (PAD, EOS)] for row in ids.tolist()] for ids in (batch.src, batch.tgt_out))
    return list(zip(batch.index.tolist(), *sides, strict=True))


def content(share: StepShard) -> object:
    micro_batches = [(number, sentences(batch)) for number, batch in share.micro_batches]
    return (share.epoch, share.step, share.src_tokens, share.tgt_tokens, share.padded_tokens, micro_batches)


def epoch_of(stream: StepStream, epoch: int) -> dict[int, tuple[list[int], list[int]]]:
    """What an epoch holds of every pair."""
    shares = [share for share in takewhile(lambda share: share.epoch <= epoch, stream) if share.epoch == epoch]
    rows = [row for share in shares for _, batch in share.micro_batches for row in sentences(batch)]
    assert len(rows) == len({number for number, _, _ in rows})
    assert sum(share.tgt_tokens for share in shares) == sum(len(tgt) + 1 for _, _, tgt in rows), "lengths are true"
    return {number: (src, tgt) for number, src, tgt in rows}


def test_every_epoch_is_segmented_anew(tmp_path: Path) -> None:
    sampled = data(tmp_path, sampling=0.3)
    epochs = [epoch_of(StepStream(sampled, 0, 1), epoch) for epoch in (0, 1, 0)]
    assert epochs[0] == epochs[2]
    assert epochs[0] == epoch_of(StepStream(data(tmp_path, sampling=0.3), 0, 1), 0)
    tokenizer = sampled.tokenizer
    plain = list(zip(tokenizer.encode_src(PAIRS["src"]), tokenizer.encode_tgt(PAIRS["tgt"]), strict=True))
    for side, text in ((0, PAIRS["src"]), (1, PAIRS["tgt"])):
        first, second, usual = ([pairs[n][side] for n in range(60)] for pairs in (*epochs[:2], plain))
        for drawn in (first, second):
            assert tokenizer.decode_tgt(drawn) == list(text)
            assert sum(a != b for a, b in zip(drawn, usual, strict=True)) > 30
        assert sum(a != b for a, b in zip(first, second, strict=True)) > 30
    other = epoch_of(StepStream(data(tmp_path, sampling=0.3, seed=2), 0, 1), 0)
    assert sum(other[n] != epochs[0][n] for n in range(60)) > 30

    # Validation is for the usual segmentation, and no epoch changes it.
    (batch,) = sampled.val_dataloader()
    held_out = zip(tokenizer.encode_src(HELD_OUT["src"]), tokenizer.encode_tgt(HELD_OUT["tgt"]), strict=True)
    assert sorted(sentences(batch)) == [(n, *pair) for n, pair in enumerate(held_out)]


@pytest.mark.parametrize("sampling", [0.0, 0.2])
def test_from_any_cursor_on_the_stream_is_the_same(sampling: float, tmp_path: Path) -> None:
    whole = [content(share) for share in islice(StepStream(data(tmp_path, sampling=sampling), 0, 1), 30)]
    for first in (3, 10, 17, 24):
        resumed = data(tmp_path, sampling=sampling)
        epoch, step, *_ = whole[first]  # type: ignore[misc]
        resumed.load_state_dict({"epoch": epoch, "step": step})
        assert [content(share) for share in islice(StepStream(resumed, 0, 1), 6)] == whole[first : first + 6]


def test_processes_share_the_same_drawn_steps(tmp_path: Path) -> None:
    def micro_batches(rank: int, size: int) -> list[list[object]]:
        stream = islice(StepStream(data(tmp_path, sampling=0.2), rank, size), 20)
        return [[(number, sentences(batch)) for number, batch in share.micro_batches] for share in stream]

    one, two = micro_batches(0, 1), [micro_batches(rank, 2) for rank in range(2)]
    assert any(len(step) > 1 for step in one)
    for whole, left, right in zip(one, *two, strict=True):
        assert sorted(left + right, key=str) == sorted(whole, key=str)


def test_both_directions_double_training_alone(tmp_path: Path) -> None:
    for sampling in (0.0, 0.2):
        both = data(tmp_path, sampling=sampling, both_directions=True)
        tokenizer, pairs = both.tokenizer, epoch_of(StepStream(both, 0, 1), 0)
        assert tokenizer.tags == ("<2de>", "<2en>")
        assert sorted(pairs) == list(range(120))
        for number, (src, tgt) in pairs.items():
            into_de, en_de = number < 60, (PAIRS["src"][number % 60], PAIRS["tgt"][number % 60])
            assert tokenizer.src_pieces(src[:1]) == ["<2de>" if into_de else "<2en>"]
            assert tuple(tokenizer.decode_tgt([src, tgt])) == (en_de if into_de else en_de[::-1])
        (batch,) = both.val_dataloader()
        assert [tokenizer.src_pieces(src[:1]) for _, src, _ in sentences(batch)] == [["<2de>"]] * 2


@pytest.mark.parametrize("devices", [3, 4, 16])
def test_advice_on_idle_devices_keeps_them_busy(tmp_path: Path, devices: int) -> None:
    taken = data(tmp_path)
    assert idle_devices(2, taken) == []
    (advice,) = idle_devices(devices, taken)
    assert f"{devices - 2} of {devices} will be idle" in advice
    taken.planner.device_tokens = int(re.findall(r"try (\d+)", advice)[0])
    assert idle_devices(devices, taken) == []


def test_a_tokenizer_of_other_directions_is_refused(tmp_path: Path) -> None:
    both, one = data(tmp_path, both_directions=True), data(tmp_path)
    arguments = {"sampling": 0.0, "with_tests": True, "cache_dir": tmp_path}
    # A model of both may be tuned to its first.
    tuned = TranslationData(corpus(), both.tokenizer, both.planner, **arguments)  # type: ignore[arg-type]
    assert len(tuned.splits["train"]) == 60
    for wrong, tokenizer in ((corpus(tgt_lang="fr"), both.tokenizer), (corpus(both_directions=True), one.tokenizer)):
        with pytest.raises(HeedError, match=r"opens a source with .* needs .*: give data.both_directions"):
            TranslationData(wrong, tokenizer, one.planner, **arguments)  # type: ignore[arg-type]


def test_an_evaluation_sentence_that_is_too_long(tmp_path: Path) -> None:
    """Refused before training, with its place; a test set that is left alone may hold any."""
    taken = data(tmp_path)
    arguments = taken.tokenizer, taken.planner
    held_out = Dataset.from_dict({"src": ["a dog", "the dog", "a"], "tgt": ["ein Hund", "der Hund " * 40, "b"]})
    longest = max(len(ids) for ids in taken.tokenizer.encode_tgt(held_out["tgt"]))
    assert longest > 40
    options = {"sampling": 0.0, "cache_dir": tmp_path}

    def limited(limit: int | None, **splits: object) -> Corpus:
        return replace(corpus(), max_eval_tokens=limit, **splits)  # type: ignore[arg-type]

    for splits, name in (({"valid": held_out}, "data.valid"), ({"tests": {"news": held_out}}, "The test set 'news'")):
        says = rf"{name}, sentence pair 2: \d+ source and {longest} target .*data\.max_eval_tokens={longest - 1} \('the"
        with pytest.raises(HeedError, match=says):
            TranslationData(limited(longest - 1, **splits), *arguments, with_tests=True, **options)  # type: ignore[arg-type]
        for limit in (longest, None):
            TranslationData(limited(limit, **splits), *arguments, with_tests=True, **options)  # type: ignore[arg-type]
    TranslationData(limited(longest - 1, tests={"news": held_out}), *arguments, with_tests=False, **options)  # type: ignore[arg-type]


@pytest.mark.slow
def test_fewer_evaluation_sentences_than_processes(tmp_path: Path) -> None:
    """One validation and one test sentence give the same scores on 1, 2 and 3 processes."""
    for name, lines in (("train", 40), ("held_out", 1)):
        for language in ("xx", "yy"):
            text = "".join(f"{name} {language} {'a b c d'[: 1 + n % 7]} {n}\n" for n in range(lines))
            (tmp_path / f"{name}.{language}").write_text(text)
    names = {"train": "train", "valid": "held_out", "test": "held_out"}
    pairs = {split: f"[['{tmp_path}/{name}.xx','{tmp_path}/{name}.yy']]" for split, name in names.items()}
    common = [
        "data=files", *(f"data.{split}={pair}" for split, pair in pairs.items()),
        "model=rnn", "model.d_embedding=8", "model.d_model=8", "optimizer=sgd", "schedule.warmup_steps=1",
        "trainer.precision=32-true", "trainer.max_epochs=null", "trainer.max_steps=4", "trainer.validate_every=2",
        "batching.batch_tokens=90", "batching.device_tokens=96", "logger=none", "callbacks.maps=0",
        f"cache_dir={tmp_path}/cache",
    ]  # fmt: skip
    results = []
    for devices in (1, 2, 3):
        folder = tmp_path / f"on-{devices}"
        command = [sys.executable, "train.py", *common, "trainer=ddp_cpu", f"trainer.devices={devices}"]
        done = subprocess.run(
            [*command, f"hydra.run.dir={folder}"], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        results.append(json.loads((folder / "results.json").read_text()))
        for split in ("valid", "test"):
            translated = [(run / f"translations/{split}.hyp").read_text() for run in (tmp_path / "on-1", folder)]
            assert translated[0] == translated[1]
            assert translated[0].count("\n") == 1
            assert results[-1][split]["loss"] == pytest.approx(results[0][split]["loss"], rel=1e-5)
            assert results[-1][split]["chrf"] == results[0][split]["chrf"]
