"""Every source of parallel text gives the same corpus, and says in a sentence what it cannot read."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from hydra.utils import instantiate

from heed.data.corpus import Corpus, HubCorpus
from heed.errors import HeedError

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"

ENGLISH = ["A dog runs.", "Two\u00a0cats sit\u2028here.", "Next\u0085line №5.", "Nobody knows."]
GERMAN = ["Ein Hund rennt.", "Zwei Katzen sitzen hier.", "Zeile Nr. 5.", "Niemand weiß es."]


def write(folder: Path, **texts: list[str]) -> None:
    """``train_en=[…]`` becomes train.en."""
    for name, lines in texts.items():
        (folder / name.replace("_", ".")).write_bytes("".join(f"{line}\n" for line in lines).encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, train_en=ENGLISH, train_de=GERMAN)
    write(tmp_path, val_en=["Held out."], val_de=["Zurückgehalten."], test_en=["The last."], test_de=["Das Letzte."])
    return tmp_path


def composed(*overrides: str) -> Any:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        name, *rest = overrides
        return instantiate(compose(f"data/{name}", overrides=["+cache_dir=nowhere", *rest]).data, _convert_="all")


def files(folder: Path, **changes: str) -> Corpus:
    """The corpus as the command line builds it; paths relative to ``folder`` are made absolute."""
    entries = {
        "train": "[[{}/train.en,{}/train.de]]",
        "valid": "[[{}/val.en,{}/val.de]]",
        "test": "[[{}/test.en,{}/test.de]]",
        "cache_dir": "{}/cache",
    } | changes
    corpus: Corpus = composed(
        "files", *(f"data.{key}={value.replace('{}', str(folder))}" for key, value in entries.items())
    ).load()
    return corpus


def texts(dataset: Any) -> list[tuple[str, str]]:
    return list(zip(dataset["src"], dataset["tgt"], strict=True))


def test_text_pairs_are_read_as_they_are(folder: Path) -> None:
    corpus = files(folder)
    assert texts(corpus.train) == list(zip(ENGLISH, GERMAN, strict=True))
    assert texts(corpus.valid) == [("Held out.", "Zurückgehalten.")]
    assert {name: texts(split) for name, split in corpus.tests.items()} == {"test": [("The last.", "Das Letzte.")]}
    assert (corpus.src_lang, corpus.tgt_lang) == ("en", "de")


def test_windows_line_ends_and_byte_order_mark(folder: Path) -> None:
    (folder / "train.en").write_bytes(b"\xef\xbb\xbfOne.\r\nTwo\rhalves.\r\n")
    (folder / "train.de").write_bytes("Eins.\nZwei Hälften.".encode())
    assert texts(files(folder).train) == [("One.", "Eins."), ("Two halves.", "Zwei Hälften.")]


def test_jsonl_parquet_and_gzip_equal_text(folder: Path) -> None:
    pairs = list(zip(ENGLISH, GERMAN, strict=True))
    (folder / "train.jsonl").write_text(
        "".join(json.dumps({"translation": {"en": en, "de": de}, "id": 1}) + "\n" for en, de in pairs) + "\n"
    )
    pq.write_table(pa.table({"en": ENGLISH, "de": GERMAN, "id": [1, 2, 3, 4]}), folder / "train.parquet")
    for name in ("train.en", "train.de", "train.jsonl"):
        with gzip.open(folder / f"{name}.gz", "wb") as packed:
            packed.write((folder / name).read_bytes())
    nested = {"src_field": "translation.en", "tgt_field": "translation.de"}
    flat = {"src_field": "en", "tgt_field": "de"}
    corpora = [
        files(folder),
        files(folder, train="[{}/train.jsonl]", **nested),
        files(folder, train="[{}/train.jsonl.gz]", **nested),
        files(folder, train="[{}/train.parquet]", **flat),
        files(folder, train="[[{}/train.en.gz,{}/train.de.gz]]"),
    ]
    assert len({corpus.fingerprint for corpus in corpora}) == 1
    assert {(corpus.src_lang, corpus.tgt_lang) for corpus in corpora} == {("en", "de")}


def test_line_breaks_inside_fields_become_spaces(folder: Path) -> None:
    (folder / "train.jsonl").write_text(json.dumps({"src": "one\ntwo\r\nthree\r", "tgt": "eins zwei drei"}))
    assert texts(files(folder, train="[{}/train.jsonl]").train) == [("one two three", "eins zwei drei")]


def test_several_entries_and_named_tests(folder: Path) -> None:
    write(folder, more_en=["More."], more_de=["Mehr."])
    (folder / "sub").mkdir()
    write(folder / "sub", test_en=["Other."], test_de=["Anderes."], train_en=["T."], train_de=["Z."])
    corpus = files(
        folder,
        train="[[{}/train.en,{}/train.de],[{}/more.en,{}/more.de]]",
        test="[[{}/test.en,{}/test.de],[{}/sub/test.en,{}/sub/test.de],[{}/sub/train.en,{}/sub/train.de]]",
    )
    assert len(corpus.train) == 5
    assert list(corpus.tests) == ["test", "test-2", "train-2"], "test sets never hide each other or another split"
    named = files(folder, test="{news: [[{}/sub/test.en,{}/sub/test.de]], talks: [[{}/test.en,{}/test.de]]}")
    assert {name: split["src"][0] for name, split in named.tests.items()} == {"news": "Other.", "talks": "The last."}


def test_reverse_swaps_text_and_languages(folder: Path) -> None:
    corpus = files(folder, reverse="true")
    assert (corpus.src_lang, corpus.tgt_lang) == ("de", "en")
    assert texts(corpus.train) == list(zip(GERMAN, ENGLISH, strict=True))
    assert texts(corpus.tests["test"]) == [("Das Letzte.", "The last.")]


@pytest.mark.parametrize(
    ("target", "language"),
    [
        ("私は学生です。", "ja"),
        ("我们都是学生。", "zh"),
        ("저는 학생입니다.", "ko"),
        ("Wir sind Schüler (学生).", "und"),
    ],
)
def test_languages_without_suffixes(folder: Path, target: str, language: str) -> None:
    write(folder, v_src=["We are students."], v_tgt=[target])
    write(folder, t_src=ENGLISH, t_tgt=GERMAN)
    corpus = files(folder, train="[[{}/t.src,{}/t.tgt]]", valid="[[{}/v.src,{}/v.tgt]]")
    assert (corpus.src_lang, corpus.tgt_lang) == ("und", language)
    assert files(folder, train="[[{}/t.src,{}/t.tgt]]", tgt_lang="nl").tgt_lang == "nl"


def test_max_train_takes_nested_samples(folder: Path) -> None:
    lines = [f"Sentence number {n}." for n in range(300)]
    write(folder, train_en=lines, train_de=lines)
    samples = [files(folder, max_train=str(size)).train["src"][:] for size in (50, 100)]
    assert [len(sample) for sample in samples] == [50, 100]
    assert set(samples[0]) < set(samples[1])
    assert samples[1] == sorted(samples[1], key=lines.index), "the file's order is kept"
    assert samples[1] != lines[:100], "a file sorted by length must not give its shortest sentences"


def test_a_changed_file_is_read_again(folder: Path) -> None:
    before = files(folder)
    write(folder, train_de=[*GERMAN[:3], "Niemand wusste."])
    after = files(folder)
    assert after.train["tgt"][3] == "Niemand wusste."
    assert after.fingerprint != before.fingerprint


def test_fingerprint_is_the_text_and_its_order(folder: Path) -> None:
    script = (
        "import sys; from tests.data.test_corpus import files; from pathlib import Path;"
        "print(files(Path(sys.argv[1]), cache_dir='{}/other').fingerprint)"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", script, str(folder)], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    assert files(folder).fingerprint == elsewhere
    write(folder, train_en=ENGLISH[::-1], train_de=GERMAN[::-1])
    assert files(folder).fingerprint != elsewhere


def test_nothing_is_written_beside_the_users_files(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    before = set(folder.iterdir())
    corpus = files(folder, cache_dir=str(tmp_path_factory.mktemp("cache")))
    assert set(folder.iterdir()) == before
    assert corpus.train.cache_files, "the text is memory-mapped"


def broken(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("name", "content", "changes", "says"),
    [
        ("train.de", b"nur\neine\n", {}, ["train.en has 4 lines", "train.de 2"]),
        ("train.de", b"a\nb\nc\nd\xe4\n", {}, ["train.de, line 4", "UTF-8", "0xe4"]),
        ("val.en", b"", {}, ["val.en has 0 lines"]),
        ("x.en", b"", {"train": "[[{}/x.en,{}/none.de]]"}, ["none.de does not exist"]),
        ("x.en", b"a\n", {"train": "[[{}/x.en,{}/./x.en]]"}, ["x.en is given for both sides", "cut -f1"]),
        ("x.txt", b"a\n", {"train": "[{}/x.txt]"}, ["x.txt stands alone", ".jsonl"]),
        ("x.txt", b"a\n", {"train": "[{}/x.txt,{}/x.txt]"}, ["x.txt stands alone"]),
        ("x.txt", b"a\n", {"train": "[[{}/x.txt,{}/x.txt,{}/x.txt]]"}, ["not a pair"]),
        ("x.txt", b"a\n", {"train": "[[{}/x.txt,{}/x.jsonl]]"}, ["not a pair"]),
        ("x.txt", b"a\n", {"train": "{}/x.txt"}, ["data.train is a list of pairs"]),
        ("x.txt", b"a\n", {"train": "[]"}, ["data.train is a list of pairs"]),
        ("x.jsonl", b'{"src": "a", "tgt": "b"}\n{"src": "a"}\n', {"train": "[{}/x.jsonl]"}, ["line 2", "'tgt'", "src"]),
        ("x.jsonl", b'{"src": "a", "tgt": "b"}\n{"src"\n', {"train": "[{}/x.jsonl]"}, ["line 2", "delimiter"]),
        ("x.jsonl", b'\n{"src": "a", "tgt": null}\n', {"train": "[{}/x.jsonl]"}, ["line 2", "None", "not text"]),
        ("x.jsonl", b'{"src": "a", "tgt": "\\ud800"}\n', {"train": "[{}/x.jsonl]"}, ["line 1", "surrogate"]),
        ("x.en.gz", b"not packed", {"train": "[[{}/x.en.gz,{}/train.de]]"}, ["x.en.gz", "gzip"]),
        ("x.jsonl", b'["a", "b"]\n', {"train": "[{}/x.jsonl]"}, ["line 1", "no field 'src'"]),
        ("x.parquet", b"no parquet", {"train": "[{}/x.parquet]"}, ["x.parquet", "arquet"]),
        ("train.de", b"\n \n\xc2\xa0\n\n", {}, ["nothing to train on", "empty"]),
        ("x.en", b"a\n", {"test": "{valid: [[{}/x.en,{}/x.en]]}"}, ["cannot be called valid"]),
    ],
)  # fmt: skip
def test_errors_name_the_place(
    folder: Path, name: str, content: bytes, changes: dict[str, str], says: list[str]
) -> None:
    broken(folder, name, content)
    with pytest.raises((HeedError, Exception)) as caught:
        files(folder, **changes)
    error: BaseException | None = caught.value
    while error is not None and not isinstance(error, HeedError):
        error = error.__cause__  # what Hydra raises while it builds
    assert error is not None, caught.value
    assert all(part in str(error) for part in says), str(error)


def test_parquet_without_the_field(folder: Path) -> None:
    pq.write_table(pa.table({"en": ENGLISH}), folder / "x.parquet")
    with pytest.raises(HeedError, match=r"x\.parquet.*no field 'src' \(there is: .*data\.src_field"):
        files(folder, train="[{}/x.parquet]")


def hub(**changes: str) -> HubCorpus:
    corpus: HubCorpus = composed("multi30k", *(f"data.{key}={value}" for key, value in changes.items()))
    return corpus


def test_published_corpus_from_a_folder_in_both_directions(folder: Path) -> None:
    write(folder, test_2016_flickr_en=["The last."])
    (folder / "test_2016_flickr.en").write_text("The last.\n")
    (folder / "test_2016_flickr.de").write_text("Das Letzte.\n")
    cache = str(folder / "cache")
    forth = hub(root=str(folder), cache_dir=cache).load()
    by_languages = hub(root=str(folder), cache_dir=cache, src_lang="de", tgt_lang="en").load()
    by_reverse = hub(root=str(folder), cache_dir=cache, reverse="true").load()
    assert (forth.name, forth.src_lang, forth.tgt_lang, list(forth.tests)) == ("multi30k", "en", "de", ["test"])
    assert by_languages.fingerprint == by_reverse.fingerprint != forth.fingerprint
    assert by_reverse.src_lang == by_languages.src_lang == "de"
    assert texts(by_reverse.tests["test"]) == [("Das Letzte.", "The last.")]


def test_published_corpus_from_a_repository(folder: Path) -> None:
    """`load_dataset` reads a local copy of a repository as it reads the hub's."""
    repository = folder / "repository"
    repository.mkdir()
    for split in ("train", "validation", "test"):
        (repository / f"{split}.jsonl").write_text(json.dumps({"en": f"{split}\nset", "de": f"{split}-Menge"}) + "\n")
    corpus = hub(repository=str(repository), cache_dir=str(folder / "cache")).load()
    assert texts(corpus.valid) == [("validation set", "validation-Menge")]
    with pytest.raises(HeedError, match=r"no column fr: .*two of .*de"):
        hub(repository=str(repository), tgt_lang="fr", cache_dir=str(folder / "cache")).load()


def test_no_repository_and_no_network() -> None:
    with pytest.raises(HeedError, match=r"tatoeba is in no hub repository .*data\.root=DIR"):
        composed("tatoeba").load()
    script = "from tests.data.test_corpus import hub; hub(repository='nobody/nothing').load()"
    run = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert "HeedError: nobody/nothing could not be loaded" in run.stderr
    assert "data.root=DIR" in run.stderr


def test_reverse_turns_gold_alignments() -> None:
    from datasets import Dataset

    from heed.data.corpus import _reversed

    split = Dataset.from_dict(
        {"src": ["a b"], "tgt": ["x y"], "meta": [json.dumps({"alignment": [[0, 1], [1, 0], [1, 1]]})]}
    )
    turned = _reversed(split)
    assert json.loads(turned["meta"][0])["alignment"] == [[0, 1], [1, 0], [1, 1]]
    assert texts(turned) == [("x y", "a b")]
    split = Dataset.from_dict({"src": ["a b"], "tgt": ["x"], "meta": [json.dumps({"alignment": [[1, 0]], "tag": "é"})]})
    assert json.loads(_reversed(split)["meta"][0]) == {"alignment": [[0, 1]], "tag": "é"}


def test_synthetic_corpus(tmp_path: Path) -> None:
    sizes = [f"data.{split}={size}" for split, size in {"train": 200, "valid": 20, "test": 20, "long": 10}.items()]
    corpus, again, turned = (
        composed("synthetic", *sizes, f"data.cache_dir={tmp_path}", *more).load()
        for more in ([], [], ["data.reverse=true"])
    )
    assert list(corpus.tests) == ["test", "long"]
    assert corpus.fingerprint == again.fingerprint
    assert (len(corpus.train), len(corpus.valid), len(corpus.tests["long"])) == (200, 20, 10)
    assert not any(corpus.cleaning.dropped.values()), "the grammar writes clean text"
    for there, back in zip(corpus.tests["test"], turned.tests["test"], strict=True):
        assert (there["src"], there["tgt"]) == (back["tgt"], back["src"])
        forth = json.loads(there["meta"])["alignment"]
        assert forth
        assert sorted([t, s] for s, t in forth) == json.loads(back["meta"])["alignment"]


def test_the_direction_of_the_synthetic_corpus(tmp_path: Path) -> None:
    """Languages choose the sides, as in a published corpus; ``reverse`` swaps what they chose."""

    def load(*options: str) -> Corpus:
        sizes = [f"data.{split}=20" for split in ("train", "valid", "test", "long")]
        corpus: Corpus = composed("synthetic", *sizes, f"data.cache_dir={tmp_path}", *options).load()
        return corpus

    german = ["data.src_lang=de", "data.tgt_lang=en"]
    forth, by_reverse, by_languages, twice = (
        load(*options) for options in ([], ["data.reverse=true"], german, [*german, "data.reverse=true"])
    )
    assert texts(by_languages.train) == [(tgt, src) for src, tgt in texts(forth.train)]
    assert by_languages.fingerprint == by_reverse.fingerprint != forth.fingerprint == twice.fingerprint
    assert [(c.src_lang, c.tgt_lang) for c in (forth, by_reverse, by_languages, twice)] == [
        ("en", "de"), ("de", "en"), ("de", "en"), ("en", "de"),
    ]  # fmt: skip
    # Positions in the English source would point into the German one.
    assert any(json.loads(meta)["roles"] for meta in forth.valid["meta"])
    assert not any(json.loads(meta)["roles"] or json.loads(meta)["antecedent"] for meta in by_languages.valid["meta"])


@pytest.mark.parametrize("name", ["synthetic", "multi30k"])
@pytest.mark.parametrize("languages", [("de", "de"), ("en", "en")])
def test_one_language_twice(name: str, languages: tuple[str, str]) -> None:
    with pytest.raises(InstantiationException, match=r"data\.src_lang.*data\.tgt_lang"):
        composed(name, f"data.src_lang={languages[0]}", f"data.tgt_lang={languages[1]}")


@pytest.mark.parametrize(
    ("column", "says"), [([1, 2], "column en: it holds int64 values"), ([["a"], ["b"]], "column en: it holds nested")]
)
def test_a_published_column_that_is_not_text(folder: Path, column: list[object], says: str) -> None:
    for split in ("train", "validation", "test"):
        pq.write_table(pa.table({"en": column, "de": ["a", "b"]}), folder / f"{split}.parquet")
    with pytest.raises(HeedError, match=says):
        hub(repository=str(folder), cache_dir=str(folder / "cache")).load()


@pytest.mark.skipif(not SHARED.is_dir(), reason="no published corpora beside the repository")
@pytest.mark.parametrize(("name", "sizes"), [("multi30k", (28_994, 1014, 1000)), ("tatoeba", (164_120, 2539, 2500))])
def test_published_corpora(name: str, sizes: tuple[int, ...], tmp_path: Path) -> None:
    corpus = composed(name, f"data.root={SHARED / name}", f"data.cache_dir={tmp_path}").load()
    assert (len(corpus.train), len(corpus.valid), len(corpus.tests["test"])) == sizes
    placeholders = [dropped.number for dropped in corpus.cleaning.examples["placeholder"]]
    assert placeholders == ([16510, 16664] if name == "multi30k" else [])
