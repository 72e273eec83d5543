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
from heed.data.text.formats.entries import READERS, find_sources
from heed.data.text.formats.files import FORMATS, START
from heed.data.text.formats.sources import Fields
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
    "columns of other languages": ("a.csv", rows("en,fr", (0, 1)), r"no column 'src' \(found: en, fr\)"),
    "sentences": ("a.txt", "The lamp is on.\nI see.\n", "has no second file"),
    "commas in sentences": ("a.txt", "Well, yes.\nNo, no.\n", "has no second file"),
    "XLIFF": ("a.xlf", XLIFF, r"is XLIFF: .*xliff2po .*a\.xlf"),
    "PO": ("a.po", PO, r"is a message catalogue .*po2tmx .*'\[x\.tmx\]'"),
    "SGML": ("a.sgm", "<srcset>\n<seg id='1'>No.</seg></srcset>", "is SGML or XML: .*sed"),
    "talks": ("train.tags.en", "<url>http://x</url>\nNo.\n", "lines about the talks .*grep"),
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
    "SGML": ("a.sgm", "<srcset>\n<seg id='1'>No.</seg></srcset>", "is SGML or XML: .*sed"),
    "talks": ("train.tags.en", "<url>http://x</url>\nNo.\n", "lines about the talks .*grep"),
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


@pytest.mark.parametrize("name", REFUSED_IN_PAIR)
def test_commands_read_plain_text_only(name: str, tmp_path: Path) -> None:
    file, content, _ = REFUSED_IN_PAIR[name]
    (tmp_path / file).write_bytes(as_bytes(content))
    with pytest.raises(HeedError, match=rf"{file} (is|has|holds) .*: give plain text with one sentence per line\.$"):
        read_file(tmp_path / file)


def test_every_format_is_read_or_refused() -> None:
    assert {name for name, kind in FORMATS.items() if "give it alone" in kind["refused"]} == set(READERS)


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
