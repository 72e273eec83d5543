"""``heed`` as its users meet it: a program with stdin, stdout, stderr and an exit status."""

import io
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sentencepiece as spm
import torch
import yaml
from safetensors.torch import load_file, save_file

from heed.cli import main
from heed.cli.common import read_lines, search_settings
from heed.data.tokenizer import Tokenizer
from heed.decoding import BeamSearch
from heed.errors import HeedError
from heed.files import replacing
from heed.inference import model_folder
from heed.inference.translator import Translator
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS, EOS, PAD, UNK

CONF = Path(__file__).parents[2] / "conf" / "search"
LINES = ["a man rides a bike .", "", "the dog sleeps .", "two children play with a red ball in the park ."]
SEARCH = {"beam": 3, "length_penalty": 0.6, "n_best": 1, "max_length_factor": 1.0, "max_length_extra": 3}


def heed(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "heed.cli", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60, env=environment(), check=False)


def environment() -> dict[str, str]:
    # A reader in a plain C locale must get UTF-8 all the same.
    return {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "OMP_NUM_THREADS": "1"}


@pytest.fixture
def run(tmp_path: Path, tiny_model: Callable[..., Seq2Seq]) -> Path:
    """A run folder whose model/ holds a tiny model with random weights."""
    proto = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter([*LINES, "größer ist schöner"]),
        model_writer=proto,
        model_type="bpe",
        vocab_size=70,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=2,
    )
    tokenizer = Tokenizer(proto.getvalue(), proto.getvalue())
    torch.manual_seed(3)
    model = tiny_model("transformer", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
    model_folder.save(tmp_path / "run" / "model", model, tokenizer, extra={"search": SEARCH})
    return tmp_path / "run"


@pytest.fixture
def translator(run: Path) -> Callable[..., Translator]:
    def build(**changes: Any) -> Translator:
        folder = model_folder.load(run)
        return Translator(folder.model, folder.tokenizer, BeamSearch(**{**SEARCH, **changes}), batch_tokens=100)

    return build


def test_help_is_instant() -> None:
    script = (
        "import sys; from heed.cli import main\n"
        "try: main(['translate', '--help'])\n"
        "except SystemExit: print(sys.modules.keys())"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert "--beam" in answer.stdout
    for slow in ("torch", "numpy", "sentencepiece", "lightning"):
        assert f"'{slow}'" not in answer.stdout


def test_text_in_text_out(run: Path, translator: Callable[..., Translator]) -> None:
    expected = translator().translate(LINES)
    text = "\n".join(LINES).encode()
    for arguments, stdin in (
        (["--model", run], text),
        (["--model", run / "model", "--batch-tokens", "7"], text.replace(b"\n", b"\r\n") + b"\r\n"),
    ):
        answer = heed("translate", *arguments, stdin=stdin)
        assert (answer.returncode, answer.stderr) == (0, b"")
        assert answer.stdout.decode().split("\n") == [*expected, ""]


def test_options_change_the_search_the_model_was_scored_with(run: Path, translator: Callable[..., Translator]) -> None:
    answer = heed("translate", "--model", run, "--beam", "1", stdin="\n".join(LINES).encode())
    assert answer.stdout.decode().split("\n") == [*translator(beam=1).translate(LINES), ""]
    answer = heed("translate", "--model", run, "--n-best", "2", "--length-penalty", "0", stdin=LINES[0].encode())
    ((first, second),) = translator(n_best=2, length_penalty=0.0).n_best(LINES[:1])
    assert answer.stdout.decode().splitlines() == [
        f"0 ||| {t.text} ||| {t.hypothesis.score:.4f}" for t in (first, second)
    ]


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--model", "nowhere", "nowhere"),
        ("--beam", "0", "beam=0"),
        ("--n-best", "9", "n_best=9"),
        ("--batch-tokens", "0", "batch_tokens=0"),
        ("--device", "moon", "--device moon"),
    ],
)
def test_errors_are_one_sentence(
    run: Path, capsys: pytest.CaptureFixture[str], option: str, value: str, sentence: str
) -> None:
    assert main(["translate", "--model", str(run), option, value]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_what_is_not_utf8_is_named(run: Path) -> None:
    answer = heed("translate", "--model", run, stdin=b"a dog\ncaf\xe9\n")
    assert answer.returncode == 2
    assert answer.stderr.decode().startswith("heed: Line 2 of the input is not UTF-8")
    assert len(answer.stderr.splitlines()) == 1


def test_a_closed_pipe_is_no_error(run: Path) -> None:
    program = f"{sys.executable} -m heed.cli translate --model {run} --beam 1"
    command = f"yes '{LINES[0]}' | {program} | head -n 2; echo ${{PIPESTATUS[1]}}"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, env=environment(), check=True)
    assert answer.stderr == b""
    assert answer.stdout.splitlines()[2:] == [b"0"]


def test_who_types_is_answered_line_by_line_and_may_leave_with_ctrl_c(run: Path) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "heed.cli", "translate", "--model", str(run)]
    with subprocess.Popen(
        command,
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        # A shell's background job ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        os.write(master, b"the dog sleeps .\n")
        assert process.stdout.readline().endswith(b"\n")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stderr.read() == b""
    os.close(master)
    os.close(slave)


def test_lines_end_at_newlines_only() -> None:
    text = "\ufeffone\u2028still one\r\ntwo\x0bstill two\n\nfour"
    assert list(read_lines(io.BytesIO(text.encode()), "x")) == ["one\u2028still one", "two\x0bstill two", "", "four"]
    with pytest.raises(HeedError, match=r"Line 2 of x is not UTF-8 .* at byte 3"):
        list(read_lines(io.BytesIO(b"one\nab\xff"), "x"))


def test_search_settings_are_the_models_or_those_of_conf() -> None:
    beam, greedy = (yaml.safe_load((CONF / f"{name}.yaml").read_text()) for name in ("beam", "greedy"))
    standard = {name: beam[name] for name in beam if name != "_target_"}
    assert search_settings(None) == standard
    assert search_settings(beam) == standard
    assert search_settings(SEARCH | {"_target_": "anything", "n_best": 3}) == SEARCH
    settings = search_settings(greedy | {"max_length_extra": 33})
    assert (settings["beam"], settings["max_length_extra"]) == (1, 33)


def test_streams_that_cannot_be_used_are_a_sentence(run: Path, tmp_path: Path) -> None:
    program = f"{sys.executable} -m heed.cli translate --model {run} --beam 1"
    for command, status, sentence in (
        (f"echo a dog | {program} > /dev/full", 2, "Standard output could not be written (No space left on device)"),
        (f"echo a dog | {program} >&-", 2, "Standard output is closed"),
        (f"{program} <&-", 2, "Standard input is closed"),
        (f"echo a dog | {program} 2>&- >/dev/null", 0, ""),
        (f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir ../gone && {program}", 2, "The working directory"),
    ):
        answer = subprocess.run(
            ["bash", "-c", command], capture_output=True, timeout=60, env=environment(), check=False
        )
        said = answer.stderr.decode()
        assert (answer.returncode, len(said.splitlines())) == (status, 1 if sentence else 0), said
        assert said.startswith(f"heed: {sentence}" if sentence else "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"\x28\xb5\x2f\xfd rest", "is compressed: decompress it first, with `zstd -dc`"),
        (b"\xfd7zXZ\x00 rest", "xz -dc"),
        (b"\x1f\x8b\x08 rest", "gzip -dc"),
        ("Hund".encode("utf-16"), "is UTF-16"),
        (b"a dog\n" + b"a" * 10_000_000, "Line 2 of x is longer than 100,000 bytes"),
    ],
)
def test_input_of_another_kind_is_called_by_its_name(text: bytes, words: str) -> None:
    with pytest.raises(HeedError) as caught:
        list(read_lines(io.BytesIO(text), "x"))
    assert words in str(caught.value)
    assert "LATIN1" not in str(caught.value)


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(9)
)


def _edited(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    change(config)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))


def _replaced(folder: Path, name: str, how: Callable[[Path], object]) -> None:
    (folder / name).unlink()
    how(folder / name)


def _poisoned(folder: Path, value: float) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["tgt_embedding.weight"][5, 3] = value
    save_file(weights, folder / "model.safetensors")


FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "family list": (lambda d: _edited(d, lambda c: c.update(family=["transformer"])), "names the model family ['tr"),
    "no model": (lambda d: _edited(d, lambda c: c.pop("model")), "it has no model"),
    "model text": (lambda d: _edited(d, lambda c: c.update(model="x")), "model=x must be a mapping"),
    "size text": (lambda d: _edited(d, lambda c: c["model"].update(d_ff="x")), "model.d_ff=x must be an integer"),
    "wide": (lambda d: _edited(d, lambda c: c["model"].update(d_ff=2**40)), "sizes up to 1,099,511,627,776"),
    "wide, many heads": (
        lambda d: _edited(d, lambda c: c["model"].update(d_model=2**40, num_heads=2**40)), "sizes up to",
    ),
    "deep": (lambda d: _edited(d, lambda c: c["model"].update(encoder_layers=1000)), "layers and sizes up to"),
    "too deep": (
        lambda d: _edited(d, lambda c: c["model"].update(encoder_layers=2**40)), "must be in [1, 1000]",
    ),
    "a little wider": (lambda d: _edited(d, lambda c: c["model"].update(d_ff=29)), "weights of another architecture"),
    "search list": (lambda d: _edited(d, lambda c: c.update(search=[1])), "search=[1] must be a mapping"),
    "search text": (lambda d: _edited(d, lambda c: c["search"].update(length_penalty="x")), "search.length_penalty=x"),
    "alignment text": (
        lambda d: _edited(d, lambda c: c.update(alignment={"layer": "x", "head": None, "row": "input"})),
        "alignment.layer=x must be an integer",
    ),
    "nested": (lambda d: (d / "config.yaml").write_text("[" * 100_000), "nested too deeply"),
    "aliases": (lambda d: (d / "config.yaml").write_text(BOMB), "aliases"),
    "large": (lambda d: (d / "config.yaml").write_text("a: " + "x" * 10**6), "larger than"),
    "folder": (lambda d: _replaced(d, "model.safetensors", Path.mkdir), "is a folder and must be a file"),
    "pipe": (lambda d: _replaced(d, "model.safetensors", os.mkfifo), "is a pipe or a device and must be a file"),
    "pipe as config": (lambda d: _replaced(d, "config.yaml", os.mkfifo), "is a pipe or a device and must be a file"),
    "NaN": (lambda d: _poisoned(d, float("nan")), "1 of 1,400 values of tgt_embedding.weight are NaN or infinite"),
    "infinity": (lambda d: _poisoned(d, -float("inf")), "are NaN or infinite"),
}  # fmt: skip


@pytest.mark.parametrize("damage", FOLDERS)
def test_a_damaged_model_folder_is_a_sentence(
    run: Path, damage: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a dog\n")))
    change, words = FOLDERS[damage]
    change(run / "model")
    assert main(["translate", "--model", str(run)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--length-penalty", "nan"], "search.length_penalty=nan must be in [0, 10] and finite"),
        (["--length-penalty", "inf"], "search.length_penalty=inf"),
        (["--sample", "--temperature", "nan"], "search.temperature=nan must be > 0 and finite"),
        (["--sample", "--top-p", "nan"], "search.top_p=nan"),
        (["--mbr", "--samples", "1000000000"], "search.n_best=1000000000"),
        (["--beam", "1000000"], "search.beam=1000000"),
        (["--device", "cuda:99"], "--device cuda:99 cannot be used"),
        (["--device", "meta"], "--device meta cannot be used"),
        (["--max-tokens", "2"], "Line 2 has 3 subwords and may have 2"),
    ],
)
def test_options_out_of_range_are_a_sentence(
    run: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\na dog\n")))
    assert main(["translate", "--model", str(run), *options]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert len(err.splitlines()) == 1


def test_text_arguments_are_utf8_whatever_the_locale(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert heed("attend", "--model", run, "--beam", "1", "--out", page, "größer").returncode == 0
    assert "größer" in page.read_text(encoding="utf-8")
    answer = heed("attend", "--model", run, "--out", page, os.fsdecode(b"caf\xe9"))
    assert answer.returncode == 2
    assert b"is not UTF-8" in answer.stderr
    assert b"Traceback" not in answer.stderr


def test_devices_are_never_replaced_by_files(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with replacing(pipe, into_devices=True) as where:
        assert where == pipe
    assert pipe.is_fifo()
