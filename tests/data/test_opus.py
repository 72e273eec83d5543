"""``data=opus``: the command line of mtdata, the folder that it writes, interrupted and failed downloads.

Most tests run a program in the place of mtdata that writes a folder as mtdata 0.5.1 does; one runs mtdata itself if it
is installed, on files in its cache instead of downloads.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import signal
import stat
import sys
import zipfile
from pathlib import Path

import pytest
from hydra.errors import InstantiationException

from heed.data.corpora.opus import OpusCorpus
from heed.data.corpus import Corpus
from heed.errors import HeedError
from tests import forkserver
from tests.data.corpora import ROOT, compose_data, sentence_pairs

NEWS = "Statmt-news_commentary-16-deu-eng"
TATOEBA = "OPUS-tatoeba-v20230412-deu-eng"
WIKIMEDIA = "OPUS-wikimedia-v20230407-deu-eng"
FLORES = "Google-wmt24pp-1-eng-deu_DE"

PROGRAM = '''#!{python}
"""Writes what mtdata 0.5.1 writes for `mtdata get`, with a sentence that names the file."""
import argparse, json, os, signal, sys
from pathlib import Path

with open({calls!r}, "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
parser = argparse.ArgumentParser()
parser.add_argument("-no-pb", action="store_true")
parser.add_argument("task", choices=["get"])
parser.add_argument("-l", "--langs")
for role in ("train", "dev", "test"):
    parser.add_argument(f"--{{role}}", nargs="*", default=[])
parser.add_argument("--fail", action="store_true")
parser.add_argument("-j", "--n-jobs", type=int)
parser.add_argument("-o", "--out", type=Path)
options = parser.parse_args()
standard = {{"de": "deu", "en": "eng", "deu": "deu", "eng": "eng"}}
for folder in ("train-parts", "tests"):
    (options.out / folder).mkdir(parents=True)
signature = "mtdata get -l " + "-".join(standard[language] for language in options.langs.split("-"))
for role, folder in (("test", "tests"), ("dev", "tests"), ("train", "train-parts")):
    for name in getattr(options, role):
        if "missing" in name:
            raise Exception(f"Could not find {{name}}; try mtdata list")
        for language in name.split("-")[-2:]:
            text = f"{{language.split('_')[0]}} {{name.split('-')[1]}}\\n"
            (options.out / folder / f"{{name}}.{{language}}").write_text(text)
        (options.out / folder / f".valid.{{name}}").touch()
for role in ("train", "dev", "test"):
    if names := getattr(options, role):
        signature += f" --{{role}} " + " ".join(names)
(options.out / "references.bib").touch()
if os.environ.get("KILL_PARENT"):
    os.kill(os.getppid(), signal.SIGKILL)
(options.out / "mtdata.signature.txt").write_text(signature + " -o <out-dir>\\nmtdata version 0.5.1\\n")
'''


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program in the place of mtdata. It appends its arguments to the file "calls"."""
    file = tmp_path / "bin" / "mtdata"
    file.parent.mkdir()
    file.write_text(PROGRAM.format(python=sys.executable, calls=str(tmp_path / "calls")))
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def opus(folder: Path, **changes: str) -> OpusCorpus:
    options = {
        "train": f"[{NEWS},{FLORES}]",
        "valid": f"[{WIKIMEDIA}]",
        "test": f"[{TATOEBA}]",
        "src_lang": "en",
        "tgt_lang": "de",
        "cache_dir": f"{folder}/cache",
        "command": f"{folder}/bin/mtdata",
    } | changes
    corpus: OpusCorpus = compose_data("opus", *(f"data.{key}={value}" for key, value in options.items()))
    return corpus


def load(folder: Path, **changes: str) -> Corpus:
    return opus(folder, **changes).load()


def calls(folder: Path) -> list[list[str]]:
    file = folder / "calls"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_corpora_are_downloaded_once_and_read(program: Path, tmp_path: Path) -> None:
    corpus = load(tmp_path, num_jobs="3")
    (arguments,) = calls(tmp_path)
    out = Path(arguments.pop())
    assert arguments == [
        "-no-pb", "get", "--langs", "en-de", "--train", NEWS, FLORES, "--dev", WIKIMEDIA, "--test", TATOEBA,
        "--fail", "--n-jobs", "3", "--out",
    ]  # fmt: skip
    assert out.is_relative_to(tmp_path / "cache" / "opus")
    assert (corpus.name, corpus.src_lang, corpus.tgt_lang) == ("opus", "en", "de")
    expected = [("eng news_commentary", "deu news_commentary"), ("eng wmt24pp", "deu wmt24pp")]
    assert sorted(sentence_pairs(corpus.train)) == expected
    assert sentence_pairs(corpus.valid["valid"].text) == [("eng wikimedia", "deu wikimedia")]
    assert {name: sentence_pairs(part.text) for name, part in corpus.tests.items()} == {
        TATOEBA: [("eng tatoeba", "deu tatoeba")]
    }
    assert sorted(sentence_pairs(load(tmp_path, num_jobs="3").train)) == expected
    assert len(calls(tmp_path)) == 1, "the second time, nothing is downloaded"


@pytest.mark.parametrize(
    "changes", [{"src_lang": "deu", "tgt_lang": "eng"}, {"src_lang": "de", "tgt_lang": "en"}, {"reverse": "true"}]
)
def test_the_source_is_found_whatever_the_order_in_the_id(
    changes: dict[str, str], program: Path, tmp_path: Path
) -> None:
    corpus = load(tmp_path, **changes, test="null")
    assert sorted(sentence_pairs(corpus.train))[0] == ("deu news_commentary", "eng news_commentary")
    assert sentence_pairs(corpus.valid["valid"].text) == [("deu wikimedia", "eng wikimedia")]
    assert not corpus.tests
    assert "--test" not in calls(tmp_path)[0]


def test_a_test_set_has_the_direction_of_the_corpus_whatever_its_id(program: Path, tmp_path: Path) -> None:
    corpus = load(tmp_path, src_lang="eng", tgt_lang="deu", both_directions="true")
    assert str(corpus.tests[TATOEBA].direction) == "eng-deu", "the ID ends with deu-eng"
    assert sentence_pairs(corpus.tests[TATOEBA].text) == [("eng tatoeba", "deu tatoeba")]


def test_the_program_may_have_arguments(program: Path, tmp_path: Path) -> None:
    load(tmp_path, command=f"'{sys.executable} {tmp_path}/bin/mtdata'")
    assert calls(tmp_path)[0][1] == "get"


@pytest.mark.parametrize("damage", ["removed", "shorter", "unreadable manifest"])
def test_a_damaged_download_is_repeated(damage: str, program: Path, tmp_path: Path) -> None:
    load(tmp_path)
    (file,) = tmp_path.glob(f"cache/opus/*/*/train-parts/{NEWS}.eng")
    if damage == "removed":
        file.unlink()
    elif damage == "shorter":
        file.write_text("eng")
    else:
        (manifest,) = tmp_path.glob("cache/opus/*/manifest.json")
        manifest.write_text(manifest.read_text()[:50])
    assert len(load(tmp_path).train) == 2
    assert len(calls(tmp_path)) == 2


@pytest.mark.slow
def test_an_interrupted_download_is_not_taken_for_a_complete_one(program: Path, tmp_path: Path) -> None:
    """The program kills heed when all files are there, except for the last one, which it writes after that."""
    code = f"from tests.data.test_opus import load; from pathlib import Path; load(Path({str(tmp_path)!r}))"
    paths = os.pathsep.join([str(ROOT), *sys.path])
    environment = {**os.environ, "KILL_PARENT": "1", "PYTHONPATH": paths}
    killed = forkserver.run([sys.executable, "-c", code], env=environment, cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL
    (file,) = tmp_path.glob(f"cache/opus/*.partial/*/train-parts/{NEWS}.eng")
    first = file.parents[1]
    assert len(load(tmp_path).train) == 2
    assert len(calls(tmp_path)) == 2
    assert not first.exists()


def error(folder: Path, **changes: str) -> str:
    with pytest.raises((HeedError, InstantiationException)) as caught:  # Hydra wraps what a constructor raises
        load(folder, **changes)
    found = caught.value if isinstance(caught.value, HeedError) else caught.value.__cause__
    assert isinstance(found, HeedError), caught.value
    return str(found)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"command": "no-such-mtdata"},
            "data.command=no-such-mtdata needs mtdata, which is not installed: run `pip install -e '.[opus]'`",
        ),
        ({"command": "''"}, "needs mtdata"),
        ({"command": "'\"uvx mtdata'"}, 'data.command="uvx mtdata cannot be split into words: No closing quotation'),
        (
            {"train": "[OPUS-missing-v1-deu-eng]"},
            "could not download the corpora: Exception: Could not find OPUS-missing",
        ),
        ({"train": "[OPUS-missing]"}, "data.train: OPUS-missing is not the ID of a parallel corpus"),
        ({"train": "[--help]"}, "data.train: --help is not the ID"),
        ({"train": "[a/../x-b-c-de-en]"}, "is not the ID"),
        ({"train": "[]"}, "data.train is empty"),
        ({"test": f"[{WIKIMEDIA}]"}, f"data.test: {WIKIMEDIA} is already in data.valid"),
        ({"src_lang": "English"}, "data.src_lang=English must be an ISO 639 code"),
        ({"command": "/bin/true"}, "does not have the layout of mtdata 0.5"),
    ],
)
def test_errors_are_sentences(changes: dict[str, str], message: str, program: Path, tmp_path: Path) -> None:
    assert message in error(tmp_path, **changes)
    assert "\n" not in error(tmp_path, **changes)
    assert not list(tmp_path.glob("cache/opus/*/manifest.json"))


def test_a_failed_download_leaves_its_log(program: Path, tmp_path: Path) -> None:
    message = error(tmp_path, train="[OPUS-missing-v1-deu-eng]")
    log = Path(message.rpartition("(see ")[2].removesuffix(")."))
    assert "Traceback" in log.read_text()
    assert set(log.parent.iterdir()) <= {log, log.with_suffix(".lock")}, "the texts of other corpora are removed"


# ---- mtdata itself


URLS = {
    NEWS: ("http://data.statmt.org/news-commentary/v16/training/news-commentary-v16.de-en.tsv.gz",
           "data.statmt.org", "news_commentary.tsv.gz"),
    TATOEBA: ("https://object.pouta.csc.fi/OPUS-Tatoeba/v2023-04-12/moses/de-en.txt.zip",
              "object.pouta.csc.fi", "tatoeba.zip"),
    WIKIMEDIA: ("https://object.pouta.csc.fi/OPUS-wikimedia/v20230407/moses/de-en.txt.zip",
                "object.pouta.csc.fi", "wikimedia.zip"),
}  # fmt: skip


def write_to_cache(cache: Path, name: str, content: bytes) -> None:
    """Write a file where mtdata 0.5.1 keeps what it has downloaded."""
    url, host, file = URLS[name]
    digest = hashlib.md5(url.encode()).hexdigest()
    folder = cache / host / digest[:4] / digest[4:]
    folder.mkdir(parents=True)
    (folder / file).write_bytes(content)
    (folder / f"{file}._valid").touch()


def zipped(german: str, english: str) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("corpus.de-en.de", german)
        files.writestr("corpus.de-en.en", english)
    return archive.getvalue()


@pytest.mark.full
@pytest.mark.skipif(shutil.which("mtdata") is None, reason="needs the extra opus")
def test_what_mtdata_writes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "mtdata"
    monkeypatch.setenv("MTDATA", str(cache))
    write_to_cache(cache, NEWS, gzip.compress(b"Ein Hund.\tA dog.\nEin Vogel.\tA bird.\n"))
    write_to_cache(cache, TATOEBA, zipped("Eine Katze.\n", "A cat.\n"))
    write_to_cache(cache, WIKIMEDIA, zipped("Ein Pferd.\n", "A horse.\n"))
    corpus = load(tmp_path, command="mtdata", train=f"[{NEWS}]", num_jobs="2")
    assert sorted(sentence_pairs(corpus.train)) == [("A bird.", "Ein Vogel."), ("A dog.", "Ein Hund.")]
    assert sentence_pairs(corpus.valid["valid"].text) == [("A horse.", "Ein Pferd.")]
    assert sentence_pairs(corpus.tests[TATOEBA].text) == [("A cat.", "Eine Katze.")]
    message = error(tmp_path, command="mtdata", train="[OPUS-nothing-v1-deu-eng]")
    assert "Could not find OPUS-nothing-v1-deu-eng" in message
