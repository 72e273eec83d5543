"""Mixtures from the options to the steps: proportions, geometry, resuming, duplicates, tags, wrong options."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor

from heed.data.datamodule import TranslationData
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.pairs.tokenizer_training import TokenizerTrainer
from heed.data.steps.batch import Batch
from heed.data.steps.steps import Planner
from heed.data.steps.stream import StepShard
from heed.data.text.corpus import Corpus, TrainingSet
from heed.data.text.source import Sentences
from heed.errors import HeedError
from heed.models.seq2seq import Seq2Seq
from heed.symbols import EOS, PAD
from tests.data.texts import TOKENIZER, compose_data, files_error, sentence_pairs, training_text, write_lines
from tests.training.test_module import build_module

ROOT = Path(__file__).parents[2]
WEIGHTS = {"news": 3, "talks": 1, "crawl": 1}


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A folder with three training texts of different sizes, which name themselves in every sentence."""
    for name, size in (("news", 40), ("talks", 90), ("crawl", 25)):
        write_lines(
            tmp_path,
            **{
                f"{name}_en": [f"{name} number {n} {'very ' * (n % 4)}well" for n in range(size)],
                f"{name}_de": [f"{name} Nummer {n} {'sehr ' * (n % 4)}gut" for n in range(size)],
            },
        )
    write_lines(tmp_path, val_en=["held out"], val_de=["zurückgehalten"])
    return tmp_path


def load(folder: Path, *options: str, train: str | None = None) -> Corpus:
    texts = ",".join(
        f"{name}: {{files: [[{folder}/{name}.en,{folder}/{name}.de]], weight: {weight}"
        + (", tag: '<crawl>'}" if name == "crawl" else "}")
        for name, weight in WEIGHTS.items()
    )
    corpus: Corpus = compose_data(
        "files", f"data.train={train or '{' + texts + '}'}", f"data.valid=[[{folder}/val.en,{folder}/val.de]]",
        "data.test=null", f"data.cache_dir={folder}/cache", *options,
    ).load()  # fmt: skip
    return corpus


def data(folder: Path, *options: str, bpe_dropout: float = 0.0) -> TranslationData:
    corpus = load(folder, *options)
    tokenizer: Tokenizer = TokenizerTrainer(**TOKENIZER).train(
        corpus.train, folder / "cache", tags=corpus.tags + corpus.train.tags
    )
    planner = Planner(batch_tokens=100, device_tokens=120, pool=70, seed=1)
    return TranslationData(corpus, tokenizer, planner, bpe_dropout=bpe_dropout, with_tests=True)


def sources(batch: Batch) -> list[tuple[int, ...]]:
    return [tuple(token for token in row if token not in (PAD, EOS)) for row in batch.src.tolist()]


def step_sources(shards: list[StepShard]) -> list[tuple[int, list[tuple[int, ...]]]]:
    """Return (index, sources) of the micro-batches of a step, from the shards of all processes."""
    return sorted((number, sources(batch)) for shard in shards for number, batch in shard.micro_batches)


@pytest.mark.parametrize("bpe_dropout", [0.0, 0.2])
def test_the_texts_are_drawn_in_proportion(bpe_dropout: float, mixed: Path) -> None:
    module = data(mixed, bpe_dropout=bpe_dropout)
    counts = np.zeros(3, dtype=int)
    for shard in islice(module.stream.shards(0, 1), 60):
        texts = [module.tokenizer.decode_src([ids])[0] for _, batch in shard.micro_batches for ids in sources(batch)]
        found = [sum(text.startswith(name) for text in texts) for name in WEIGHTS]
        assert found == [sentences for sentences, _ in shard.texts]
        assert sum(tokens for _, tokens in shard.texts) == shard.tgt_tokens
        tagged = [ids[0] == module.tokenizer.text_tags["<crawl>"] for _, b in shard.micro_batches for ids in sources(b)]
        assert sum(tagged) == found[2], "the tag starts the sources of its text"
        counts += found
    assert np.abs(counts / counts.sum() - np.array([3, 1, 1]) / 5).max() < 0.03


def test_two_directions_split_the_weight_of_their_text_and_share_its_files(mixed: Path) -> None:
    module = data(mixed, "data.both_directions=true")
    tags = module.tokenizer.language_tags
    counts: Counter[tuple[str, str]] = Counter()
    for shard in islice(module.stream.shards(0, 1), 20, 120):
        own: Counter[str] = Counter()
        for ids in (ids for _, batch in shard.micro_batches for ids in sources(batch)):
            name = module.tokenizer.decode_src([ids])[0].split()[0]
            counts[name, "en" if "number" in module.tokenizer.decode_src([ids])[0] else "de"] += 1
            own[name] += 1
            assert ids[0] == tags["<2de>" if "number" in module.tokenizer.decode_src([ids])[0] else "<2en>"]
            assert (ids[1] == module.tokenizer.text_tags["<crawl>"]) == (name == "crawl")
        assert [own[name] for name in WEIGHTS] == [sentences for sentences, _ in shard.texts], "counted by text"
    for name, weight in WEIGHTS.items():
        for language in ("en", "de"):
            assert abs(counts[name, language] / counts.total() - weight / 10) < 0.02
    assert len([path for path in (mixed / "cache" / "encoded").iterdir() if path.is_dir()]) == 3


@pytest.mark.parametrize("bpe_dropout", [0.0, 0.2])
def test_the_steps_are_the_same_on_1_2_and_4_processes_and_after_a_resume(bpe_dropout: float, mixed: Path) -> None:
    whole = [step_sources([shard]) for shard in islice(data(mixed, bpe_dropout=bpe_dropout).stream.shards(0, 1), 40)]
    for size in (2, 4):
        ranks = [islice(data(mixed, bpe_dropout=bpe_dropout).stream.shards(rank, size), 30) for rank in range(size)]
        assert [step_sources(list(shards)) for shards in zip(*ranks, strict=True)] == whole[:30]
    for start in (7, 33):
        ranks = []
        for rank in range(3):
            resumed = data(mixed, bpe_dropout=bpe_dropout)
            resumed.load_state_dict({"epoch": 0, "step": start})
            ranks.append(islice(resumed.stream.shards(rank, 3), 7))
        assert [step_sources(list(shards)) for shards in zip(*ranks, strict=True)] == whole[start : start + 7]


def test_the_heaviest_text_keeps_what_several_have(mixed: Path) -> None:
    for language in ("en", "de"):
        shared = (mixed / f"news.{language}").read_text().splitlines()[:10]
        write_lines(mixed, **{f"crawl_{language}": [*shared, f"crawl alone {language}"]})
    corpus = load(mixed)
    assert [len(part.clean) for part in corpus.train.texts] == [40, 90, 1]
    assert sum(part.clean.report.dropped["duplicate"] for part in corpus.train.texts) == 10
    assert "crawl: training pairs: 11 read, 1 kept" in corpus.train.describe_cleaning()


def test_texts_have_fields_and_scores_of_their_own(mixed: Path) -> None:
    (mixed / "a.tsv").write_text("en\tde\tscore\none\teins\t0.9\ntwo\tzwei\t0.4\n")
    (mixed / "b.tsv").write_text("drei\tthree\nvier\tfour\n")
    texts = (
        f"{{a: {{files: [{mixed}/a.tsv], score_field: score, min_score: 0.5}}, "
        f"b: {{files: [{mixed}/b.tsv], src_field: 2, tgt_field: 1}}}}"
    )
    corpus = load(mixed, "data.src_field=en", "data.tgt_field=de", train=texts)
    pairs = [sentence_pairs(part) for part in corpus.train.texts]
    assert pairs == [[("one", "eins")], [("three", "drei"), ("four", "vier")]]
    for options, message in (
        ("min_score: 0.5", "data.train.a.min_score needs data.train.a.score_field"),
        ("src_field: de", "data.train.a.src_field and data.train.a.tgt_field are both de"),
    ):
        text = f"{{a: {{files: [{{}}/a.tsv], {options}}}}}"
        assert message in files_error(mixed, {"train": text, "src_field": "en", "tgt_field": "de"})


def test_a_temperature_makes_weights(mixed: Path) -> None:
    files = ", ".join(f"{name}: {{files: [[{mixed}/{name}.en,{mixed}/{name}.de]]}}" for name in ("news", "talks"))
    for option, expected in (("null", [40, 90]), ("5", [40**0.2, 90**0.2])):
        corpus = load(mixed, f"data.temperature={option}", train=f"{{{files}}}")
        assert corpus.train.weights == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": "{a: {files: [[{}/train.en,{}/train.de]], wieght: 2}}"}, "data.train.a.wieght is unknown (did you"),
        ({"train": "{a: {files: [[{}/train.en,{}/train.de]], weight: 0}}"}, "a.weight=0 must be a number > 0"),
        ({"train": "{a: {weight: 1}}"}, "data.train.a.files must be given"),
        ({"train": "{a: [[{}/train.en,{}/train.de]]}"}, "must be a list or a mapping"),
        (
            {"train": "{a: {files: [[{}/train.en,{}/train.de]], weight: 1}, b: {files: [[{}/train.en,{}/train.de]]}}"},
            "give every text a weight, or none of them",
        ),
        ({"train": "{a: {files: [[{}/train.en,{}/train.de]], tag: crawl}}"}, "tag=crawl must be a word in angle"),
        ({"temperature": "3"}, "data.temperature decides the weights of a mixture: leave it out, or name the texts"),
        (
            {"train": "{a: {files: [[{}/train.en,{}/train.de]], weight: 1}}", "temperature": "3"},
            "data.temperature decides the weights of a mixture without weights",
        ),
        *(
            ({"train": f"{{a: {{files: [[{{}}/train.en,{{}}/train.de]], tag: '{tag}'}}}}"}, "but no special token")
            for tag in ("<s>", "</s>", "<unk>", "<pad>", "<0x41>", "<2de>")
        ),
    ],
)  # fmt: skip
def test_wrong_mixtures_are_refused(folder: Path, changes: dict[str, str], message: str) -> None:
    assert message in files_error(folder, changes)


def test_a_tag_that_the_tokenizer_lacks_and_a_tiny_weight_are_refused_before_the_training(mixed: Path) -> None:
    untagged: Tokenizer = TokenizerTrainer(**TOKENIZER).train(load(mixed).train, mixed / "cache")
    planner = Planner(batch_tokens=100, device_tokens=120, pool=70, seed=1)
    for options, message in (
        ([], "This tokenizer has no tag <crawl> for a text"),
        (["data.train.crawl.tag=null", "data.train.talks.weight=1e-9"], "data.train.talks would be less than 1 of"),
    ):
        with pytest.raises(HeedError, match=message):
            TranslationData(load(mixed, *options), untagged, planner, bpe_dropout=0.0, with_tests=True)


def mixture_options(mixed: Path) -> list[str]:
    """The options of a small run with a mixture."""
    texts = ",".join(
        f"{name}: {{files: [[{mixed}/{name}.en,{mixed}/{name}.de]], weight: {weight}}}"
        for name, weight in WEIGHTS.items()
    )
    return [
        "data=files", f"data.train={{{texts}}}", f"data.valid=[[{mixed}/val.en,{mixed}/val.de]]", "data.test=null",
        "test=false", "model=rnn", "model.d_embedding=8", "model.d_model=8", "trainer.precision=32-true",
        "trainer.max_steps=6", "trainer.validate_every=3", "trainer.log_every=2", "batching.batch_tokens=100",
        "logger=none", "callbacks.attention_maps=null", f"cache_dir={mixed}/cache",
    ]  # fmt: skip


@pytest.mark.parametrize("world_size", [2, 4])
def test_the_gradients_of_processes_average_to_those_of_one(
    world_size: int, mixed: Path, tiny_model: Callable[..., Seq2Seq]
) -> None:
    """As DDP averages them; of four processes, some have no micro-batch."""
    own = data(mixed)
    size = {"src_vocab": own.tokenizer.src_vocab, "tgt_vocab": own.tokenizer.tgt_vocab}
    module = build_module(tiny_model("transformer", **size).train(), own.tokenizer)
    module.manual_backward = lambda loss: loss.backward()  # type: ignore[method-assign, assignment]

    def backward(shard: StepShard, processes: int) -> tuple[dict[str, Tensor], Tensor]:
        trainer = SimpleNamespace(world_size=processes, datamodule=own, strategy=None, global_step=0)
        module._trainer = trainer  # type: ignore[assignment]
        module.zero_grad()
        _, nll = module._backward(shard)
        return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}, nll

    whole = islice(own.stream.shards(0, 1), 24, 27)
    shards = [islice(own.stream.shards(rank, world_size), 24, 27) for rank in range(world_size)]
    for one, *parts in zip(whole, *shards, strict=True):
        gradients, nll = backward(one, 1)
        found = [backward(part, world_size) for part in parts]
        for name, gradient in gradients.items():
            torch.testing.assert_close(sum(own[name] for own, _ in found) / world_size, gradient)
        torch.testing.assert_close(torch.stack([nll for _, nll in found]).sum(0), nll)


@pytest.mark.full
def test_two_processes_train_on_a_mixture_like_one(mixed: Path) -> None:
    results = []
    for name, trainer in (("one", ["trainer=cpu"]), ("two", ["trainer=ddp_cpu", "trainer.devices=2"])):
        command = [sys.executable, "train.py", *mixture_options(mixed), *trainer, f"hydra.run.dir={mixed}/{name}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        results.append(json.loads((mixed / name / "results.json").read_text()))
    drawn = results[0]["texts"]
    assert list(drawn) == list(WEIGHTS)
    assert drawn["news"]["sentences"] > 2 * drawn["crawl"]["sentences"] > 0
    assert sum(part["tgt_tokens"] for part in drawn.values()) > 500
    assert all(1 < part["nll"] < 10 for part in drawn.values())
    for text in WEIGHTS:
        one, two = (own["texts"][text] for own in results)
        assert {**two, "nll": None} == {**one, "nll": None}
        assert two["nll"] == pytest.approx(one["nll"], rel=1e-4)
    assert results[1]["valid"]["loss"] == pytest.approx(results[0]["valid"]["loss"], rel=1e-4)


def test_the_limit_of_epochs_changes_no_step_before_it(mixed: Path) -> None:
    """A resumed run may have another limit."""
    endless = list(islice(data(mixed).stream.shards(0, 1), 200))
    for epochs in (1, 2, 3):
        steps = list(data(mixed).stream.shards(0, 1, max_epochs=epochs))
        assert [shard.last for shard in steps] == [False] * (len(steps) - 1) + [True]
        assert [step_sources([shard]) for shard in steps] == [step_sources([s]) for s in endless[: len(steps)]]
        tokens = data(mixed).stream.tgt_tokens
        assert sum(shard.tgt_tokens for shard in steps) == pytest.approx(epochs * tokens, abs=110)
        assert sorted({shard.passes for shard in steps}) == list(range(epochs)), "reports count the epochs"
        finished = data(mixed).stream
        finished.finished(steps[-1])
        assert not list(finished.shards(0, 1, max_epochs=epochs))


@pytest.mark.parametrize("batch_tokens", [1, 2, 7])
def test_the_epochs_end_where_a_pair_is_longer_than_several_steps(batch_tokens: int, mixed: Path) -> None:
    stream = data(mixed).stream
    for seed in range(8):
        stream.planner = Planner(batch_tokens=batch_tokens, device_tokens=120, pool=3, seed=seed)
        steps = list(islice(stream.shards(0, 1, max_epochs=1), 1000))
        assert steps[-1].last


def test_another_text_or_weight_than_that_of_the_checkpoint_is_reported(
    mixed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = data(mixed).state_dict()
    data(mixed).load_state_dict(state)
    assert "changed since the checkpoint" not in capsys.readouterr().err
    changed = data(mixed, "data.train.talks.weight=2")
    changed.load_state_dict(state)
    assert changed.stream.cursor == (0, 0)
    assert "changed since the checkpoint: this epoch may repeat or skip some sentences" in capsys.readouterr().err
    changed.resume = True
    with pytest.raises(HeedError, match=r"resume=true: the text of data\.train has changed since the checkpoint"):
        changed.load_state_dict(state)
    write_lines(mixed, val_de=["verändert"])
    changed = data(mixed)
    changed.load_state_dict(state)
    assert not capsys.readouterr().err
    changed.resume = True
    with pytest.raises(HeedError, match=r"resume=true: the text of data\.valid has changed since the checkpoint"):
        changed.load_state_dict(state)


@pytest.mark.parametrize("both", [False, True])
def test_source_words_are_counted_in_all_texts_and_directions_as_they_are_written(both: bool, tmp_path: Path) -> None:
    def lines(name: str, size: int) -> Sentences:
        return Sentences([f"{name} №{n} Ж" for n in range(size)], [f"{name.upper()} {n}" for n in range(size)])

    texts = [training_text(lines(name, size), tmp_path) for name, size in (("big", 900), ("small", 100))]
    counts = TrainingSet(texts, both_directions=both).count_in_sources(lambda lines: Counter(" ".join(lines).split()))
    found = {word: counts[word] for word in ("big", "BIG", "small", "SMALL", "Ж", "№7", "7")}
    assert found == {
        "big": 900, "BIG": 900 * both, "small": 100, "SMALL": 100 * both, "Ж": 1_000, "№7": 2, "7": 2 * both,
    }  # fmt: skip
