"""``heed`` as a program: standard streams, signals, exit status and start-up time."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest

import heed
from heed.cli import COMMANDS, main
from heed.cli.interventions import choose_contrasts
from tests import forkserver
from tests.cli.models import LINES, SEARCH, TinyModel, save_model
from tests.finished import FinishedRun


@pytest.fixture
def run(tmp_path: Path, tiny_model: TinyModel) -> Path:
    """A run folder whose model/ is a tiny transformer with random weights."""
    return save_model(tmp_path / "run" / "model", tiny_model, search=SEARCH).parent


def program(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "heed", *map(str, arguments)]
    return forkserver.run(command, input=stdin, capture_output=True, timeout=60)


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, text=True, check=False)


def test_heed_and_its_help_import_nothing_slow() -> None:
    commands = [[], *([name] for name in COMMANDS)]
    script = (
        "import sys; from heed.cli import main\n"
        "import heed, heed.options, heed.progress; heed.__all__, dir(heed)\n"
        f"for command in {commands}: main([*command, '--help'])\n"
        "print(sys.modules.keys())"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert answer.stdout.count("usage: heed") == len(commands)
    slow = "torch numpy sentencepiece lightning hydra pydantic tqdm multiprocessing importlib.metadata"
    assert not [name for name in slow.split() if f"'{name}'" in answer.stdout]


@pytest.mark.parametrize(
    ("environment", "spins"), [({}, "2000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")]
)
def test_threads_do_not_wait_busily_unless_the_user_says_so(environment: dict[str, str], spins: str) -> None:
    code = "import os, sys, heed; print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"
    inherited = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**inherited, **environment}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [spins, "False"]


def test_every_public_name_exists() -> None:
    assert {name: getattr(heed, name) for name in heed.__all__}.keys() == {*heed.__all__}
    assert not hasattr(heed, "nonsense")


def test_a_translation_imports_nothing_that_it_does_not_use(run: Path) -> None:
    """torch._dynamo takes a second, as much as torch itself."""
    code = "import sys, heed; heed.load(sys.argv[1]).translate('the dog sleeps .'); print('\\n'.join(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code, run], capture_output=True, check=True, text=True)
    slow = "lightning datasets wandb matplotlib sacrebleu pandas hydra omegaconf pyarrow torch._dynamo sympy PIL"
    loaded = set(answer.stdout.splitlines())
    assert "torch" in loaded
    assert not loaded & set(slow.split())


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"heed {heed.__version__}\n"


@pytest.mark.full
def test_text_is_utf8_whatever_the_locale(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    command = [sys.executable, "-m", "heed", "attend", "--model", run, "--beam", "1", "--out", page, "größer"]
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run(command, env=environment, check=True)
    assert "größer" in page.read_text(encoding="utf-8")
    command = [sys.executable, "-m", "heed", "translate", "--model", run, "--beam", "1"]
    answer = subprocess.run(command, input="größer\n".encode(), env=environment, capture_output=True, check=True)
    assert "größer" not in answer.stderr.decode()
    answer = program("attend", "--model", run, "--out", page, os.fsdecode(b"caf\xe9"))
    assert answer.returncode == 2
    assert b"is not UTF-8" in answer.stderr
    assert b"Traceback" not in answer.stderr


def test_input_that_is_not_utf8_is_one_sentence(run: Path) -> None:
    answer = program("translate", "--model", run, "--engine", "heed", stdin=b"a dog\ncaf\xe9\n")
    assert answer.returncode == 2
    assert answer.stderr.decode().startswith("heed: Line 2 of the input is not UTF-8")
    assert len(answer.stderr.splitlines()) == 1


def test_a_closed_pipe_is_no_error(run: Path) -> None:
    heed = f"{forkserver.python()} -m heed translate {run} --engine heed --beam 1"
    answer = shell(f"yes '{LINES[0]}' | {heed} | head -n 2; echo ${{PIPESTATUS[1]}}")
    assert answer.stderr == ""
    assert answer.stdout.splitlines()[2:] == ["0"]


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("synthesize --model {run} --src {folder}/a --reverse-model {run} --tgt {folder}/a --out {folder}/out", 3),
        ("align {run} --src {folder}/a --tgt {folder}/a --npz {folder}/out/maps.npz", 1),
        ("align {run} --src {folder}/a --tgt {folder}/a", 0),
    ],
)
def test_all_files_are_written_after_the_pipe_was_closed(
    command: str, files: int, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "a").write_text("\n".join([LINES[0]] * 2) + "\n")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(command.format(run=run, folder=tmp_path).split()) == 0
    assert len(list((tmp_path / "out").iterdir())) == files


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        ("echo a dog | {heed} > /dev/full", 2, "Standard output could not be written (No space left on device)"),
        ("echo a dog | {heed} >&-", 2, "Standard output is closed"),
        ("{heed} <&-", 2, "Standard input is closed"),
        ("echo a dog | {heed} 2>&- >/dev/null", 0, ""),
    ],
)
def test_streams_that_cannot_be_used_are_one_sentence(run: Path, command: str, status: int, message: str) -> None:
    heed = f"{forkserver.python()} -m heed translate {run} --engine heed --beam 1"
    answer = shell(command.format(heed=heed))
    assert (answer.returncode, len(answer.stderr.splitlines())) == (status, 1 if message else 0), answer.stderr
    assert answer.stderr.startswith(f"heed: {message}" if message else "")


def test_the_challenge_set_of_a_model_folder_is_that_of_its_run(
    finished: FinishedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(finished.folder / "model")
    name, contrasts = choose_contrasts(Namespace(model=Path(), challenge=None))
    assert name == "the built-in challenge set"
    assert contrasts


def test_a_deleted_working_directory_is_one_sentence(tmp_path: Path) -> None:
    answer = shell(f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir ../gone && {sys.executable} -m heed runs")
    assert answer.returncode == 2
    assert answer.stderr.startswith("heed: The working directory does not exist any more")
    assert answer.stderr.count("\n") == 1


def test_typed_lines_are_translated_one_by_one_and_ctrl_c_exits(run: Path) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "heed", "translate", "--model", str(run), "--engine", "heed"]
    with forkserver.Popen(command, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
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


@pytest.mark.parametrize("options", [[], ["--json"], ["--split-sentences"]], ids=["text", "JSON", "sentences"])
def test_a_program_gets_the_answer_to_each_line_that_it_sends(run: Path, tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in LINES))
    command = [sys.executable, "-m", "heed", "translate", str(run), "--engine", "heed", "--beam", "1", *options]
    expected = program(*command[3:], "--input", tmp_path / "text").stdout.splitlines(keepends=True)
    with forkserver.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        send, answers = process.stdin.write, process.stdout

        def answer() -> bytes:
            assert select.select([answers], [], [], 60)[0], "no answer before the next line"
            return answers.readline()

        def texts(lines: list[bytes]) -> list[object]:
            """Return the lines without scores, whose last digits depend on the batch."""
            if "--json" not in options:
                return [*lines]
            return [json.loads(line)["translations"][0]["text"] for line in lines]

        found = []
        for line in LINES:
            send(f"{line}\n".encode())
            found.append(answer())
        assert texts(found) == texts(expected)
        send(LINES[0].encode() + b"\nhalf of ")
        assert texts([answer()]) == texts(expected[:1])
        send(b"a line\n" + f"{LINES[0]}\n".encode() * 20)
        process.stdin.close()
        rest = answers.readlines()
        assert texts(rest[1:]) == texts(expected[:1] * 20)
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FileNotFoundError(2, "No such file or directory", "some/file"), "some/file: No such file or directory."),
        (MemoryError(), "Out of memory: use a smaller --batch-tokens"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "Out of memory"),
        (RuntimeError("a bug"), None),
    ],
)
def test_machine_errors_are_one_sentence_and_bugs_are_raised(
    error: Exception, message: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("heed.runs.table.read_runs", fail)
    if message is None:
        with pytest.raises(RuntimeError, match="a bug"):
            main(["runs"])
        return
    assert main(["runs"]) == 2
    assert capsys.readouterr().err.startswith(f"heed: {message}")
