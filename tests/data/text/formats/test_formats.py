"""Formats against each other: the same pairs from every format, whole or in parts, compressed or not."""

import bz2
import csv
import gzip
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path, PureWindowsPath
from tempfile import TemporaryDirectory
from xml.sax.saxutils import escape, quoteattr

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, Features, Image, Value
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.data.text import source as text_module
from heed.data.text.formats import entries, records, sources
from heed.data.text.formats.entries import find_sources, parse_entries
from heed.data.text.formats.sources import Fields
from heed.data.text.hub_corpus import DatasetSource
from heed.data.text.source import Sentences
from heed.errors import HeedError
from tests.data.texts import files_error, hub_corpus, load_files, sentence_pairs

Pairs = list[tuple[str, str]]
FIELDS = Fields("en", "de", languages=("en", "de"))


ENTITIES = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 100 if n else 'x' * 1000}'>" for n in range(6))
BILLION_LAUGHS = f"<!DOCTYPE tmx [{ENTITIES}]><tmx><body><tu><tuv><seg>&e5;</seg></tuv></tu></body></tmx>"
"""A small file whose entities expand to gigabytes."""


def as_text(folder: Path, pairs: Pairs) -> tuple[str, ...]:
    for side, language in enumerate(("en", "de")):
        (folder / f"t.{language}").write_bytes("".join(f"{pair[side]}\n" for pair in pairs).encode())
    return f"{folder}/t.en", f"{folder}/t.de"


def as_tsv(folder: Path, pairs: Pairs) -> tuple[str, ...]:
    rows = [("id", "de", "en"), *((str(n), tgt, src) for n, (src, tgt) in enumerate(pairs))]
    (folder / "t.tsv").write_bytes("".join("\t".join(row) + "\n" for row in rows).encode())
    return (f"{folder}/t.tsv",)


def as_csv(folder: Path, pairs: Pairs) -> tuple[str, ...]:
    table = io.StringIO(newline="")
    csv.writer(table).writerows([("en", "de"), *pairs])
    (folder / "t.csv").write_bytes(table.getvalue().encode())
    return (f"{folder}/t.csv",)


def as_jsonl(folder: Path, pairs: Pairs) -> tuple[str, ...]:
    (folder / "t.jsonl").write_bytes("".join(json.dumps({"en": src, "de": tgt}) + "\n" for src, tgt in pairs).encode())
    return (f"{folder}/t.jsonl",)


def as_parquet(folder: Path, pairs: Pairs) -> tuple[str, ...]:
    columns = {"en": [src for src, _ in pairs], "de": [tgt for _, tgt in pairs]}
    pq.write_table(pa.table(columns), folder / "t.parquet", row_group_size=3)
    return (f"{folder}/t.parquet",)


def as_tmx(folder: Path, pairs: Pairs) -> tuple[str, ...]:
    units = "".join(
        f"<tu><tuv xml:lang={quoteattr('EN-us')}><seg>{escape(src)}<ph>code</ph></seg></tuv>"
        f"<tuv xml:lang='fr'><seg>fr</seg></tuv><tuv lang='de'><seg><bpt>b</bpt>{escape(tgt)}</seg></tuv></tu>"
        for src, tgt in pairs
    )
    (folder / "t.tmx").write_bytes(f"<tmx version='1.4'><body>{units}</body></tmx>".encode())
    return (f"{folder}/t.tmx",)


FORMATS = [as_text, as_tsv, as_csv, as_jsonl, as_parquet, as_tmx]


words = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("ab ,;<&"), min_size=1, max_size=9)
sentences = words.map(str.strip).filter(bool)
pair_lists = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=12)


@settings(max_examples=25, deadline=None)
@given(pairs=pair_lists)
@pytest.mark.parametrize("write", FORMATS)
@pytest.mark.parametrize("block", [2, 100_000])
def test_every_format_keeps_the_text_in_blocks_of_any_size(
    block: int, write: Callable[[Path, Pairs], tuple[str, ...]], pairs: Pairs
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for module in (text_module, records, sources):
            patch.setattr(module, "BLOCK", block)
        (source,) = find_sources(write(Path(folder), pairs), FIELDS)
        assert sentence_pairs(Sentences.read([source])) == pairs
        advanced: list[int] = []
        assert max(map(len, source.blocks(advanced.append))) == min(block, len(pairs))
        assert sum(advanced) == source.size > 0, "the progress ends at 100 %"
        if write is as_parquet and len(pairs) > block:
            assert len(advanced) > 1


COMPRESS = {"gz": gzip.compress, "bz2": bz2.compress, "zst": partial(pa.compress, codec="zstd", asbytes=True)}


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("write", [as_text, as_tsv, as_csv, as_jsonl, as_tmx])
def test_every_format_may_be_compressed(
    suffix: str, write: Callable[[Path, Pairs], tuple[str, ...]], tmp_path: Path
) -> None:
    pairs = [(f"dog {n}", f"Hund {n}") for n in range(50)]
    entry = []
    for name in write(tmp_path, pairs):
        compressed = Path(f"{name}.{suffix}")
        compressed.write_bytes(COMPRESS[suffix](Path(name).read_bytes()))
        Path(name).unlink()
        entry.append(str(compressed))
    assert sentence_pairs(Sentences.read(find_sources(tuple(entry), FIELDS))) == pairs


def test_line_numbers_count_from_the_start_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "BLOCK", 10)
    (tmp_path / "t.tsv").write_bytes(b"en\tde\n" + b"a\tb\n" * 40 + b"only one column\n")
    (tmp_path / "t.jsonl").write_bytes(b'{"en": "a", "de": "b"}\n' * 40 + b"{}\n")
    (tmp_path / "t.en").write_bytes(b"a\n" * 40 + b"\xff\n")
    (tmp_path / "t.de").write_bytes(b"b\n" * 41)
    for entry, where in (
        ((f"{tmp_path}/t.tsv",), "t.tsv, line 42: 1 columns, but column 2"),
        ((f"{tmp_path}/t.jsonl",), "t.jsonl, line 41: no field 'en'"),
        ((f"{tmp_path}/t.en", f"{tmp_path}/t.de"), "t.en, line 41: not UTF-8"),
    ):
        with pytest.raises(HeedError, match=where):
            Sentences.read(find_sources(entry, FIELDS))


@pytest.mark.parametrize(("src", "tgt"), [(40, 41), (41, 40), (40, 3), (2, 100)])
def test_files_of_different_lengths_are_refused(
    src: int, tgt: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BLOCK", 7)
    (tmp_path / "t.en").write_bytes(b"\n" * src)
    (tmp_path / "t.de").write_bytes(b"b\n" * (tgt - 1) + b"last")
    with pytest.raises(HeedError, match=rf"t.en has {src} lines and .*t.de {tgt}"):
        Sentences.read(find_sources((f"{tmp_path}/t.en", f"{tmp_path}/t.de"), FIELDS))


@pytest.mark.parametrize("ends", [0, 1, 2])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_byte_order_marks(mark: bytes, newline: bytes, ends: int, tmp_path: Path) -> None:
    """A last line without an end, and an empty line at the end."""
    pairs = [(f"dog {n}", f"Hund {n}") for n in range(9)]
    for write in (as_tsv, as_csv, as_jsonl):
        (name,) = write(tmp_path, pairs)
        rows = Path(name).read_bytes().splitlines()
        Path(name).write_bytes(mark + newline.join(rows) + ends * newline)
        assert sentence_pairs(Sentences.read(find_sources((name,), FIELDS))) == pairs


def test_a_suffix_in_capitals_is_known(tmp_path: Path) -> None:
    (name,) = as_tsv(tmp_path, [("a", "b")])
    (tmp_path / "T.TSV.GZ").write_bytes(gzip.compress(Path(name).read_bytes()))
    assert parse_entries("train", [f"{tmp_path}/T.TSV.GZ"]) == [(f"{tmp_path}/T.TSV.GZ",)]
    assert sentence_pairs(Sentences.read(find_sources((f"{tmp_path}/T.TSV.GZ",), FIELDS))) == [("a", "b")]


def test_quoted_fields_with_line_breaks(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(b'en,de\r\n"two\r\nlines, ""quoted""","zwei\nZeilen"\r\n\r\na,b')
    pairs = sentence_pairs(Sentences.read(find_sources((str(file),), FIELDS)))
    assert pairs == [('two lines, "quoted"', "zwei Zeilen"), ("a", "b")]


def test_files_of_two_patterns_correspond_by_name(tmp_path: Path) -> None:
    for name in ("a.1.en", "a.2.en", "a.2.de", "a.3.de"):
        (tmp_path / name).write_text("x\n")
    entry = (f"{tmp_path}/*.?.en", f"{tmp_path}/*.?.de")
    with pytest.raises(HeedError, match=r"a\.1\.en would be paired with .*a\.2\.de"):
        find_sources(entry, FIELDS)
    (tmp_path / "a.3.en").write_text("x\n")
    (tmp_path / "a.1.de").write_text("x\n")
    assert len(find_sources(entry, FIELDS)) == 3
    assert len(find_sources((f"{tmp_path}/a.[!3].en", f"{tmp_path}/a.[12].de"), FIELDS)) == 2


def read_tmx(folder: Path, body: str, languages: tuple[str, str] = ("en", "de"), declaration: str = "") -> Pairs:
    encoding = "utf-16" if "utf-16" in declaration else "utf-8"
    (folder / "t.tmx").write_bytes(f"{declaration}<tmx><body>{body}</body></tmx>".encode(encoding))
    wanted = Fields("src", "tgt", score="score", languages=languages)
    return sentence_pairs(Sentences.read(find_sources((f"{folder}/t.tmx",), wanted)))


def unit(**texts: str) -> str:
    texts = {language.replace("_", "-"): text for language, text in texts.items()}
    return f"<tu>{''.join(f'<tuv xml:lang={code!r}><seg>{text}</seg></tuv>' for code, text in texts.items())}</tu>"


def test_languages_of_a_translation_memory(tmp_path: Path) -> None:
    assert read_tmx(tmp_path, unit(en_US="color", en="colour", de="Farbe")) == [("colour", "Farbe")]
    assert read_tmx(tmp_path, unit(en="colour", de_AT="Farbe", de_CH="Färb")) == [("colour", "Farbe")]
    assert read_tmx(tmp_path, unit(en_US="color", de="Farbe"), ("EN_us", "de")) == [("color", "Farbe")]
    assert read_tmx(tmp_path, unit(en_US="color", de="Farbe"), ("eng_Latn", "deu")) == [("color", "Farbe")]
    chinese = unit(en="yes", zh_CN="是的", zh_TW="是")
    assert read_tmx(tmp_path, chinese, ("en", "zho_Hant")) == [("yes", "是")]
    units = unit(pt_BR="a") + unit(pt="b", pt_BR="c")
    assert read_tmx(tmp_path, units, ("pt", "pt-BR")) == [("b", "c")], "a text is no translation of itself"
    with pytest.raises(HeedError, match=r"t.tmx has no unit in both en-GB and de \(its languages: de, en-US\)"):
        read_tmx(tmp_path, unit(en_US="color", de="Farbe"), ("en-GB", "de"))


def test_elements_inside_sentences(tmp_path: Path) -> None:
    src = "<bpt i='1'>{b}</bpt>bold<ept i='1'>{/b}</ept> <hi>and</hi><ph>x<sub>alt text</sub></ph> not<it>i</it>"
    assert read_tmx(tmp_path, unit(en=src, de="\n  fett\n und nicht ")) == [("bold and not", "fett  und nicht")]
    noted = unit(en="a", de="b").replace("<seg>", "<prop type='x'>p</prop><note>n</note><seg>")
    assert read_tmx(tmp_path, noted) == [("a", "b")]


def test_encodings_and_entities_of_a_translation_memory(tmp_path: Path) -> None:
    utf16 = "<?xml version='1.0' encoding='utf-16'?><!DOCTYPE tmx SYSTEM 'tmx14.dtd'>"
    assert read_tmx(tmp_path, unit(en="a &amp; &#233;", de="ü"), declaration=utf16) == [("a & é", "ü")]
    for declaration, message in (
        ("<?xml version='1.0' encoding='klingon'?>", "unknown encoding: klingon"),
        ("<!DOCTYPE tmx SYSTEM 'tmx14.dtd'>", "undefined entity &nbsp;: line 1"),
    ):
        with pytest.raises(HeedError, match=f"t.tmx cannot be read as TMX: {message}"):
            read_tmx(tmp_path, unit(en="a&nbsp;b", de="c"), declaration=declaration)


def test_patterns(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for number in range(3):
        for language in ("en", "de"):
            (tmp_path / "parts" / f"{number}.{language}").write_text(f"{language} {number}\n")
    (tmp_path / "parts" / "x.tsv").write_text("en\tde\nen 9\tde 9\n")
    (tmp_path / "parts" / "._x.tsv").write_bytes(b"\0")  # hidden, as macOS writes it
    expected = [(f"en {n}", f"de {n}") for n in range(3)]

    def read(*entry: str) -> Pairs:
        return sentence_pairs(Sentences.read(find_sources(tuple(f"{tmp_path}/{name}" for name in entry), FIELDS)))

    assert read("parts/*.en", "parts/*.de") == expected
    assert read("parts/[12].en", "parts/[12].de") == expected[1:]
    assert read("parts/*.tsv") == [("en 9", "de 9")]
    for entry, message in (
        (("parts/*.fr", "parts/*.de"), "matches no file"),
        (("parts/[12].en", "parts/*.de"), "matches 2 files and .* 3: each source file"),
        (("parts",), r"parts is a folder: .*parts/\*\.en"),
    ):
        with pytest.raises(HeedError, match=message):
            read(*entry)


def test_columns_by_number_and_scores(folder: Path) -> None:
    (folder / "t.tsv").write_text("0.9\tone\teins\n0.2\ttwo\tzwei\n\tthree\tdrei\n0.5\tfour\tvier\n")
    options = {"train": "[{}/t.tsv]", "src_field": "2", "tgt_field": "'3'", "src_lang": "en", "tgt_lang": "de"}
    assert len(load_files(folder, **options).train) == 4
    corpus = load_files(folder, **options, score_field="1", min_score="0.5")
    assert sentence_pairs(corpus.train) == [("one", "eins"), ("four", "vier")]
    assert corpus.train.texts[0].clean.report.dropped["low score"] == 2
    assert "data.src_field and data.tgt_field are both 2" in files_error(folder, options | {"tgt_field": "'2'"})
    assert "needs data.score_field" in files_error(folder, {**options, "min_score": "0.5"})
    (folder / "t.tsv").write_text("high\tone\teins\n")
    assert "t.tsv, line 1: field '1' is not a number: 'high'" in files_error(
        folder, {**options, "score_field": "'1'", "min_score": "0.5"}
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.tsv", "src\tother\na\tb\n", "t.tsv, line 1: no column 'tgt' (found: src, other)"),
        ("t.csv", 'src,tgt\n"a\nb",c\n"d,e\nf,g\n', "t.csv, line 4: unexpected end of data (a quote that is not"),
        ("t.csv", 'src,tgt\n"a\nb"\n', "t.csv, line 2: 1 columns"),
        ("t.csv", 'src,tgt\n"a\nb",c\nd,e,f\n', "t.csv, line 4: 3 columns, but the first line has 2"),
        ("t.csv", "Hi.,Hallo.\nHello.,Hallo, Welt.\n", "t.csv, line 2: 3 columns, but the first line has 2"),
        ("t.csv", "src,tgt\na,b\0\n", "t.csv, line 2: not UTF-8 text, but UTF-16 or binary"),
        ("t.tsv", "src\ttgt\na\tb\t\t\nc\td\te\n", "t.tsv, line 3: 3 columns, but the first line has 2"),
        ("t.csv", "src,tgt\na\n", "t.csv, line 2: 1 columns"),
        ("t.tmx", "<tmx><body><tu></body></tmx>", "t.tmx cannot be read as TMX: mismatched tag: line 1"),
        ("t.tmx", "<tmx><body/></tmx>", "t.tmx has no unit in both en and de (its languages: none)"),
        ("t.tmx", BILLION_LAUGHS, "t.tmx cannot be read as TMX: limit on input amplification factor"),
        ("t.tsv", "src\ttgt\tsrc\na\tb\tc\n", "t.tsv, line 1: several columns are called 'src'"),
        ("t.csv", "tgt,src,tgt\na,b,c\n", "t.csv, line 1: several columns are called 'tgt'"),
        ("t.tsv", "", "t.tsv: no sentences"),
        ("t.tsv", "src\ttgt\n", "no sentences"),
    ],
)
def test_broken_tables_are_refused(name: str, content: str, message: str, folder: Path) -> None:
    (folder / name).write_text(content)
    assert message in files_error(folder, {"train": f"[{{}}/{name}]", "src_lang": "en", "tgt_lang": "de"})


def test_a_tmx_file_needs_languages(folder: Path) -> None:
    as_tmx(folder, [("a", "b")])
    assert "set data.src_lang and data.tgt_lang" in files_error(folder, {"train": "[{}/t.tmx]"})


def test_a_repository_with_configurations_and_translations(folder: Path) -> None:
    """`load_dataset` reads a local copy of a repository in the same way as the hub."""
    repository = folder / "repository"
    for config in ("de-en", "fr-en"):
        (repository / config).mkdir(parents=True)
        for split in ("train", "validation", "test"):
            language = config[:2]
            rows = [{"translation": {language: f"{language} {split}", "en": f"en {split}"}}]
            pq.write_table(pa.Table.from_pylist(rows), repository / config / f"{split}-00000.parquet")
    (repository / "README.md").write_text(
        "---\nconfigs:\n" + "".join(
            f"- config_name: {config}\n  data_files:\n" + "".join(
                f"  - split: {split}\n    path: {config}/{split}-*\n" for split in ("train", "validation", "test")
            ) for config in ("de-en", "fr-en")
        ) + "---\n"
    )  # fmt: skip
    options = {"repository": str(repository), "cache_dir": str(folder / "cache"), "config": "fr-en"}
    corpus = hub_corpus(**options, tgt_lang="fr").load()
    assert sentence_pairs(corpus.train) == [("en train", "fr train")]
    with pytest.raises(HeedError, match=r"has no column de: set .* two of fr, en"):
        hub_corpus(**options).load()
    with pytest.raises(HeedError, match=r"Config name is missing.*'de-en', 'fr-en'.*choose another data.config"):
        hub_corpus(**options | {"config": "null"}).load()
    for file in repository.rglob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(HeedError, match=r"repository could not be loaded .*magic bytes"):
        hub_corpus(**options | {"config": "de-en"}).load()


def test_other_columns_are_not_decoded() -> None:
    features = Features({"en": Value("string"), "image": Image(), "de": Value("string")})
    rows = {"en": ["a"], "image": [{"bytes": b"no image", "path": None}], "de": ["b"]}
    dataset = Dataset.from_dict(rows, features=features)
    assert sentence_pairs(Sentences.read([DatasetSource(dataset, "repository", ("en", "de"))])) == [("a", "b")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"en": [1, 2], "de": ["a", "b"]}, "column en must hold text, but holds int64 values"),
        ({"en": [["a"], ["b"]], "de": ["a", "b"]}, "column en must hold text, but holds nested"),
        ({"translation": [{"en": 1, "de": "b"}]}, r"column translation\.en must hold text, but holds int64 values"),
        ({"translation": ["de en"]}, "has no column en: set .* two of translation"),
    ],
)
def test_columns_of_a_repository_that_are_not_text_are_refused(columns: dict[str, list[object]], message: str) -> None:
    with pytest.raises(HeedError, match=f"repository,? {message}"):
        Sentences.read([DatasetSource(Dataset.from_dict(columns), "repository", ("en", "de"))])


def test_a_pattern_with_backslashes_matches_files_of_one_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "Path", PureWindowsPath)
    found = PureWindowsPath(r"corpora\news\part-1.en")
    for pattern in (r"corpora\*\part-*.en", "corpora/*/part-*.en"):
        assert entries._wildcard_text(pattern, found) == ("news", "1")
    assert entries._wildcard_text(r"corpora\*.en", found) == ()
