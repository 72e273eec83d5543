"""A training on every format: the same sentences train the same model, and a broken file leaves nothing behind."""

import bz2
import csv
import gzip
import json
import lzma
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from safetensors.torch import load_file
from torch import Tensor

from heed import launch
from heed.launch.compose import compose
from tests.data.texts import toy_language, write_lines

Pairs = list[tuple[str, str]]

pytestmark = pytest.mark.slow

TINY = ("model=rnn", "model.d_embedding=8", "model.d_model=8", "trainer=cpu", "trainer.max_epochs=null",
        "trainer.max_steps=3", "trainer.validate_every=3", "callbacks.attention_maps=null", "logger=none",
        "search=greedy", "weights=last", "batching.batch_tokens=150", "test=false", "cache_dir=cache")  # fmt: skip
FILES = ("data=files", "data.valid=[[val.en,val.de]]", "data.test=null", "data.src_lang=en", "data.tgt_lang=de")
COLUMNS = ("data.src_field=en", "data.tgt_field=de")
SIZE = 60

TEXT = toy_language(SIZE)
PAIRS: Pairs = list(zip(TEXT.src, TEXT.tgt, strict=True))
VALID: Pairs = [("The dog of Rome sees the cat.", "Der Hund von Rom sieht den Kater.")]


@dataclass(frozen=True)
class Format:
    """A format, how the pairs are written in it, and how a file of it breaks.

    Args:
        name: of the format.
        options: to train on it.
        write: writes the pairs to files in a folder.
        damage: breaks one of the files.
        message: what the error says, as a regular expression.
    """

    name: str
    options: tuple[str, ...]
    write: Callable[[Path], object]
    damage: Callable[[Path], object]
    message: str


# ---- writing


def write_text(folder: Path, compress: Callable[[bytes], bytes] = bytes, suffix: str = "") -> None:
    write_lines(folder, train_en=TEXT.src, train_de=TEXT.tgt)
    for language in ("en", "de"):
        text = (folder / f"train.{language}").read_bytes()
        (folder / f"train.{language}{suffix}").write_bytes(compress(text))


def write_tsv(file: Path, pairs: Pairs = PAIRS) -> None:
    file.write_text("en\tde\n" + "".join(f"{src}\t{tgt}\n" for src, tgt in pairs))


def write_csv(file: Path) -> None:
    with file.open("w", newline="") as stream:
        csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([("de", "en"), *((tgt, src) for src, tgt in PAIRS)])


def write_jsonl(file: Path, pairs: Pairs = PAIRS) -> None:
    file.write_text("".join(json.dumps({"en": src, "de": tgt}) + "\n" for src, tgt in pairs))


def write_tmx(file: Path) -> None:
    units = "".join(
        f'<tu><tuv xml:lang="de-DE"><seg>{escape(tgt)}</seg></tuv>\n'
        f'<tuv xml:lang="en"><seg><ph>code</ph>{escape(src)}</seg></tuv></tu>\n'
        for src, tgt in PAIRS
    )
    file.write_text(f'<?xml version="1.0"?>\n<tmx version="1.4"><header/><body>\n{units}</body></tmx>\n')


def write_shards(folder: Path) -> None:
    """Write pairs of text files, for a pattern."""
    (folder / "parts").mkdir()
    for number, start in enumerate(range(0, SIZE, 25)):
        shard = {language: side[start : start + 25] for language, side in (("en", TEXT.src), ("de", TEXT.tgt))}
        write_lines(folder / "parts", **{f"{number}_{language}": lines for language, lines in shard.items()})


def write_folder(folder: Path) -> None:
    """Write a folder of shards in several formats."""
    corpus = folder / "corpus"
    corpus.mkdir()
    write_jsonl(corpus / "b.jsonl", PAIRS[:20])
    write_tsv(corpus / "a.tsv", PAIRS[20:40])
    write_lines(corpus, c_en=TEXT.src[40:], c_de=TEXT.tgt[40:])


def write_repository(folder: Path) -> None:
    """Write a dataset in the layout of a repository of the Hugging Face hub, with a column "translation"."""
    (folder / "repository").mkdir()
    for split, pairs in (("train", PAIRS), ("validation", VALID)):
        rows = [{"id": str(n), "translation": {"de": tgt, "en": src}} for n, (src, tgt) in enumerate(pairs)]
        pq.write_table(pa.Table.from_pylist(rows), folder / "repository" / f"{split}-00000-of-00001.parquet")


def write_scores(folder: Path) -> None:
    """Write the pairs with good scores, and between them others with bad scores or without."""
    rows = [row for src, tgt in PAIRS for row in (f"0.9\t{src}\t{tgt}", f"0.2\t{tgt}\t{src}", f"\t{src} {src}\t{tgt}")]
    (folder / "t.tsv").write_text("score\ten\tde\n" + "".join(f"{row}\n" for row in rows))


# ---- damage


def truncate(file: str) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        content = (folder / file).read_bytes()
        (folder / file).write_bytes(content[: len(content) // 2])

    return damage


def change_line(file: str, number: int, line: str) -> Callable[[Path], object]:
    def damage(folder: Path) -> None:
        lines = (folder / file).read_bytes().split(b"\n")
        lines[number - 1] = line.encode("latin-1")
        (folder / file).write_bytes(b"\n".join(lines))

    return damage


def compressed(suffix: str, compress: Callable[[bytes], bytes]) -> Format:
    return Format(
        f"text.{suffix}",
        (*FILES, f"data.train=[[train.en.{suffix},train.de.{suffix}]]"),
        partial(write_text, compress=compress, suffix=f".{suffix}"),
        truncate(f"train.de.{suffix}"),
        rf"train\.de\.{suffix} cannot be read: Compressed file ended",
    )


def one_file(suffix: str, write: Callable[[Path], object], damage: Callable[[Path], object], message: str) -> Format:
    return Format(
        suffix, (*FILES, *COLUMNS, f"data.train=[t.{suffix}]"), lambda f: write(f / f"t.{suffix}"), damage, message
    )


FORMATS = [
    Format("text", (*FILES, "data.train=[[train.en,train.de]]"), write_text, change_line("train.de", 9, "a\nb"),
           r"train\.en has 60 lines and .*train\.de 61"),
    compressed("gz", gzip.compress),
    compressed("bz2", bz2.compress),
    compressed("xz", lzma.compress),
    compressed("zst", zstandard.compress),
    one_file("tsv", write_tsv, change_line("t.tsv", 21, "one column"), r"t\.tsv, line 21: 1 columns"),
    one_file("csv", write_csv, change_line("t.csv", 21, '"a","b'), r"t\.csv, line 21: "),
    one_file("jsonl", write_jsonl, change_line("t.jsonl", 21, '{"en": "a"}'), r"t\.jsonl, line 21: no field 'de'"),
    one_file("parquet", lambda f: pq.write_table(pa.table({"en": TEXT.src, "de": TEXT.tgt}), f, row_group_size=25),
             truncate("t.parquet"), r"t\.parquet cannot be read as parquet"),
    one_file("tmx", write_tmx, truncate("t.tmx"), r"t\.tmx cannot be read as TMX: .*line \d+"),
    Format("pattern", (*FILES, "data.train=[[parts/*.en,parts/*.de]]"), write_shards,
           change_line("parts/1.de", 3, "\xff"), r"parts/1\.de, line 3: not UTF-8"),
    Format("folder", (*FILES, *COLUMNS, "data.train=[corpus]"), write_folder, change_line("corpus/b.jsonl", 3, "{"),
           r"corpus/b\.jsonl, line 3: "),
    Format("repository", ("data=multi30k", "data.repository=repository", "data.splits.test=null"), write_repository,
           truncate("repository/train-00000-of-00001.parquet"), r"repository could not be loaded .*magic bytes"),
    Format("scores", (*FILES, *COLUMNS, "data.train=[t.tsv]", "data.score_field=score", "data.min_score=0.5"),
           write_scores, change_line("t.tsv", 21, "high\ta\tb"), r"t\.tsv, line 21: field 'score' is not a number"),
]  # fmt: skip
ALWAYS = ("tsv", "repository")
"""The formats that `make test` trains on; test_files.py reads all of them."""
TRAINED = pytest.mark.parametrize(
    "corpus",
    [
        pytest.param(corpus, id=corpus.name, marks=[pytest.mark.full] * (corpus.name not in ALWAYS))
        for corpus in FORMATS
    ],
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a validation set."""
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path, val_en=[src for src, _ in VALID], val_de=[tgt for _, tgt in VALID])
    return tmp_path


def train(corpus: Format, folder: Path) -> dict[str, Tensor]:
    """Train on a format, and return the weights."""
    corpus.write(folder)
    launch.train(compose((*TINY, *corpus.options), folder=folder / "run"))
    return load_file(folder / "run" / "model" / "model.safetensors")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tensor]:
    """The weights after a training on two text files."""
    folder = tmp_path_factory.mktemp("expected")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_lines(folder, val_en=[src for src, _ in VALID], val_de=[tgt for _, tgt in VALID])
        return train(FORMATS[0], folder)


@pytest.mark.full
@TRAINED
def test_every_format_trains_the_same_model(corpus: Format, folder: Path, expected: dict[str, Tensor]) -> None:
    weights = train(corpus, folder)
    assert weights.keys() == expected.keys()
    for name, weight in weights.items():
        assert weight.equal(expected[name]), name
    results = json.loads((folder / "run" / "results.json").read_text())
    assert results["steps"] == 3


@TRAINED
def test_a_broken_file_of_every_format_is_one_sentence_and_leaves_nothing_behind(
    corpus: Format, folder: Path, command: Callable[..., tuple[int, str]]
) -> None:
    corpus.write(folder)
    corpus.damage(folder)
    status, err = command(*TINY, *corpus.options, "hydra.run.dir=run")
    assert status == 2, err
    assert "Traceback" not in err
    message = err.partition("train.py: ")[2].strip()
    assert re.search(corpus.message, message), err
    assert "\n" not in message
    assert not list(folder.glob("run/model")) + list(folder.glob("run/checkpoints/*"))
    prepared = [path for path in folder.glob("cache/*/*") if path.suffix != ".lock"]
    assert not prepared, "neither a prepared text nor the beginning of one"


@pytest.mark.full
def test_the_sentences_decide_the_model(folder: Path, expected: dict[str, Tensor]) -> None:
    """The comparison above can fail."""
    corpus = FORMATS[0]
    corpus.write(folder)
    write_lines(folder, train_de=[*TEXT.tgt[1:], TEXT.tgt[0]])
    launch.train(compose((*TINY, *corpus.options), folder=folder / "run"))
    weights = load_file(folder / "run" / "model" / "model.safetensors")
    assert any(not weight.equal(expected[name]) for name, weight in weights.items() if name in expected)
