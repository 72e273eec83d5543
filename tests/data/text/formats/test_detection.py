"""Formats are told by the first lines: a table of contents and names, and what happens with each."""

import bz2
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heed.cli.lines import read_file
from heed.data.text.formats.detect import FORMATS, START
from heed.data.text.formats.entries import READERS, find_sources
from heed.data.text.formats.fields import Fields
from heed.data.text.source import Sentences
from heed.errors import HeedError
from tests.data.texts import files_error, sentence_pairs, write_lines

PAIRS = [("The lamp is on.", "Die Lampe ist an."), ("I see, a cat.", "Ich sehe eine Katze & mehr."), ("No.", "Nein.")]
MANY = [(f"{src} {n}", f"{tgt} {n}") for n in range(4) for src, tgt in PAIRS]
NUMBERS = Fields("1", "2", languages=("en", "de"))
DEFAULT = Fields("src", "tgt", languages=("en", "de"))
NAMES = Fields("pair.en", "pair.de", languages=("en", "de"))
RECORDS = [{"pair": {"en": src, "de": tgt}} for src, tgt in PAIRS]


def as_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def table(separator: str, *, header: str = "", more: tuple[str, ...] = ("licence",), pairs: object = PAIRS) -> str:
    return header + "".join(separator.join((*pair, *more)) + "\n" for pair in pairs)  # type: ignore[attr-defined]


def rows(header: str, cells: tuple[str | int, ...]) -> str:
    """Return a table with quotes, separated as its header, if any, by commas or semicolons; numbers are sides."""
    separator = "," if "," in header else ";"
    lines = [separator.join(f'"{pair[cell] if isinstance(cell, int) else cell}"' for cell in cells) for pair in PAIRS]
    return "".join(f"{line}\n" for line in [*filter(None, [header]), *lines])


def parquet() -> bytes:
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(RECORDS), content)
    return content.getvalue()


UNITS = "".join(
    f"<tu><tuv xml:lang='en'><seg>{src}</seg></tuv>\n<tuv xml:lang='de'><seg>{escape(tgt)}</seg></tuv></tu>"
    for src, tgt in PAIRS
)
TMX = f"<?xml version='1.0'?>\n<!DOCTYPE tmx SYSTEM 'tmx14.dtd'>\n<tmx version='1.4'>\n<body>{UNITS}</body></tmx>\n"
XLIFF = "<?xml version='1.0'?>\n<xliff version='1.2'><file><body><trans-unit id='1'/></body></file></xliff>"
PO = '# German\nmsgid ""\nmsgstr ""\n\nmsgid "The lamp is on."\nmsgstr "Die Lampe ist an."\n'
SUBTITLES = "1\n00:00:01,000 --> 00:00:02,500\nThe lamp is on.\n\n"
DATASET = (
    '<?xml version="1.0"?>\n<dataset id="wmt22"><doc><src lang="en"><p><seg id="1">No.</seg></p></src></doc></dataset>'
)
FAIRSEQ = "".join(
    f"S-{n}\t{src}\nT-{n}\t{tgt}\nH-{n}\t-0.3\t{tgt}\nD-{n}\t-0.3\t{tgt}\n" for n, (src, tgt) in enumerate(PAIRS)
)
FAIRSEQ_LOG = "2026-11-28 00:00:00 | INFO | fairseq.tasks.translation | [en] dictionary: 8 types\n" + FAIRSEQ
OPENNMT = "".join(
    f"\nSENT {n}: {src.split()}\nPRED {n}: {tgt}\nPRED SCORE: -1.5\n" for n, (src, tgt) in enumerate(PAIRS, 1)
)
JSON_LINES = "".join(json.dumps(record) + "\n" for record in RECORDS)

READ_ALONE: dict[str, tuple[str, str | bytes, Fields]] = {
    "tabs": ("course.txt", table("\t"), NUMBERS),
    "tabs under .tab": ("course.tab", table("\t"), NUMBERS),
    "tabs under .csv": ("course.csv", table("\t"), NUMBERS),
    "tabs and empty lines with two characters": ("course.txt", table("\t").replace("\n", "\r\n\r\n"), NUMBERS),
    "an empty line before the names": ("a.tsv", "\n" + table("\t", header="pair.en\tpair.de\tx\n"), NAMES),
    "tabs with names": ("course.txt", table("\t", header="pair.en\tpair.de\tx\n"), NAMES),
    "two columns without fields": ("course.txt", table("\t", more=()), Fields("src", "tgt")),
    "two columns of other languages without a header": ("course.txt", table("\t", more=()), DEFAULT),
    "swapped columns named by languages": ("a.csv", rows("de,en", (1, 0)), DEFAULT),
    "swapped columns named in English": ("a.csv", rows("German,English", (1, 0)), DEFAULT),
    "swapped columns with codes of FLORES": ("a.csv", rows("deu_Latn,eng_Latn", (1, 0)), DEFAULT),
    "a column of numbers and columns of languages": ("a.csv", rows(",en,de", ("7", 0, 1)), DEFAULT),
    "columns of languages among others": ("a.csv", rows("id,en,de,split", ("7", 0, 1, "train")), DEFAULT),
    "languages before words": ("a.csv", rows("source,de,en", ("news", 1, 0)), DEFAULT),
    "swapped columns named by words": ("a.csv", rows("Target,Source", (1, 0)), DEFAULT),
    "words among other columns": ("a.csv", rows("id,source,target", ("7", 0, 1)), DEFAULT),
    "languages in the header, none asked": ("a.csv", rows("en,de", (0, 1)), Fields("src", "tgt")),
    "a language and a word in the header": ("a.csv", rows("English,translation", (0, 1)), Fields("src", "tgt")),
    "semicolons": ("a.csv", rows("en;de", (0, 1)), DEFAULT),
    "semicolons without a header": ("a.csv", rows("", (1, 0)), Fields("2", "1")),
    "bars": ("course.txt", table(" ||| ", more=()), NUMBERS),
    "commas": ("course.txt", "".join(f'"{src}","{tgt}",licence\n' for src, tgt in PAIRS), NUMBERS),
    "JSON lines": ("lines.json", JSON_LINES, NAMES),
    "ndjson": ("lines.ndjson", JSON_LINES, NAMES),
    "array over several lines": ("array.jsonl", json.dumps(RECORDS, indent=1), NAMES),
    "array in a line": ("oneline.jsonl", json.dumps(RECORDS), NAMES),
    "array in an object": (
        "data.json",
        json.dumps({"version": "1", "data": RECORDS, "languages": ["en", "de"]}),
        NAMES,
    ),
    "array in an object, over several lines": ("data.json", json.dumps({"data": RECORDS}, indent=2), NAMES),
    "parquet": ("lines.json", parquet(), NAMES),
    "translation memory": ("memory.xml", TMX, NAMES),
    "translation memory in UTF-16": ("memory.txt", TMX.encode("utf-16"), NAMES),
}
"""By name: a file with both sides that is read, its content, and the fields that are given."""


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress], ids=["plain", "gzip", "bzip2"])
@pytest.mark.parametrize("name", READ_ALONE)
def test_a_file_with_both_sides_is_read(name: str, compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    file, content, fields = READ_ALONE[name]
    if name == "parquet" and compress is not bytes:
        pytest.skip("parquet has a compression of its own")
    (tmp_path / file).write_bytes(compress(as_bytes(content)))
    assert sentence_pairs(Sentences.read(find_sources((f"{tmp_path}/{file}",), fields))) == PAIRS


REFUSED_ALONE: dict[str, tuple[str, str | bytes, str]] = {
    "three columns without fields": (
        "course.txt",
        table("\t"),
        r"no column 'src' .*data\.src_field=1 data\.tgt_field=2",
    ),
    "numbers and sentences": (
        "a.tsv",
        "".join(f"{n}\t{src}\t{n}\t{tgt}\tCC-BY 2.0\n" for n, (src, tgt) in enumerate(PAIRS)),
        r"no column 'src' .*data\.src_field=2 data\.tgt_field=4",
    ),
    "columns of other languages": ("a.csv", rows("en,fr", (0, 1)), r"no column 'src' \(found: en, fr\)"),
    "sentences": ("a.txt", "The lamp is on.\nI see.\n", "has no second file"),
    "commas in sentences": ("a.txt", "Well, yes.\nNo, no.\n", "has no second file"),
    "XLIFF": ("a.xlf", XLIFF, r"is XLIFF: .*xliff2po .*a\.xlf"),
    "PO": ("a.po", PO, r"is a message catalogue .*po2tmx .*'\[x\.tmx\]'"),
    "SGML": ("a.sgm", "<srcset>\n<seg id='1'>No.</seg></srcset>", "segments of one language .* give a pair"),
    "talks": ("train.tags.en", "<url>http://x</url>\nNo.\n", "talks of one language .* give a pair"),
    "subtitles": ("a.srt", SUBTITLES, "holds subtitles"),
    "fairseq": ("generate-test.txt", FAIRSEQ_LOG, r"is the output of fairseq-generate: .*\^H- .*generate-test\.txt"),
    "OpenNMT": ("translate.log", OPENNMT, r"is a log of OpenNMT: .*sed .*translate\.log"),
    "no line": ("a.tsv", "", "no sentences"),
    "empty lines": ("a.csv", "\n\n", "no sentences"),
    "other columns": ("a.parquet", parquet(), r"no field 'src' \(found: pair\)"),
    "WMT": ("wmt.xml", DATASET, "XML of WMT .*sacrebleu .*--echo"),
    "HTML": ("a.html", "<!DOCTYPE html>\n<html><p>No.</p></html>", "is XML or HTML"),
    "two arrays": (
        "a.json",
        json.dumps({"train": RECORDS, "test": RECORDS}, indent=1),
        "has 2 arrays of objects .*jq -c",
    ),
}
"""By name: a file that cannot be read alone, its content, and what the message says."""


@pytest.mark.parametrize("name", REFUSED_ALONE)
def test_a_file_that_cannot_be_read_alone(name: str, tmp_path: Path) -> None:
    file, content, message = REFUSED_ALONE[name]
    (tmp_path / file).write_bytes(as_bytes(content))
    with pytest.raises(HeedError, match=message) as caught:
        Sentences.read(find_sources((f"{tmp_path}/{file}",), Fields("src", "tgt", languages=("en", "de"))))
    assert "\n" not in str(caught.value)


REFUSED_IN_PAIR: dict[str, tuple[str, str | bytes, str]] = {
    "XLIFF": ("a.xlf", XLIFF, "is XLIFF: "),
    "PO": ("a.po", PO, "is a message catalogue"),
    "translation memory": ("a.xml", TMX, r"is a translation memory .* alone, '\[.*a\.xml\]'"),
    "JSON": ("a.json", json.dumps(RECORDS), r"is JSON .* alone, '\[.*a\.json\]'"),
    "JSON lines": ("a.en", JSON_LINES, r"has a JSON object per line: .* alone, '\[.*a\.en\]'"),
    "parquet": ("a.en", parquet(), "is parquet: give it alone"),
    "tabs": ("a.en", table("\t", pairs=MANY), "columns separated by tabs: .*cut -f 2"),
    "bars": ("a.en", table(" ||| ", pairs=MANY), "columns separated by |||: give it alone"),
    "commas": (
        "a.en",
        "".join(f'"{src}","{tgt}"\n' for src, tgt in MANY),
        "columns separated by commas: give it alone",
    ),
    "subtitles": ("a.vtt", "WEBVTT\n\n" + SUBTITLES, "holds subtitles"),
    "fairseq": ("a.de", FAIRSEQ, "is the output of fairseq-generate"),
    "hypotheses of fairseq": ("a.de", "H-7\t-0.3\tNein.\n", "is the output of fairseq-generate"),
    "OpenNMT": ("a.de", OPENNMT, "is a log of OpenNMT"),
    "translations of OpenNMT": ("a.de", "PRED 1: Nein.\n", "is a log of OpenNMT"),
    "WMT": ("wmt.xml", DATASET, "XML of WMT .*sacrebleu .*--echo"),
    "OPUS": ("a.xml", '<?xml version="1.0" encoding="utf-8"?>\n<text><s id="1">No.</s></text>', "is XML or HTML"),
}
"""By name: a file that cannot be a side of a pair, its content, and what the message says."""


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("name", REFUSED_IN_PAIR)
def test_a_file_that_cannot_be_a_side_of_a_pair(name: str, suffix: str, tmp_path: Path) -> None:
    file, content, message = REFUSED_IN_PAIR[name]
    (tmp_path / f"{file}{suffix}").write_bytes(gzip.compress(as_bytes(content)) if suffix else as_bytes(content))
    (tmp_path / "b.de").write_text("Nein.\n")
    for pair in (
        (f"{tmp_path}/{file}{suffix}", f"{tmp_path}/b.de"),
        (f"{tmp_path}/b.de", f"{tmp_path}/{file}{suffix}"),
    ):
        with pytest.raises(HeedError, match=message.replace(r"\]", rf"{suffix}\]")):
            find_sources(pair, Fields("src", "tgt"))


@pytest.mark.parametrize("name", [*REFUSED_IN_PAIR, "SGML", "talks"])
def test_commands_read_plain_text_only(name: str, tmp_path: Path) -> None:
    file, content, _ = (REFUSED_IN_PAIR | REFUSED_ALONE)[name]
    (tmp_path / file).write_bytes(as_bytes(content))
    with pytest.raises(HeedError, match=rf"{file} (is|has|holds) .*: give plain text with one sentence per line\.$"):
        read_file(tmp_path / file)


def test_every_format_is_read_or_refused_alone_and_in_a_pair() -> None:
    assert set(READERS) == {name for name, kind in FORMATS.items() if "alone" not in kind}
    assert {name for name, kind in FORMATS.items() if "pair" not in kind} == {"segments", "talks"}


def segments(kind: str, sentences: list[str], *, lang: str = "en") -> str:
    """Return the sentences as WMT and IWSLT publish test sets, in two documents."""

    def document(number: int) -> str:
        lines = "".join(f'<seg id="{n}"> {escape(text)} </seg>\n' for n, text in enumerate(sentences[number::2], 1))
        return f'<doc docid="{number}" genre="news">\n<title>No sentence</title>\n<p>\n{lines}</p>\n</doc>\n'

    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<mteval>\n<{kind} setid="x" srclang="{lang}">\n'
        + "".join(map(document, range(2)))
        + f"</{kind}>\n</mteval>\n"
    )


def talks(sentences: list[str]) -> str:
    about = "<url>http://www.ted.com/1</url>\n<keywords>a, b</keywords>\n<talkid>1</talkid>\n<title>Cats</title>\n"
    return about + "".join(f"{sentence}\n" for sentence in sentences) + "<reviewer>X</reviewer>\n"


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kind", ["sgm", "talks", "one plain side"])
def test_test_sets_and_talks_are_read_without_their_markup(kind: str, suffix: str, tmp_path: Path) -> None:
    src, tgt = ([pair[side] for pair in PAIRS] for side in (0, 1))
    ordered = [PAIRS[0], PAIRS[2], PAIRS[1]]
    contents = {
        "sgm": (segments("srcset", src), segments("refset", tgt), ordered),
        "talks": (talks(src), talks(tgt), PAIRS),
        "one plain side": (segments("srcset", src), "".join(f"{pair[1]}\n" for pair in ordered), ordered),
    }
    *files, expected = contents[kind]
    names = [f"{tmp_path}/newstest-{side}.sgm{suffix}" for side in ("src.en", "ref.de")]
    for name, content in zip(names, files, strict=True):
        Path(name).write_bytes(gzip.compress(content.encode()) if suffix else content.encode())
    assert sentence_pairs(Sentences.read(find_sources((names[0], names[1]), Fields("src", "tgt")))) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('docid="1"', 'docid="2"'), "segment 1 of document 1 of one corresponds to segment 1 of document 2"),
        (
            ("</refset>", '</refset><refset><doc docid="0"><seg id="1">x</seg></doc></refset>'),
            "has segment 1 of document 0 2",
        ),
        (('<seg id="2"> Nein. </seg>\n', ""), "have different segments"),
    ],
)
def test_segments_that_do_not_correspond_are_refused(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    sides = [[pair[side] for pair in PAIRS] for side in (0, 1)]
    (tmp_path / "a.sgm").write_text(segments("srcset", sides[0]))
    (tmp_path / "b.sgm").write_text(segments("refset", sides[1]).replace(*change))
    with pytest.raises(HeedError, match=message):
        Sentences.read(find_sources((f"{tmp_path}/a.sgm", f"{tmp_path}/b.sgm"), Fields("src", "tgt")))


@pytest.mark.parametrize(
    "change",
    [
        ('docid="', 'id="'),
        ('docid="', 'DocID = "'),
        ('"', "'"),
        (' docid="0"', ""),
        ('<seg id="1">', "<seg>"),
        ('<seg id="1">', '<seg id="1" lang="{lang}">'),
        ('<seg id="1">', "<seg lang={lang} id=1>"),
        ("<url>", "<URL>"),
        ("<title>", "<TITLE>"),
    ],
)
def test_other_ways_to_write_the_same_markup(change: tuple[str, str], tmp_path: Path) -> None:
    src, tgt = ([pair[side] for pair in PAIRS] for side in (0, 1))
    before, after = change
    makers = (talks, talks) if "docid" not in before and "seg" not in before and before != '"' else (
        lambda lines: segments("srcset", lines), lambda lines: segments("refset", lines))  # fmt: skip
    for name, make, lines in zip(("a.en", "a.de"), makers, (src, tgt), strict=True):
        (tmp_path / name).write_text(make(lines).replace(before, after.format(lang=name[-2:])))
    read = Sentences.read(find_sources((f"{tmp_path}/a.en", f"{tmp_path}/a.de"), Fields("src", "tgt")))
    assert sorted(sentence_pairs(read)) == sorted(PAIRS)


def test_segments_that_do_not_end_are_no_sentences(tmp_path: Path) -> None:
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text('<srcset>\n<doc docid="a">\n<seg id="1">No.\n</doc>\n')
    with pytest.raises(HeedError, match="no sentences"):
        Sentences.read(find_sources((f"{tmp_path}/a.en", f"{tmp_path}/a.de"), Fields("src", "tgt")))


def test_training_validation_and_test_sets_are_looked_at(folder: Path) -> None:
    write_lines(folder, a_en=["No."], a_de=["Nein."])
    (folder / "x.po").write_text(PO)
    plain = "[[{}/a.en,{}/a.de]]"
    for key in ("train", "valid", "test"):
        changes = {"train": plain, "valid": plain, "test": plain, key: "[[{}/x.po,{}/a.de]]"}
        assert "x.po is a message catalogue (PO)" in files_error(folder, changes)


def test_sentences_that_look_like_other_formats_are_sentences(tmp_path: Path) -> None:
    lines = ["[Music]", "{laughs} No.", "1", "<i>No.</i>", "No\tno.", '"Yes", he said, "no"', "msgid", "a ||| b"]
    for first in lines:
        own = [first, *lines]
        write_lines(tmp_path, a_en=own, a_de=lines[:1] + own[1:])
        (source,) = find_sources((f"{tmp_path}/a.en", f"{tmp_path}/a.de"), Fields("src", "tgt"))
        assert Sentences.read([source]).src == own


def test_long_first_lines(tmp_path: Path) -> None:
    long = "x" * (2 * START)
    (tmp_path / "a.jsonl").write_text(json.dumps({"src": long, "tgt": "y"}) + '\n{"src": "a", "tgt": "b"}\n')
    (tmp_path / "a.json").write_text(json.dumps({"data": [{"src": long, "tgt": "y"}, {"src": "a", "tgt": "b"}]}))
    for name in ("a.jsonl", "a.json"):
        read = Sentences.read(find_sources((f"{tmp_path}/{name}",), Fields("src", "tgt")))
        assert sentence_pairs(read) == [(long, "y"), ("a", "b")]


def test_the_languages_of_marked_files_are_those_of_their_names(folder: Path) -> None:
    """The wrong order of two files is found by their names, as in pairs of text files."""
    for name, kind in (("x-src.en", "srcset"), ("x-ref.de", "refset")):
        (folder / f"{name}.sgm").write_text(segments(kind, ["No.", "Yes."]))
    changes = {"test": "[[{}/x-ref.de.sgm,{}/x-src.en.sgm]]", "src_lang": "en", "tgt_lang": "de"}
    assert "is de-en by its suffixes" in files_error(folder, changes)


def test_a_folder_names_the_held_out_files_that_it_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("train.bpe", "dev.bpe", "test.bpe"):
        write_lines(tmp_path, **{f"{name}_en": ["No."], f"{name}_de": ["Nein."]})
    assert len(find_sources((str(tmp_path),), NAMES)) == 3
    said = capsys.readouterr().err
    assert f"{tmp_path}/dev.bpe.en" in said
    assert f"{tmp_path}/test.bpe.en" in said
    assert "train.bpe" not in said
