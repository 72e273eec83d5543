"""The corpora: text files, JSONL and parquet, the hub, and the built-in one."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from grammar.__main__ import main as write_grammar
from hydra.errors import InstantiationException

from heed.data.text.corpus import Corpus
from heed.errors import HeedError
from heed.files import built_in_corpus
from tests import forkserver
from tests.data.texts import ENGLISH, GERMAN, ROOT, compose_data, hub_corpus, load_files, sentence_pairs, write_lines

SHARED = ROOT.parent / "shared" / "data"


def synthetic(cache: Path, *options: str, train: int = 20, others: int = 20) -> Corpus:
    """Load the first pairs of the built-in corpus."""
    sizes = [f"data.train={train}", *(f"data.{split}={others}" for split in ("valid", "test", "long"))]
    corpus: Corpus = compose_data("synthetic", *sizes, f"data.cache_dir={cache}", *options).load()
    return corpus


def test_text_files_are_read_unchanged(folder: Path) -> None:
    corpus = load_files(folder)
    assert sentence_pairs(corpus.train) == list(zip(ENGLISH, GERMAN, strict=True))
    assert sentence_pairs(corpus.valid["valid"].text) == [("Held out.", "Zurückgehalten.")]
    assert {name: sentence_pairs(held_out.text) for name, held_out in corpus.tests.items()} == {
        "test": [("The last.", "Das Letzte.")]
    }
    assert corpus.directions[0] == ("en", "de")


def test_windows_line_ends_and_byte_order_marks_are_dropped(folder: Path) -> None:
    (folder / "train.en").write_bytes(b"\xef\xbb\xbfOne.\r\nTwo\rhalves.\r\n")
    (folder / "train.de").write_bytes("Eins.\nZwei Hälften.".encode())
    assert sentence_pairs(load_files(folder).train) == [("One.", "Eins."), ("Two halves.", "Zwei Hälften.")]


def test_line_breaks_inside_fields_become_spaces(folder: Path) -> None:
    (folder / "train.jsonl").write_text(json.dumps({"src": "one\ntwo\r\nthree\r", "tgt": "eins zwei drei"}))
    assert sentence_pairs(load_files(folder, train="[{}/train.jsonl]").train) == [("one two three", "eins zwei drei")]


def test_several_training_files_and_test_sets(folder: Path) -> None:
    write_lines(folder, more_en=["More."], more_de=["Mehr."])
    (folder / "sub").mkdir()
    write_lines(folder / "sub", test_en=["Other."], test_de=["Anderes."], train_en=["T."], train_de=["Z."])
    corpus = load_files(
        folder,
        train="[[{}/train.en,{}/train.de],[{}/more.en,{}/more.de]]",
        test="[[{}/test.en,{}/test.de],[{}/sub/test.en,{}/sub/test.de],[{}/sub/train.en,{}/sub/train.de]]",
    )
    assert len(corpus.train) == 5
    assert list(corpus.tests) == ["test", "test-2", "train-2"], (
        "names of test sets are unique and differ from the other splits"
    )
    named = load_files(folder, test="{news: [[{}/sub/test.en,{}/sub/test.de]], talks: [[{}/test.en,{}/test.de]]}")
    assert {name: held_out.text.src[0] for name, held_out in named.tests.items()} == {
        "news": "Other.",
        "talks": "The last.",
    }


def test_reverse_swaps_text_and_languages(folder: Path) -> None:
    corpus = load_files(folder, reverse="true")
    assert corpus.directions[0] == ("de", "en")
    assert sentence_pairs(corpus.train) == list(zip(GERMAN, ENGLISH, strict=True))
    assert sentence_pairs(corpus.tests["test"].text) == [("Das Letzte.", "The last.")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"train": "[[{}/train.de,{}/train.en]]"},
            "data.valid: [{0}/val.en,{0}/val.de] is en-de by its suffixes, but its direction is de-en (from "
            "[{0}/train.de,{0}/train.en] in data.train): swap",
        ),
        ({"test": "[[{}/test.de,{}/test.en]]"}, "data.test: [{0}/test.de,{0}/test.en] is de-en by its suffixes, but"),
        (
            {"train": "[[{}/train.en,{}/train.de],[{}/test.de,{}/test.en]]"},
            "data.train: [{0}/test.de,{0}/test.en] is de-en by its suffixes, but its direction is en-de (from",
        ),
        (
            {"valid": "{en-de: [[{}/val.en,{}/val.de]], de-en: [[{}/val.en,{}/val.de]]}", "test": "null"},
            "data.valid: [{0}/val.en,{0}/val.de] is en-de by its suffixes, but its direction is de-en: swap",
        ),
        (
            {"src_lang": "de", "tgt_lang": "en"},
            "data.train: [{0}/train.en,{0}/train.de] is en-de by its suffixes, but its direction is de-en: swap",
        ),
        (
            {"src_lang": "deu_Latn", "tgt_lang": "eng_Latn"},
            "data.train: [{0}/train.en,{0}/train.de] is en-de by its suffixes, but its direction is deu_Latn-eng_Latn",
        ),
    ],
)
def test_files_whose_suffixes_contradict_the_direction_are_refused(
    folder: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(HeedError, match=re.escape(message.format(folder))):
        load_files(folder, **options)


@pytest.mark.parametrize(
    ("target", "language"),
    [
        ("私は学生です。", "ja"),
        ("我们都是学生。", "zh"),
        ("저는 학생입니다.", "ko"),
        ("Wir sind Schüler (学生).", "und"),
    ],
)
def test_languages_are_recognised_by_script_without_suffixes(folder: Path, target: str, language: str) -> None:
    write_lines(folder, v_src=["We are students."], v_tgt=[target])
    write_lines(folder, t_src=ENGLISH, t_tgt=GERMAN)
    corpus = load_files(folder, train="[[{}/t.src,{}/t.tgt]]", valid="[[{}/v.src,{}/v.tgt]]")
    assert corpus.directions[0] == ("und", language)
    assert load_files(folder, train="[[{}/t.src,{}/t.tgt]]", tgt_lang="nl").directions[0].tgt_lang == "nl"


def test_max_eval_shortens_only_what_is_evaluated(folder: Path) -> None:
    write_lines(folder, val_en=ENGLISH, val_de=GERMAN)
    leaked = {"cleaning.drop_leaked": "true", "train": "[[{}/train.en,{}/train.de],[{}/test.en,{}/test.de]]"}
    with pytest.raises(HeedError, match=r"leaked +5"):  # by the whole sets
        load_files(folder, **leaked, max_eval="1")
    corpus = load_files(folder, max_eval="2", **{"cleaning.drop_leaked": "false"})
    assert sentence_pairs(corpus.valid["valid"].text) == list(zip(ENGLISH[:2], GERMAN[:2], strict=True))
    assert len(corpus.tests["test"].text) == 1
    assert len(corpus.train) == 4
    annotated = synthetic(folder, "data.max_eval=3", others=7)
    assert [len(json.loads(meta)["alignment"]) > 0 for meta in annotated.tests["long"].text.meta or ()] == [True] * 3


def test_the_report_shows_no_examples_of_pairs_that_are_left_out(folder: Path) -> None:
    report = str(load_files(folder, max_train="1").train.texts[0].clean.report)
    assert report == "training pairs: 4 read, 1 kept\n  over max_train          3"


def test_samples_of_max_train_are_nested(folder: Path) -> None:
    lines = [f"Sentence number {n}." for n in range(300)]
    write_lines(folder, train_en=lines, train_de=lines)
    samples = [[src for src, _ in sentence_pairs(load_files(folder, max_train=str(size)).train)] for size in (50, 100)]
    assert [len(sample) for sample in samples] == [50, 100]
    assert set(samples[0]) < set(samples[1])
    assert samples[1] == sorted(samples[1], key=lines.index), "the order of the file is kept"
    assert samples[1] != lines[:100], "not the first lines: in a file sorted by length, they are the shortest"


@pytest.mark.slow
def test_the_digest_depends_on_the_text(folder: Path) -> None:
    script = (
        "import sys; from tests.data.texts import load_files; from pathlib import Path;"
        "print(load_files(Path(sys.argv[1]), cache_dir='{}/other').digest)"
    )
    in_another_process = forkserver.run(
        [sys.executable, "-c", script, str(folder)], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    assert load_files(folder).digest == in_another_process
    write_lines(folder, train_en=ENGLISH[::-1], train_de=GERMAN[::-1])
    assert load_files(folder).digest == in_another_process, "the order of the training text does not count"
    write_lines(folder, train_en=ENGLISH[::-1], train_de=GERMAN)
    assert load_files(folder).digest != in_another_process


def test_published_corpus_from_a_folder_in_both_directions(folder: Path) -> None:
    write_lines(folder, test_2016_flickr_en=["The last."])
    (folder / "test_2016_flickr.en").write_text("The last.\n")
    (folder / "test_2016_flickr.de").write_text("Das Letzte.\n")
    cache = str(folder / "cache")
    forward = hub_corpus(root=str(folder), cache_dir=cache).load()
    by_languages = hub_corpus(root=str(folder), cache_dir=cache, src_lang="de", tgt_lang="en").load()
    by_reverse = hub_corpus(root=str(folder), cache_dir=cache, reverse="true").load()
    assert (forward.name, forward.directions[0], list(forward.tests)) == ("multi30k", ("en", "de"), ["test"])
    assert by_languages.digest == by_reverse.digest != forward.digest
    assert by_reverse.directions[0].src_lang == by_languages.directions[0].src_lang == "de"
    assert sentence_pairs(by_reverse.tests["test"].text) == [("Das Letzte.", "The last.")]


def test_published_corpus_from_a_repository(folder: Path) -> None:
    """`load_dataset` reads a local copy of a repository in the same way as the hub."""
    repository = folder / "repository"
    repository.mkdir()
    for split in ("train", "validation", "test"):
        (repository / f"{split}.jsonl").write_text(json.dumps({"en": f"{split}\nset", "de": f"{split}-Menge"}) + "\n")
    corpus = hub_corpus(repository=str(repository), cache_dir=str(folder / "cache")).load()
    assert sentence_pairs(corpus.valid["valid"].text) == [("validation set", "validation-Menge")]
    other = hub_corpus(repository=str(repository), tgt_lang="deu", cache_dir=str(folder / "cache")).load()
    assert (other.directions[0], sentence_pairs(other.valid["valid"].text)) == (
        ("en", "deu"),
        sentence_pairs(corpus.valid["valid"].text),
    )
    with pytest.raises(InstantiationException, match=r"are the same language: give two different languages"):
        hub_corpus(repository=str(repository), tgt_lang="eng")
    with pytest.raises(HeedError, match=r"no column fr: set .* to two of .*de"):
        hub_corpus(repository=str(repository), tgt_lang="fr", cache_dir=str(folder / "cache")).load()


def test_a_missing_repository_is_an_error() -> None:
    with pytest.raises(HeedError, match=r"No hub repository of tatoeba .*data\.root=DIR"):
        compose_data("tatoeba").load()


@pytest.mark.full
def test_a_missing_network_is_an_error() -> None:
    script = "from tests.data.texts import hub_corpus; hub_corpus(repository='nobody/nothing').load()"
    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert "HeedError: nobody/nothing could not be loaded" in run.stderr
    assert "data.root=DIR" in run.stderr


def test_synthetic_corpus(tmp_path: Path) -> None:
    corpus, again, reverse = (synthetic(tmp_path, *more, train=200) for more in ([], [], ["data.reverse=true"]))
    assert list(corpus.tests) == ["test", "long"]
    assert corpus.digest == again.digest
    assert (len(corpus.train), len(corpus.valid["valid"].text), len(corpus.tests["long"].text)) == (200, 20, 20)
    assert not any(corpus.train.texts[0].clean.report.dropped.values()), "the grammar generates clean text"
    there, back = corpus.tests["test"].text, reverse.tests["test"].text
    assert (there.src, there.tgt) == (back.tgt, back.src)
    for meta, back_meta in zip(there.meta, back.meta, strict=True):
        alignment = json.loads(meta)["alignment"]
        assert alignment
        assert sorted([t, s] for s, t in alignment) == json.loads(back_meta)["alignment"]


def test_smaller_sizes_are_prefixes(tmp_path: Path) -> None:
    small, large = synthetic(tmp_path, others=5), synthetic(tmp_path, train=60, others=9)
    assert sentence_pairs(small.train) == sentence_pairs(large.train)[:20]
    for name, part in small.tests.items():
        whole = large.tests[name].text
        assert (part.text.src, part.text.tgt, part.text.meta) == (whole.src[:5], whole.tgt[:5], whole.meta[:5])


def test_another_corpus_of_the_grammar(tmp_path: Path) -> None:
    """What the messages advise works: write a corpus of another seed, or a larger one, and train on it."""
    sizes = ["data.train=30", "data.valid=5", "data.test=5", "data.long=2", f"data.cache_dir={tmp_path}/cache"]
    written = ["--train", "30", "--valid", "5", "--test", "5", "--long", "2"]
    assert write_grammar(["--out", str(tmp_path), "--seed", "2", "--contrasts", "2", *written]) == 0
    corpus = compose_data("synthetic", *sizes, f"data.root={tmp_path}").load()
    shipped = compose_data("synthetic", *sizes).load()
    assert len(corpus.train) == len(shipped.train) == 30
    assert not {*sentence_pairs(corpus.train)} & {*sentence_pairs(shipped.train)}
    with pytest.raises(HeedError, match=r"data\.train=31 is more than the 30 pairs of .*--train 31.*data\.train=31"):
        compose_data("synthetic", *sizes, f"data.root={tmp_path}", "data.train=31").load()


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("data.seed=2", "heed ships seed 1.*`python -m scripts.grammar --out DIR --seed 2` writes.*data.root=DIR"),
        ("data.long=501", "data.long=501 is more than the 500 pairs of data=synthetic.*--long 501`.*data.root=DIR"),
        ("data.root={}/nowhere", "nowhere/train.jsonl.gz does not exist"),
        ("data.root={}", r"train.jsonl.gz, line 2: not a pair of scripts/grammar"),
    ],
)
def test_a_synthetic_corpus_that_heed_does_not_ship(tmp_path: Path, option: str, message: str) -> None:
    shipped = gzip.decompress((built_in_corpus() / "train.jsonl.gz").read_bytes())
    (tmp_path / "train.jsonl.gz").write_bytes(shipped[: shipped.index(b"\n") + 100])
    with pytest.raises((HeedError, InstantiationException), match=message):
        synthetic(tmp_path, option.format(tmp_path))


def test_the_direction_of_the_synthetic_corpus(tmp_path: Path) -> None:
    """The languages choose source and target, as for a published corpus; ``reverse`` swaps them."""
    german = ["data.src_lang=de", "data.tgt_lang=en"]
    forward, by_reverse, by_languages, twice = (
        synthetic(tmp_path, *options) for options in ([], ["data.reverse=true"], german, [*german, "data.reverse=true"])
    )
    assert sentence_pairs(by_languages.train) == [(tgt, src) for src, tgt in sentence_pairs(forward.train)]
    assert by_languages.digest == by_reverse.digest != forward.digest == twice.digest
    assert [c.directions[0] for c in (forward, by_reverse, by_languages, twice)] == [
        ("en", "de"), ("de", "en"), ("de", "en"), ("en", "de"),
    ]  # fmt: skip
    # Positions in the English sentence are dropped when it is no longer the source.
    assert any(json.loads(meta)["roles"] for meta in forward.valid["valid"].text.meta)
    assert not any(
        json.loads(meta)["roles"] or json.loads(meta)["antecedent"] for meta in by_languages.valid["valid"].text.meta
    )


@pytest.mark.parametrize("name", ["synthetic", "multi30k"])
@pytest.mark.parametrize("languages", [("de", "de"), ("en", "en")])
def test_the_same_language_twice_is_refused(name: str, languages: tuple[str, str]) -> None:
    with pytest.raises(InstantiationException, match=r"data\.src_lang.*data\.tgt_lang"):
        compose_data(name, f"data.src_lang={languages[0]}", f"data.tgt_lang={languages[1]}")


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/data")
@pytest.mark.parametrize(("name", "sizes"), [("multi30k", (28_994, 1014, 1000)), ("tatoeba", (164_120, 2539, 2500))])
def test_published_corpora(name: str, sizes: tuple[int, ...], tmp_path: Path) -> None:
    corpus = compose_data(name, f"data.root={SHARED / name}", f"data.cache_dir={tmp_path}").load()
    assert (len(corpus.train), len(corpus.valid["valid"].text), len(corpus.tests["test"].text)) == sizes
    placeholders = [dropped.number for dropped in corpus.train.texts[0].clean.report.examples["placeholder"]]
    assert placeholders == ([16510, 16664] if name == "multi30k" else [])
