"""``heed translate``: formats, files, interrupted work and sentence splitting."""

import io
import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import heed as heed_package
from heed.cli.lines import resumable_output
from heed.documents.document import split_document
from heed.inference.translator import Translator
from tests import forkserver
from tests.cli.models import LINES, SEARCH, Heed, TinyModel, save_model
from tests.exchange.models import transformer, write_model
from tests.tokenizers import train_tokenizer

EXTRA: dict[str, Any] = {"search": {**SEARCH, "beam": 2, "max_length_extra": 0}, "src_lang": "en", "tgt_lang": "de"}


@pytest.fixture
def folder(tmp_path: Path, tiny_model: TinyModel) -> Path:
    return save_model(tmp_path / "model", tiny_model, scale=2.0, **EXTRA)


@pytest.fixture
def translate(heed: Heed, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Heed:
    """``translate(*options, text=…)``: exit status, standard output and standard error."""

    def translated(*options: Any, text: str = "\n".join(LINES)) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        return heed("translate", "--model", folder, "--device", "cpu", "--engine", "heed", *options)

    return translated


@pytest.fixture
def translator(folder: Path) -> Translator:
    return heed_package.load(folder, device="cpu")


def test_formats(translate: Heed, translator: Translator) -> None:
    expected = [best for (best,) in translator.hypotheses(LINES, alignments=True)]
    links = [" ".join(f"{i}-{j}" for i, j in each.alignment or ()) for each in expected]
    assert any(links)
    both = translate("--scores", "--alignments")[1].splitlines()
    assert both == [f"{t.text} ||| {t.score:.4f} ||| {link}" for t, link in zip(expected, links, strict=True)]
    n_best = translate("--n-best", 2, "--alignments")[1].splitlines()
    assert n_best[0] == f"0 ||| {expected[0].text} ||| {expected[0].score:.4f} ||| {links[0]}"

    objects = [json.loads(line) for line in translate("--json", "--alignments")[1].splitlines()]
    assert [each["source"] for each in objects] == LINES
    best = [each["translations"][0] for each in objects]
    assert [each["text"] for each in best] == [each.text for each in expected]
    assert [each["alignment"] for each in best] == links
    assert [each["finished"] for each in best] == [each.finished for each in expected]
    for name in ("pieces", "words"):
        parts = [[[part, pytest.approx(value, abs=1e-3)] for part, value in getattr(each, name)] for each in expected]
        assert [each.get(name, []) for each in best] == parts
    assert "alignment" not in json.loads(translate("--json")[1].splitlines()[0])["translations"][0]


def test_cut_translations_are_reported(translate: Heed, translator: Translator) -> None:
    cut = [number for number, (each,) in enumerate(translator.hypotheses(LINES), 1) if not each.finished]
    assert cut
    assert f"the first in line {cut[0]} " in translate()[2]


def test_sentences_are_split_and_joined(translate: Heed, translator: Translator) -> None:
    pytest.importorskip("sentencex")
    first, second = "The dog sleeps.", "A man rides a bike."
    parts = [best for (best,) in translator.hypotheses([first, second], alignments=True)]
    text = f"{first}  {second}\n\n{second}\n"
    status, out, _ = translate("--split-sentences", "--json", "--alignments", text=text)
    assert status == 0
    both, empty, alone = (json.loads(line)["translations"][0] for line in out.splitlines())
    assert both["text"] == " ".join(part.text for part in parts)
    assert (empty["text"], alone["text"]) == ("", parts[1].text)
    assert both["log_prob"] == pytest.approx(sum(part.log_prob for part in parts), abs=1e-3)
    words = len(parts[0].text.split(" "))
    shifted = [(i + 3, j + words) for i, j in parts[1].alignment or ()]
    assert both["alignment"] == " ".join(f"{i}-{j}" for i, j in sorted([*(parts[0].alignment or ()), *shifted]))


def test_too_long_sentences_are_split(translate: Heed) -> None:
    pytest.importorskip("sentencex")
    line = "the dog sleeps, " * 30
    status, out, err = translate("--max-tokens", 40, text=f"\n{line}")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "Line 2 has" in err
    status, out, _ = translate("--max-tokens", 40, "--split-sentences", text=f"\n{line}\n" + "x" * 500)
    assert (status, out.count("\n")) == (0, 3)


def test_files_are_equal_to_standard_output(translate: Heed, tmp_path: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("\n".join(LINES), encoding="utf-8")
    expected = translate()[1]
    status, out, _ = translate("--input", source, "--output", output, text="not this")
    assert (status, out, output.read_text(encoding="utf-8")) == (0, "", expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "model", "out.txt"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n-best", 2, "--split-sentences"], "--n-best and --split-sentences do not go together"),
        (["--resume"], "add --input FILE and --output FILE"),
        (["--input", "nowhere"], "nowhere: No such file or directory."),
        (["--direction", "de-en"], "--direction de-en is not a direction of this model: it has en-de."),
    ],
)
def test_wrong_options_are_one_sentence(translate: Heed, options: list[Any], message: str) -> None:
    status, out, err = translate(*options)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


DOCUMENTS = {
    "html": "<p>a man <b>rides</b> a bike .</p>\r\n<pre>a</pre>\n",
    "md": "# a man\n\n*rides* a\nbike .\n\n    a\n",
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_keeps_its_markup(translate: Heed, translator: Translator, tmp_path: Path, kind: str) -> None:
    document = split_document(DOCUMENTS[kind], kind, translator, by_rules=True)
    (expected,) = document.versions(translator.hypotheses(document.sentences, alignments=True), 1)
    status, out, _ = translate("--format", kind, text="\ufeff" + DOCUMENTS[kind])
    assert (status, out) == (0, expected)
    source, output = tmp_path / "source", tmp_path / "output"
    source.write_bytes(DOCUMENTS[kind].encode())
    status, out, _ = translate("--format", kind, "--input", source, "--output", output)
    assert (status, out, output.read_bytes()) == (0, "", expected.encode())


def test_symptoms_of_a_document_are_counted(translate: Heed) -> None:
    *_, err = translate("--format", "md", text=f"- {LINES[0]}\n")
    assert "heed: 1 translation reached the length limit of the search and may be cut off.\n" in err


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        (["--n-best", 2], "", "--n-best is for lines, and --format html translates one document: leave out --n-best."),
        (["--prefix-file", "x"], "", "leave out --prefix-file."),
        (["--split-sentences"], "", "leave out --split-sentences."),
        ([], "<p", "This HTML cannot be translated: a tag or a comment is not closed."),
    ],
)
def test_wrong_documents_are_one_sentence(translate: Heed, options: list[Any], text: str, message: str) -> None:
    status, out, err = translate("--format", "html", *options, text=text)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_document_that_is_not_utf8_is_one_sentence(translate: Heed, tmp_path: Path) -> None:
    (tmp_path / "page").write_bytes("<p>schön".encode("latin-1"))
    status, _, err = translate("--format", "html", "--input", tmp_path / "page")
    assert status == 2
    assert "page is not UTF-8 (invalid start byte at byte 7): convert it" in err


def test_missing_sentence_splitter_is_one_sentence(
    translate: Heed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentencex", None)
    status, _, err = translate("--split-sentences", "--output", tmp_path / "out.txt")
    assert (status, err.count("\n")) == (2, 1)
    assert "pip install -e '.[split]'" in err
    assert not list(tmp_path.glob("out*"))


def test_an_interrupted_translation_is_continued_to_the_same_file(
    translate: Heed, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, output, partial = (tmp_path / name for name in ("in.txt", "out.txt", "out.txt.partial"))
    source.write_text("".join(f"{LINES[i % 4]}\n" for i in range(9)), encoding="utf-8")
    monkeypatch.setattr("heed.cli.translate.LINES_AT_ONCE", 2)
    options = ["--input", source, "--output", output, "--beam", 1]
    assert translate(*options)[0] == 0
    whole = output.read_bytes()
    output.unlink()
    seen: list[int] = []
    stop = 5

    def formatted(args: Any, number: int, source: str, translations: Any) -> list[str]:
        if number == stop:
            raise ZeroDivisionError
        seen.append(number)
        return [translations[0].text]

    monkeypatch.setattr("heed.cli.translate._format", formatted)
    with pytest.raises(ZeroDivisionError):
        translate(*options)
    assert partial.read_bytes() == b"".join(whole.splitlines(keepends=True)[:stop])
    with partial.open("ab") as file:  # a line that was being written
        file.write("hälfte".encode()[:2])

    def refusal(*more: Any) -> str:
        status, _, err = translate(*options, "--resume", *more)
        assert (status, err.count("\n")) == (2, 1)
        return err

    assert "was written with another value of beam: give the same options and files" in refusal("--beam", 2)
    reversed_lines = b"".join(reversed(source.read_bytes().splitlines(keepends=True)))
    other_tokenizer = train_tokenizer([*LINES, "kleiner ist schlechter"], vocab_size=70).models[0] or b""
    (tokenizer,) = folder.glob("*src.model")
    for name, file, content in (("input", source, reversed_lines), ("model", tokenizer, other_tokenizer)):
        times, before = (file.stat().st_atime_ns, file.stat().st_mtime_ns), file.read_bytes()
        file.write_bytes(content)
        os.utime(file, ns=times)
        assert f"was written with another value of {name}:" in refusal()
        file.write_bytes(before)

    stop = 9
    seen.clear()
    assert translate(*options, "--resume", "--max-tokens", 2000)[0] == 0  # for a line that was too long
    assert seen == [4, 5, 6, 7, 8]
    assert output.read_bytes() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "model", "out.txt"]


def test_two_translations_into_one_file_end_in_a_sentence(translate: Heed, tmp_path: Path) -> None:
    output = tmp_path / "out.txt"
    with resumable_output(output, {}, block=1, resume=False):
        status, _, err = translate("--output", output)
    assert (status, err) == (
        2, f"heed: {output} is being written by another process: wait until it ends, or name another file.\n"
    )  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out.txt"]


@pytest.mark.full
def test_killed_translation_is_resumed_to_the_same_file(folder: Path, tmp_path: Path) -> None:
    lines = [f"{LINES[i % 4]} {LINES[i % 3]} {'abcde'[i % 5]}" for i in range(2_500)]
    source, output, whole = tmp_path / "in.txt", tmp_path / "out.txt", tmp_path / "whole.txt"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "heed", "translate", "--model", str(folder), "--input", str(source), "--beam", "1"]
    command += ["--device", "cpu", "--scores"]
    forkserver.run([*command, "--output", str(whole)], check=True)

    partial = tmp_path / "out.txt.partial"
    process = forkserver.Popen([*command, "--output", str(output), "--resume"])
    while not (partial.exists() and partial.read_bytes().count(b"\n") >= 1_000):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not output.exists()
    with partial.open("ab") as file:  # a line that was being written
        file.write("hälfte".encode()[:2])

    kept = partial.stat().st_size
    forkserver.run([*command, "--output", str(output), "--resume"], check=True)
    assert kept > 0
    assert output.read_bytes() == whole.read_bytes()
    assert output.read_bytes().count(b"\n") == len(lines)
    assert not partial.exists()


def test_output_into_a_pipe(translate: Heed, folder: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        received = reader.submit(pipe.read_text)
        assert translate("--output", pipe)[0] == 0
        assert received.result(timeout=30) == translate()[1]
    assert pipe.is_fifo()
    source = tmp_path / "source"
    source.write_text("\n".join(LINES))
    status, _, err = translate("--input", source, "--output", pipe, "--resume")
    assert (status, err) == (2, f"heed: --resume continues a file, and {pipe} is a device or a pipe.\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "pipe", "source"]


@pytest.mark.parametrize("name", ["", ".", "/", "model"])
def test_output_into_a_folder_is_refused(
    translate: Heed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    status, _, err = translate(f"--output={name}")
    assert (status, err) == (2, f"heed: --output {Path(name)} is a folder: name a file.\n")


@pytest.mark.parametrize("options", [[], ["--split-sentences"]])
@pytest.mark.parametrize(
    ("seed", "beam", "messages"),
    [
        (23, 1, ["3 translations are empty, the first in line 2"]),
        (14, 5, ["2 translations are second choices, because the best ones have no text, the first in line 2",
                 "1 translation repeats a phrase, the first in line 3"]),
        (1, 5, ["1 translation reached the length limit of the search and may be cut off, the first in line 3",
                "1 translation repeats a phrase, the first in line 3"]),
    ],
)  # fmt: skip
def test_lost_text_is_counted_and_marked(
    heed: Heed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    seed: int,
    beam: int,
    messages: list[str],
) -> None:
    model = write_model(tmp_path / "model", transformer(), seed=seed)
    lines = ["5", "the dog runs", "dog", "", "the house", "🙂 !"]
    text = "".join(f"{line}\n" for line in lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    status, out, err = heed("translate", "--model", model, "--engine", "heed", "--beam", beam, "--json", *options)
    assert status == 0
    rows = [json.loads(line)["translations"][0] for line in out.splitlines()]
    expected = heed_package.load(model, device="cpu").hypotheses(lines, beam=beam)
    assert [(row["text"], tuple(row["symptoms"])) for row in rows] == [
        (each.text, each.symptoms) for (each,) in expected
    ]
    assert [row["text"] for row in rows[::5]] == ["5", "🙂 !"]
    assert err.splitlines() == [f"heed: {message} (--json marks them)." for message in messages]
