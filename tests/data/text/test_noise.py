"""Noise: the rates, the kinds, and that it is a function of the seed and the pair alone."""

import random
import subprocess
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heed.data.datamodule import TranslationData
from heed.data.pairs.tokenizer_training import TokenizerTrainer
from heed.data.steps.steps import Planner
from heed.data.text.corpus import Corpus
from heed.data.text.noise import Noise, add_noise
from tests.data.texts import ROOT, TOKENIZER, compose_data, files_error, load_files, numbered_dogs, write_lines

SENTENCES = [f"the dog number {n} sleeps." for n in range(2000)]


def noisy(**options: float) -> list[str]:
    return add_noise(Noise(**options), SENTENCES, range(2000), seed="1")


def drawn_sources(corpus: Corpus, cache: Path, *, batch_tokens: int) -> list[str]:
    """Return the sources of some training steps."""
    tokenizer = TokenizerTrainer(**TOKENIZER).train(corpus.train, cache, tags=corpus.tags)
    planner = Planner(batch_tokens=batch_tokens, device_tokens=256, pool=60, seed=1)
    module = TranslationData(corpus, tokenizer, planner, bpe_dropout=0.0, with_tests=False)
    batches = [batch for shard in islice(module.stream.shards(0, 1), 6) for _, batch in shard.micro_batches]
    return [text for batch in batches for text in tokenizer.decode_tgt(batch.src.tolist())]


def test_no_noise_changes_nothing() -> None:
    assert noisy() == SENTENCES


def test_upper_and_title_case_have_their_rates() -> None:
    upper = sum(text.isupper() for text in noisy(upper=0.2))
    assert abs(upper - 400) < 80
    assert noisy(title=1.0)[3] == "The Dog Number 3 Sleeps."
    assert noisy(upper=1.0, title=1.0)[3] == "THE DOG NUMBER 3 SLEEPS."


@pytest.mark.parametrize(
    ("lang", "sentence", "upper", "title"),
    [
        ("tr", "iki ılık ışık", "İKİ ILIK IŞIK", "İki Ilık Işık"),
        ("az_Latn", "iki", "İKİ", "İki"),
        ("de", "die straße ist schön", "DIE STRASSE IST SCHÖN", "Die Straße Ist Schön"),
        ("hr", "ǆep", "ǄEP", "ǅep"),
        ("", "iki ılık", "IKI ILIK", "Iki Ilık"),
    ],
)
def test_case_is_that_of_the_language(lang: str, sentence: str, upper: str, title: str) -> None:
    assert add_noise(Noise(upper=1.0), [sentence], [0], seed="1", lang=lang) == [upper]
    assert add_noise(Noise(title=1.0), [sentence], [0], seed="1", lang=lang) == [title]


def test_punctuation_is_left_out_or_repeated() -> None:
    ends = Counter(text[-2:] for text in noisy(punctuation=0.5))
    assert abs(ends["s."] - 1000) < 120
    assert abs(ends["ps"] - ends[".."]) < 120
    assert add_noise(Noise(punctuation=1.0), ["", "no mark"], [1, 2], seed="1") == ["", "no mark"]


def test_typos_change_a_word_by_one_letter() -> None:
    words = [
        pair
        for text, old in zip(noisy(typos=0.1), SENTENCES, strict=True)
        for pair in zip(text.split(" "), old.split(" "), strict=True)
    ]
    changed = [(new, old) for new, old in words if new != old]
    assert 0.06 < len(changed) / len(words) < 0.11  # swapped equal letters and single letters do not change
    for new, old in changed:
        assert abs(len(new) - len(old)) <= 1
        assert len(new) != len(old) or sorted(new) == sorted(old)


@given(sentence=st.text("ab .!?", min_size=1).filter(str.strip), seed=st.integers(0, 9))
@example(sentence="!", seed=1)
def test_noise_leaves_no_sentence_empty(sentence: str, seed: int) -> None:
    noise = Noise(typos=1.0, punctuation=1.0, upper=0.5, title=0.5)
    for number in range(8):
        (changed,) = add_noise(noise, [sentence], [number], seed=f"{seed}")
        assert changed.strip()


def test_noise_depends_on_seed_and_number() -> None:
    noise = Noise(typos=0.3)
    whole = add_noise(noise, SENTENCES[:50], range(50), seed="1")
    assert add_noise(noise, SENTENCES[20:30], range(20, 30), seed="1") == whole[20:30]
    assert add_noise(noise, SENTENCES[:50], range(50), seed="2") != whole
    assert noise("", random.Random(1)) == ""


@pytest.mark.parametrize("bpe_dropout", [0.0, 0.2])
def test_training_sources_have_noise_and_targets_have_none(bpe_dropout: float, tmp_path: Path) -> None:
    dogs = numbered_dogs(60)
    write_lines(tmp_path, train_en=dogs.src, train_de=dogs.tgt, val_en=["a dog."], val_de=["ein Hund."])
    write_lines(tmp_path, test_en=["b"], test_de=["b"])
    corpus = load_files(tmp_path, noise="{upper: 1.0}")
    tokenizer = TokenizerTrainer(**TOKENIZER).train(corpus.train, tmp_path)
    planner = Planner(batch_tokens=120, device_tokens=256, pool=30, seed=1)
    module = TranslationData(corpus, tokenizer, planner, bpe_dropout=bpe_dropout, with_tests=False)
    for shard in islice(module.stream.shards(0, 1), 8):
        for _, batch in shard.micro_batches:
            assert all(text.isupper() for text in tokenizer.decode_tgt(batch.src.tolist()))
            assert not any(text.isupper() for text in tokenizer.decode_tgt(batch.tgt_out.tolist()))
    ((valid,),) = module.val_dataloader()
    assert tokenizer.decode_tgt(valid.src.tolist()) == ["a dog."]


def test_each_direction_has_the_letters_of_its_own_source(tmp_path: Path) -> None:
    numbers = [str(n) for n in range(30)]
    write_lines(tmp_path, train_en=[f"big {n}" for n in numbers], train_tr=[f"iki {n}" for n in numbers])
    write_lines(tmp_path, val_en=["a"], val_tr=["b"])
    corpus = compose_data(
        "files", f"data.train=[[{tmp_path}/train.en,{tmp_path}/train.tr]]", "data.both_directions=true",
        f"data.valid=[[{tmp_path}/val.en,{tmp_path}/val.tr]]", "data.test=null", f"data.cache_dir={tmp_path}/cache",
        "data.noise={upper: 1.0}",
    ).load()  # fmt: skip
    sources = drawn_sources(corpus, tmp_path, batch_tokens=200)
    assert {text.split(" ")[-2] for text in sources} == {"BIG", "İKİ"}


def test_a_text_of_a_mixture_has_its_own_noise(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_lines(tmp_path, **{f"{name}_en": [f"{name} {n}" for n in range(30)], f"{name}_de": ["x"] * 30})
    write_lines(tmp_path, val_en=["a"], val_de=["b"])
    texts = ", ".join(
        f"{name}: {{files: [[{tmp_path}/{name}.en,{tmp_path}/{name}.de]], noise: {noise}}}"
        for name, noise in (("one", "{upper: 1.0}"), ("two", "{}"))
    )
    corpus = compose_data(
        "files", f"data.train={{{texts}}}", f"data.valid=[[{tmp_path}/val.en,{tmp_path}/val.de]]", "data.test=null",
        f"data.cache_dir={tmp_path}/cache",
    ).load()  # fmt: skip
    assert {text.split(" ")[0] for text in drawn_sources(corpus, tmp_path, batch_tokens=40)} == {"ONE", "two"}


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ("{uper: 0.1}", "data.noise.uper is unknown (did you mean data.noise.upper"),
        ("{typos: 2}", "data.noise.typos=2 must be"),
    ],
)
def test_wrong_noise_is_refused(noise: str, message: str, folder: Path) -> None:
    assert message in files_error(folder, {"noise": noise})


def test_noise_keeps_the_lines() -> None:
    done = _add_noise("a\u2028b iki\nc\u0085d\x0be\r\nf".encode(), "--upper", "1", "--lang", "tr")
    assert done == (0, "A\u2028B İKİ\nC\u0085D\x0bE\nF\n", "")


@pytest.mark.parametrize(
    ("encoding", "message"),
    [("utf-16", "Standard input is UTF-16"), ("latin-1", "Line 2 of Standard input is not UTF-8")],
)
def test_noise_reads_only_utf_8(encoding: str, message: str) -> None:
    status, output, error = _add_noise("a\nStraße\n".encode(encoding))
    assert (status, output) == (2, "")
    assert error.startswith(f"add_noise: {message}")
    assert error.count("\n") == 1


def _add_noise(given: bytes, *options: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "add_noise.py", *options], input=given, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()
