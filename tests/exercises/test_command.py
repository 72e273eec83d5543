"""``heed-exercise``: from the skeleton to a file that passes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heed_exercises import EXERCISES
from heed_exercises.__main__ import main

Exercise = Callable[..., tuple[int, str, str]]
"""Runs ``heed-exercise`` in this process: exit status, standard output and standard error."""


@pytest.fixture
def exercise(capsys: pytest.CaptureFixture[str]) -> Exercise:
    def run(*arguments: Any) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        return (status, *capsys.readouterr())

    return run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> Path:
    path = Path("exercises", f"{name}.py")
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def solution(name: str) -> str:
    return EXERCISES[name].read("solution.py")


def test_from_the_gap_to_the_solution(exercise: Exercise) -> None:
    path = Path("exercises/attend.py")
    assert exercise("check", "attend") == (
        2, "", f"heed-exercise: {path} does not exist: run `heed-exercise start attend`.\n"
    )  # fmt: skip
    status, output, _ = exercise("start", "attend")
    assert (status, output) == (0, f"{path}: write the body, then run `heed-exercise check attend`.\n")
    assert exercise("check", "attend") == (
        1, f"attend: gap open. Write the body of attend in {path}.\n", ""
    )  # fmt: skip
    path.write_text(path.read_text(encoding="utf-8").replace("raise NotImplementedError", "return query, key"), "utf-8")
    status, output, _ = exercise("check", "attend", "--hint")
    assert status == 1
    assert output.startswith("attend: failed. the shape of context must be ")
    assert "Hint: Three lines" in output
    assert exercise("start", "attend")[::2] == (
        2, f"heed-exercise: {path} exists and was not changed: rename or delete it to start again.\n"
    )  # fmt: skip
    status, output, _ = exercise("solution", "attend")
    path.write_text(output, encoding="utf-8")
    status, output, _ = exercise("check", "attend")
    assert status == 0
    assert output.startswith("attend: passed. Checked: values and gradients of context and weights, without padding,")


def test_all_skeletons_have_an_open_gap(exercise: Exercise) -> None:
    write("attend", solution("attend"))
    status, output, _ = exercise("start")
    assert status == 0
    assert output.splitlines()[-1] == f"1 of {len(EXERCISES)} files were in exercises already and are unchanged."
    status, output, error = exercise("check", "--json")
    states = {each["exercise"]: each["state"] for each in json.loads(output)}
    assert (status, error) == (1, "")
    assert states == {name: "passed" if name == "attend" else "gap open" for name in EXERCISES}


def test_list_and_check_all(exercise: Exercise) -> None:
    write("lstm_cell", solution("lstm_cell"))
    write("attend", solution("attend").replace("** 0.5", ""))
    status, output, _ = exercise("list")
    assert status == 0
    lines = output.splitlines()
    assert [line.split()[0] for line in lines] == ["exercise", *EXERCISES]
    assert {" ".join(line.split()) for line in lines} >= {
        "attend failed Scaled dot-product attention Vaswani et al. 2017, eq. 1",
        "lstm_cell passed LSTM cell Hochreiter & Schmidhuber 1997; Gers et al. 2000",
        "luong_general not started General score Luong et al. 2015, §3.1",
    }
    assert exercise("list", "lstm_cell")[1].splitlines() == [
        "exercise   state   what it teaches  source",
        "lstm_cell  passed  LSTM cell        Hochreiter & Schmidhuber 1997; Gers et al. 2000",
    ]
    status, output, _ = exercise("check", "--seed", 3)
    assert status == 1
    *table, why = output.splitlines()
    assert [line.split()[:2] for line in table] == [
        ["exercise", "state"],
        ["attend", "failed"],
        ["lstm_cell", "passed"],
    ]
    assert why.startswith("attend: failed. context[0, 0, 0] must be ")
    assert why.endswith("(seed 3). The scores are divided by E instead of √E. Their variance is 1/E instead of 1: "
                        "the weights are too even.")  # fmt: skip
    Path("exercises/attend.py").unlink()
    assert exercise("check")[0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def merge_heads(x):\n    y = x.transpose(1, 2)\n    return y.view(\n        3, -1, 0)\n",
         "{path}, line 3: return y.view(\nRuntimeError: "),
        ("def merge_heads(x):\n    retrun x\n", "{path}, line 2: retrun x\nSyntaxError: invalid syntax"),
        ("import nowhere_to_be_found\n",
         "{path}, line 1: import nowhere_to_be_found\nModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("def merge(x):\n    return x\n", "{path} has no function merge_heads."),
        ("def merge_heads():\n    return 0\n", "TypeError: merge_heads() takes 0 positional arguments but 1 was given"),
        ("def merge_heads(x):\n    raise SystemExit(0)\n", "{path}, line 2: raise SystemExit(0)\nSystemExit: 0"),
        ("def merge_heads(x):\n    raise NotImplementedError('as torch does')\n",
         "{path}, line 2: raise NotImplementedError('as torch does')\nNotImplementedError: as torch does"),
        ("def merge_heads(x):\n    print('ß')\n", "vectors must be a tensor, not NoneType, "),
    ],
)  # fmt: skip
def test_an_exception_is_one_line_of_the_students_file(exercise: Exercise, text: str, message: str) -> None:
    path = write("merge_heads", text)
    status, output, error = exercise("check", "merge_heads")
    assert status == 1
    assert output.startswith(f"merge_heads: failed. {message.format(path=path)}")
    assert len(output.splitlines()) <= 2
    assert error == ("ß\n" if "print" in text else "")


def test_another_folder(exercise: Exercise) -> None:
    status, output, _ = exercise("start", "beam_step", "--dir", "zwölf exercises")
    path = Path("zwölf exercises/beam_step.py")
    command = "heed-exercise check beam_step --dir 'zwölf exercises'"
    assert (status, output) == (0, f"{path}: write the body, then run `{command}`.\n")
    advice = (
        f"{Path('zwölf exercises/attend.py')} does not exist: run `heed-exercise start attend --dir 'zwölf exercises'`."
    )
    assert exercise("check", "attend", "--dir", "zwölf exercises") == (2, "", f"heed-exercise: {advice}\n")
    path.write_bytes(b"\xef\xbb\xbf" + solution("beam_step").replace("\n", "\r\n").encode())  # as an editor on Windows
    status, output, _ = exercise("check", "--dir", "zwölf exercises", "--json")
    assert status == 0
    assert [each["state"] for each in json.loads(output)] == ["passed"]
    assert not list(path.parent.glob("__pycache__"))


def test_a_misspelt_exercise(exercise: Exercise) -> None:
    message = "There is no exercise 'beamstep' (did you mean beam_step?): `heed-exercise list` lists all."
    for action in ("list", "start", "check", "solution"):
        assert exercise(action, "beamstep") == (2, "", f"heed-exercise: {message}\n")
    missing = Path("exercises/luong_general.py")
    message = f"heed-exercise: {missing} does not exist: run `heed-exercise start luong_general`.\n"
    assert exercise("check")[::2] == (2, message)
    assert exercise("mark")[0] == 2
