"""One model of several languages: from the options of its corpus to translations of the saved model."""

import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hydra.errors import InstantiationException

import heed
from heed.cli import main
from heed.data.datamodule import TranslationData
from heed.data.pairs.tokenizer_training import TokenizerTrainer
from heed.data.steps.steps import Planner
from heed.data.text.corpus import Corpus
from heed.errors import HeedError
from heed.languages import Direction
from heed.runs.results import mean_scores, scores_of_tests
from tests.data.texts import TOKENIZER, compose_data, write_lines

WORDS = {
    "en": ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
    "de": ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn"],
    "fr": ["un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit", "neuf", "dix"],
}
SETS = {"train": (0, 700), "val": (700, 730), "test": (730, 760)}
DIRECTIONS = ["en-de", "en-fr", "de-en", "fr-en"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with sentences of four numbers in English, German and French."""
    draw = random.Random(1)
    sentences = draw.sample(list(product(range(10), repeat=4)), 760)
    for name, (start, stop) in SETS.items():
        texts = {
            f"{name}_{lang}": [" ".join(words[number] for number in numbers) for numbers in sentences[start:stop]]
            for lang, words in WORDS.items()
        }
        write_lines(tmp_path, **texts)
    return tmp_path


def entry(folder: Path, name: str, direction: str) -> str:
    return f"[[{','.join(f'{folder}/{name}.{lang}' for lang in direction.split('-'))}]]"


TEXTS = (("train", "en-de"), ("train", "en-fr"))


def options(
    folder: Path, *changes: str, valid: Sequence[str] = DIRECTIONS[:2], texts: Sequence[tuple[str, str]] = TEXTS
) -> list[str]:
    """Return the options of a corpus.

    Args:
        texts: names and directions of the training texts.
    """
    train = ",".join(
        f"{direction[-2:]}{number}: {{files: {entry(folder, name, direction)}, direction: {direction}}}"
        for number, (name, direction) in enumerate(texts)
    )
    held_out = [
        f"data.{key}={{{','.join(f'{direction}: {entry(folder, name, direction)}' for direction in valid)}}}"
        for key, name in (("valid", "val"), ("test", "test"))
    ]
    return [f"data.train={{{train}}}", *held_out, f"data.cache_dir={folder}/cache", *changes]


def load(folder: Path, *changes: str, **sets: Any) -> Corpus:
    corpus: Corpus = compose_data("files", *options(folder, *changes, **sets)).load()
    return corpus


def names(directions: tuple[Direction, ...]) -> list[str]:
    return [str(direction) for direction in directions]


def test_every_text_and_set_has_its_direction(folder: Path) -> None:
    corpus = load(folder)
    assert names(corpus.directions) == ["en-de", "en-fr"]
    assert corpus.tags == ("<2de>", "<2fr>")
    assert {name: str(part.direction) for name, part in {**corpus.valid, **corpus.tests}.items()} == {
        "valid-en-de": "en-de", "valid-en-fr": "en-fr", "en-de": "en-de", "en-fr": "en-fr",
    }  # fmt: skip
    assert len(corpus.train) == 1400, "the same source in two languages is no duplicate"
    both = load(folder, "data.both_directions=true", valid=["fr-en", "en-de"])
    assert names(both.directions) == ["fr-en", "en-de", "de-en", "en-fr"]
    assert set(both.tags) == {"<2en>", "<2de>", "<2fr>"}
    assert both.tags[0] == "<2en>", "the first direction's tag is the first"


def test_training_pairs_and_sets_have_the_tag_of_their_target(folder: Path) -> None:
    corpus = load(folder, "data.both_directions=true", valid=DIRECTIONS)
    tokenizer = TokenizerTrainer(**TOKENIZER).train(
        corpus.train, folder / "cache", tags=corpus.tags + corpus.train.tags
    )
    planner = Planner(batch_tokens=500, device_tokens=500, pool=70, seed=1)
    data = TranslationData(corpus, tokenizer, planner, bpe_dropout=0.0, with_tests=True)
    languages = {tokenizer.language_tags[f"<2{lang}>"]: set(words) for lang, words in WORDS.items()}
    shard = next(iter(data.train_dataloader()))
    seen = set()
    for _, batch in shard.micro_batches:
        for src, tgt in zip(batch.src.tolist(), tokenizer.decode_tgt(batch.tgt_out.tolist()), strict=True):
            assert set(tgt.split()) <= languages[src[0]]
            seen.add(src[0])
    assert seen == set(tokenizer.language_tags.values())
    for name, loader in zip(data.sets.validated, data.val_dataloader(), strict=True):
        tag = tokenizer.language_tags[data.sets.directions[name].tag]
        assert {row[0] for batch in loader for row in batch.src.tolist()} == {tag}


def test_held_out_sentences_are_kept_from_all_texts_of_their_language(folder: Path) -> None:
    english, german = ((folder / f"val.{lang}").read_text().splitlines()[:7] for lang in ("en", "de"))
    write_lines(folder, more_en=[*english, "new"], more_fr=[f"neuf {n}" for n in range(8)])
    write_lines(folder, other_de=[*german[:5], "neu"], other_fr=[f"neuf {n}" for n in range(6)])
    corpus = load(folder, texts=[("more", "en-fr"), ("other", "de-fr"), ("train", "en-de")])
    assert [(part.name, len(part.clean)) for part in corpus.train.texts] == [("fr0", 1), ("fr1", 1), ("de2", 700)]


def test_equal_pairs_of_other_languages_are_no_duplicates(folder: Path) -> None:
    write_lines(folder, same_en=["OK", "Berlin"], same_de=["OK", "Berlin"], same_fr=["OK", "Berlin"])
    texts = [("same", "en-de"), ("same", "en-fr"), ("same", "en-de")]
    corpus = load(folder, "data.cleaning.drop_duplicates=false", texts=texts)
    assert [len(part.clean) for part in corpus.train.texts] == [2, 2, 2]
    write_lines(folder, more_en=["OK", "Paris"], more_de=["OK", "Paris"])
    corpus = load(folder, texts=[*texts[:2], ("more", "en-de")])
    assert [len(part.clean) for part in corpus.train.texts] == [2, 2, 1]


def test_held_out_sentences_are_no_sources_in_either_direction(folder: Path) -> None:
    english, german = ((folder / f"val.{lang}").read_text().splitlines()[:7] for lang in ("en", "de"))
    write_lines(folder, more_en=[f"new {n}" for n in range(8)], more_de=[*german, "neu"])
    write_lines(folder, other_en=[*english, "new"], other_de=[f"neu {n}" for n in range(8)])
    texts = [("more", "en-de"), ("other", "en-de"), ("train", "en-fr")]
    for both, expected in (("false", [8, 1, 700]), ("true", [1, 1, 700])):
        corpus = load(folder, f"data.both_directions={both}", texts=texts)
        assert [len(part.clean) for part in corpus.train.texts] == expected
        assert sum(part.clean.report.dropped["leaked"] for part in corpus.train.texts) == 16 - sum(expected[:2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("data.valid={en-it: [[a.en,a.it]]}", "data.valid has the direction en-it, but no training text has"),
        ("data.valid={english: [[a.en,a.it]]}", "data.valid.english must be two different language codes"),
        ("data.valid={en-en: [[a.en,a.it]]}", "data.valid.en-en must be two different language codes"),
        ("data.valid={en-eng: [[a.en,a.it]]}", "data.valid.en-eng must be two different language codes"),
        ("data.valid={en-deu: [[a.en,a.it]]}", "The texts have two codes of one language, de and deu: use one of them"),
        ("data.test={news: [[a.en,a.it]]}", "test set news must end with its direction, such as news-en-de (direct"),
        ("data.src_lang=en", "data.valid names its directions: leave out data.src_lang and data.tgt_lang"),
        ("data.train.fr1.direction=fr", "direction=fr must be two different language codes"),
    ],
)
def test_wrong_directions_are_one_sentence(folder: Path, change: str, message: str) -> None:
    write_lines(folder, a_en=["x"], a_it=["y"])
    key, _, value = change.partition("=")
    given = [option for option in options(folder) if not option.startswith(f"{key}=")]
    value = value.replace("a.", f"{folder}/a.")
    with pytest.raises((HeedError, InstantiationException)) as caught:
        compose_data("files", *given, f"{key}={value}").load()
    error = caught.value if isinstance(caught.value, HeedError) else caught.value.__cause__
    assert message in str(error)


def test_the_mean_of_several_sets_says_so() -> None:
    score = {"bleu_signature": "a", "chrf_signature": "c", "not_comparable": None}
    sets = {
        "x": {**score, "bleu": 10.0, "chrf": 20.0, "loss": 1.0},
        "y": {**score, "bleu": 20.0, "chrf": 40.0, "loss": 2.0},
    }
    mean = mean_scores(sets)
    assert (mean["bleu"], mean["chrf"], mean["loss"], mean["bleu_signature"]) == (15.0, 30.0, 1.5, "a")
    assert mean["not_comparable"] == "the mean of x, y"
    sets["y"] |= {"loss": None, "bleu_signature": "b"}
    assert (mean_scores(sets)["loss"], mean_scores(sets)["bleu_signature"]) == (None, "a and b")
    assert scores_of_tests({"sets": sets}, sets) == mean_scores(sets)
    assert scores_of_tests({}, sets) == next(iter(sets.values()))
    assert scores_of_tests({"sets": sets}, {}) is None


@pytest.mark.full
def test_one_model_learns_every_direction(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from heed.launch import train
    from heed.launch.compose import compose

    run = folder / "run"
    run.mkdir()
    small = [
        "data=files", *options(folder, "data.both_directions=true", valid=DIRECTIONS), "model=rnn",
        "model.d_embedding=32", "model.d_model=64", "model.dropout=0.0", "trainer.precision=32-true",
        "trainer.max_steps=400", "trainer.max_epochs=null", "trainer.validate_every=200", "batching.batch_tokens=400",
        "optimizer.lr=0.004", "schedule.warmup_steps=50", "search=greedy", "logger=none",
        "callbacks.attention_maps=null", f"cache_dir={folder}/cache", "trainer=cpu",
    ]  # fmt: skip
    results: Any = train(compose(small, folder=run)).results
    assert list(results["valid"]["sets"]) == [f"valid-{direction}" for direction in DIRECTIONS]
    assert list(results["tests"]) == DIRECTIONS
    assert results["test"]["bleu"] == pytest.approx(sum(part["bleu"] for part in results["tests"].values()) / 4)
    assert list(results["texts"]) == ["de0", "fr1"]

    translator = heed.load(run)
    assert translator.directions == DIRECTIONS
    for direction in DIRECTIONS:
        src, tgt = ((folder / f"test.{lang}").read_text().splitlines() for lang in direction.split("-"))
        translated = translator.in_direction(direction).translate(src)
        assert translated == (run / "translations" / f"{direction}.hyp").read_text().splitlines()
        assert sum(ours == theirs for ours, theirs in zip(translated, tgt, strict=True)) >= 27, direction
        given = ["--to", direction[-2:], "--input", str(folder / f"test.{direction[:2]}")]
        assert main(["translate", "--model", str(run), *given]) == 0
        assert capsys.readouterr().out.splitlines() == translated
