"""notebooks/: each one, shortened, runs cell by cell in an empty folder and draws its figures."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests import forkserver

FOLDER = Path(__file__).parents[2] / "notebooks"
FIGURES = {
    "1_attention_from_the_formula": 10,
    "2_rnn_and_transformer": 7,
    "3_your_own_language_pair": 3,
    "4_break_it": 8,
    "5_why_is_my_model_bad": 1,
}
"""The figures that each notebook draws."""
IN_CI = ("1_attention_from_the_formula",)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_CI else pytest.mark.full) for name in FIGURES]
)
def test_all_cells_run_and_draw_their_figures(name: str, tmp_path: Path) -> None:
    command = [sys.executable, Path(__file__).with_name("run_cells.py"), FOLDER / f"{name}.py"]
    environment = {**os.environ, "HEED_NOTEBOOK_QUICK": "1"}
    done = forkserver.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cells = re.findall(r"^cell (\d+) of (\d+): (\d+) figures$", done.stdout, re.MULTILINE)
    assert [int(number) for number, _, _ in cells] == [*range(1, int(cells[0][1]) + 1)]
    assert sum(int(figures) for _, _, figures in cells) == FIGURES[name]


@pytest.mark.parametrize("name", FIGURES)
def test_sections_are_numbered_and_end_with_questions_and_answers(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    title, *sections = re.split(r"^# ## ", text, flags=re.MULTILINE)
    assert re.search(r"^# You learn\n#\n(# - .+\n(#   .+\n)*){3}", title, re.MULTILINE)
    assert [section.partition(".")[0] for section in sections] == [str(n) for n in range(1, len(sections) + 1)]
    for section in sections:
        assert "# **Question" in section, section[:40]
        assert section.count("<details>") == section.count("</details>") == section.count("# **Question")


def test_every_notebook_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {*FIGURES}
