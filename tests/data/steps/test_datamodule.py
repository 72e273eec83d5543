"""The data module: the stream of steps, resuming, shards, sampled segmentations, evaluation sets."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import islice, takewhile
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from heed.compat import is_running
from heed.data.datamodule import TranslationData
from heed.data.steps.batch import Batch
from heed.data.steps.steps import Planner
from heed.data.steps.stream import StepShard
from heed.data.text.corpus import Corpus, EvaluationSet
from heed.data.text.source import Sentences
from heed.errors import HeedError
from heed.languages import Direction
from heed.launch.finish import idle_devices
from heed.symbols import EOS, PAD
from tests.data.texts import ROOT, numbered_dogs, only_text, train_tokenizer, training_text

PAIRS = numbered_dogs(60)
HELD_OUT = Sentences(["the dog sleeps", "a dog"], ["der Hund schläft", "ein Hund"])


def corpus(cache: Path, *, both_directions: bool = False, tgt_lang: str = "de") -> Corpus:
    direction = Direction("en", tgt_lang)
    return Corpus(
        name="dogs",
        train=only_text(training_text(PAIRS, cache, direction=direction), both_directions=both_directions),
        valid={"valid": EvaluationSet(HELD_OUT, direction)},
        tests={},
        max_eval_tokens=None,
    )


def data(cache: Path, *, bpe_dropout: float = 0.0, seed: int = 1, both_directions: bool = False) -> TranslationData:
    dogs = corpus(cache, both_directions=both_directions)
    tokenizer = train_tokenizer(PAIRS, cache, tags=dogs.tags)
    planner = Planner(batch_tokens=120, device_tokens=128, pool=30, seed=seed)
    return TranslationData(dogs, tokenizer, planner, bpe_dropout=bpe_dropout, with_tests=True)


def sentences(batch: Batch) -> list[tuple[int, list[int], list[int]]]:
    """Return (index, source ids, target ids) of every pair, without EOS."""
    sides = ([[t for t in row if t not in (PAD, EOS)] for row in ids.tolist()] for ids in (batch.src, batch.tgt_out))
    return list(zip(batch.index.tolist(), *sides, strict=True))


def content(shard: StepShard) -> object:
    micro_batches = [(number, sentences(batch)) for number, batch in shard.micro_batches]
    return (shard.epoch, shard.step, shard.src_tokens, shard.tgt_tokens, shard.padded_tokens, micro_batches)


def epoch_of(module: TranslationData, epoch: int) -> dict[str, tuple[list[int], list[int]]]:
    """Return the ids of every pair in an epoch, by the text of their source."""
    stream = module.stream.shards(0, 1)
    shards = [shard for shard in takewhile(lambda shard: shard.epoch <= epoch, stream) if shard.epoch == epoch]
    rows = [row for shard in shards for _, batch in shard.micro_batches for row in sentences(batch)]
    assert sum(shard.tgt_tokens for shard in shards) == sum(len(tgt) + 1 for _, _, tgt in rows), (
        "the plan uses the lengths of this epoch's segmentation"
    )
    pairs = {module.tokenizer.decode_src([src])[0]: (src, tgt) for _, src, tgt in rows}
    assert len(pairs) == len(rows), "every pair is in one step"
    return pairs


def test_every_epoch_has_its_own_segmentation(tmp_path: Path) -> None:
    sampled = data(tmp_path, bpe_dropout=0.3)
    epochs = [epoch_of(sampled, epoch) for epoch in (0, 1, 0)]
    assert epochs[0] == epochs[2]
    assert epochs[0] == epoch_of(data(tmp_path, bpe_dropout=0.3), 0)
    tokenizer = sampled.tokenizer
    for side, text in ((0, PAIRS.src), (1, PAIRS.tgt)):
        first, second = ([pairs[src][side] for src in PAIRS.src] for pairs in epochs[:2])
        for sampled_ids in (first, second):
            assert tokenizer.decode_tgt(sampled_ids) == text
            assert sum(a != b for a, b in zip(sampled_ids, tokenizer.encode_tgt(text), strict=True)) > 30
        assert sum(a != b for a, b in zip(first, second, strict=True)) > 30
    other = epoch_of(data(tmp_path, bpe_dropout=0.3, seed=2), 0)
    assert sum(other[src] != epochs[0][src] for src in PAIRS.src) > 30

    # Validation does not sample.
    ((batch,),) = sampled.val_dataloader()
    held_out = zip(tokenizer.encode_src(HELD_OUT.src), tokenizer.encode_tgt(HELD_OUT.tgt), strict=True)
    assert sorted(sentences(batch)) == [(n, *pair) for n, pair in enumerate(held_out)]


@pytest.mark.parametrize("bpe_dropout", [0.0, 0.2])
def test_the_stream_resumes_from_any_cursor(bpe_dropout: float, tmp_path: Path) -> None:
    whole = [content(shard) for shard in islice(data(tmp_path, bpe_dropout=bpe_dropout).stream.shards(0, 1), 30)]
    for first in (3, 10, 24):
        resumed = data(tmp_path, bpe_dropout=bpe_dropout)
        epoch, step, *_ = whole[first]  # type: ignore[misc]
        resumed.load_state_dict({"epoch": epoch, "step": step})
        assert [content(shard) for shard in islice(resumed.stream.shards(0, 1), 6)] == whole[first : first + 6]


def test_shards_of_two_processes_make_up_the_steps_of_one(tmp_path: Path) -> None:
    def micro_batches(rank: int, size: int) -> list[list[object]]:
        stream = islice(data(tmp_path, bpe_dropout=0.2).stream.shards(rank, size), 20)
        return [[(number, sentences(batch)) for number, batch in shard.micro_batches] for shard in stream]

    one, two = micro_batches(0, 1), [micro_batches(rank, 2) for rank in range(2)]
    assert any(len(step) > 1 for step in one)
    for whole, left, right in zip(one, *two, strict=True):
        assert sorted(left + right, key=str) == sorted(whole, key=str)


@pytest.mark.parametrize("bpe_dropout", [0.0, 0.2])
def test_both_directions_double_the_training_set_only(bpe_dropout: float, tmp_path: Path) -> None:
    both = data(tmp_path, bpe_dropout=bpe_dropout, both_directions=True)
    tokenizer, pairs = both.tokenizer, epoch_of(both, 0)
    assert tokenizer.tags == ("<2de>", "<2en>")
    assert sorted(pairs) == sorted([*PAIRS.src, *PAIRS.tgt])
    translations = dict(zip([*PAIRS.src, *PAIRS.tgt], [*PAIRS.tgt, *PAIRS.src], strict=True))
    for text, (src, tgt) in pairs.items():
        tag = "<2de>" if text in PAIRS.src else "<2en>"
        assert tokenizer.src_pieces(src)[0].startswith(tag)
        assert tokenizer.decode_tgt([tgt]) == [translations[text]]
    ((batch,),) = both.val_dataloader()
    assert [tokenizer.src_pieces(src)[0] == "<2de>" for _, src, _ in sentences(batch)] == [True] * 2


def test_the_process_that_samples_ends_with_the_training(tmp_path: Path) -> None:
    """A search trains many models in one process."""
    before = set(active_children())
    module = data(tmp_path, bpe_dropout=0.2)
    steps = iter(module.train_dataloader())
    next(steps)
    (process,) = set(active_children()) - before
    module.teardown("fit")
    process.join(120)  # it may still be starting
    assert process.pid is not None
    assert not is_running(process.pid)  # is_alive() was sometimes true after join()
    assert next(module.stream.shards(0, 1)).tgt_tokens, "training may go on"
    module.teardown("fit")


def test_a_killed_process_that_samples_is_an_error(tmp_path: Path) -> None:
    before = set(active_children())
    steps = data(tmp_path, bpe_dropout=0.2).stream.shards(0, 1)
    next(steps)
    (process,) = set(active_children()) - before
    process.kill()
    process.join()
    with pytest.raises(HeedError, match="random segmentations was killed, probably for lack of memory"):
        list(islice(steps, 100))


@pytest.mark.parametrize("devices", [3, 4, 16])
def test_the_suggested_device_tokens_leave_no_device_idle(tmp_path: Path, devices: int) -> None:
    module = data(tmp_path)
    assert idle_devices(2, module) == ""
    advice = idle_devices(devices, module)
    assert f"{devices - 2} of {devices} will be idle" in advice
    module.planner.device_tokens = int(re.findall(r"try (\d+)", advice)[0])
    assert idle_devices(devices, module) == ""


def build(corpus: Corpus, like: TranslationData, *, with_tests: bool = True) -> TranslationData:
    """Build a data module with the tokenizer, planner and cache of another one."""
    return TranslationData(corpus, like.tokenizer, like.planner, bpe_dropout=0.0, with_tests=with_tests)


def test_a_tokenizer_of_both_directions_serves_its_first_direction(tmp_path: Path) -> None:
    assert len(build(corpus(tmp_path), data(tmp_path, both_directions=True)).stream.pairs) == 60


@pytest.mark.parametrize(("wrong", "both_directions"), [({"tgt_lang": "fr"}, True), ({"both_directions": True}, False)])
def test_a_tokenizer_of_other_directions_is_refused(
    wrong: dict[str, Any], both_directions: bool, tmp_path: Path
) -> None:
    with pytest.raises(HeedError, match=r"starts a source with .* needs .*: set data.both_directions"):
        build(corpus(tmp_path, **wrong), data(tmp_path, both_directions=both_directions))


@pytest.mark.parametrize("split", ["valid", "test"])
def test_an_evaluation_sentence_that_is_too_long_is_refused(split: str, tmp_path: Path) -> None:
    module = data(tmp_path)
    held_out = Sentences(["a dog", "the dog", "a"], ["ein Hund", "der Hund " * 40, "b"])
    longest = max(len(ids) for ids in module.tokenizer.encode_tgt(held_out.tgt))
    sets = {"valid" if split == "valid" else "news": EvaluationSet(held_out, Direction("en", "de"))}
    splits: dict[str, Any] = {"valid": sets} if split == "valid" else {"tests": sets}
    name = "data.valid" if split == "valid" else "The test set 'news'"
    message = rf"{name}, sentence pair 2: \d+ source and {longest} target tokens .*max_eval_tokens={longest - 1}"
    too_small = replace(corpus(tmp_path), max_eval_tokens=longest - 1, **splits)
    with pytest.raises(HeedError, match=message):
        build(too_small, module)
    for limit in (longest, None):
        build(replace(too_small, max_eval_tokens=limit), module)
    if split == "test":
        build(too_small, module, with_tests=False)


@pytest.mark.full
def test_one_evaluation_sentence_on_several_processes(tmp_path: Path) -> None:
    """Scores of one validation and one test sentence are the same on 1, 2 and 3 processes."""
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
        "batching.batch_tokens=90", "batching.device_tokens=96", "logger=none", "callbacks.attention_maps=null",
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
