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

from heed import model_folder
from heed.cli import main
from heed.cli.common import read_lines, search_settings
from heed.data.tokenizer import Tokenizer
from heed.decoding import BeamSearch
from heed.errors import HeedError
from heed.models.seq2seq import Seq2Seq
from heed.symbols import BOS, EOS, PAD, UNK
from heed.translator import Translator

CONF = Path(__file__).parents[1] / "conf" / "search"
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
