"""The course: what its pages say of the code is so, their arithmetic is right, and their figures can be drawn again."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from docs.course_figures import ES, FIGURES, SIE, TIRED, WIDE, Models, draw
from docs.pages import ROOT
from experiments.claims import CLAIMS

import heed
from heed.inference import model_folder
from heed.models.seq2seq import Seq2Seq
from heed_exercises import EXERCISES
from tests.tokenizers import train_tokenizer

COURSE = ROOT / "docs" / "course"
SESSIONS = sorted(COURSE.glob("[0-9]-*.md"))
TEXT = {page: page.read_text(encoding="utf-8") for page in (COURSE / "index.md", *SESSIONS)}
PAGES = pytest.mark.parametrize("page", SESSIONS, ids=lambda page: page.stem)


def defined(file: Path) -> set[str]:
    """Return the names of the functions, methods and classes of a file."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@PAGES
def test_the_code_of_a_session_exists(page: Path) -> None:
    found = re.findall(r"`([\w/]+\.py)`: `(\w+)`", TEXT[page])
    assert found
    for file, name in found:
        assert name in defined(ROOT / "src" / "heed" / file), (file, name)


@PAGES
def test_questions_are_those_of_the_marking_scheme_and_worth_ten_points(page: Path) -> None:
    questions = re.findall(r"^\*\*(\d)\.\*\* \((\d) points\)", TEXT[page], re.MULTILINE)
    scheme = re.findall(r"^\| (\d) \| (\d) \|", TEXT[page].partition("## Marking scheme")[2], re.MULTILINE)
    assert questions == scheme
    assert sum(int(points) for _, points in questions) == 10
    assert TEXT[page].count("<summary>Answer</summary>") == len(questions)


def test_the_points_of_the_project_are_one_hundred() -> None:
    project = (ROOT / "docs" / "assignment.md").read_text(encoding="utf-8").partition("## Marking scheme")[2]
    assert sum(map(int, re.findall(r"^\| (\d+) \|", project, re.MULTILINE))) == 100


@PAGES
def test_a_session_shows_the_reference_of_the_claims_that_it_measures(page: Path) -> None:
    run = set(" ".join(re.findall(r"^python scripts/experiments (.+)$", TEXT[page], re.MULTILINE)).split())
    assert run
    assert run <= {claim.name for claim in CLAIMS}
    assert run == set(" ".join(re.findall(r"<!-- reference: (.+?) -->", TEXT[page])).split())


def test_every_exercise_belongs_to_a_session() -> None:
    lines = re.findall(r"^\[Exercises\]\(.*$", "\n".join(TEXT.values()), re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", "".join(lines))) == sorted(EXERCISES)


@PAGES
def test_the_python_of_a_session_runs(page: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```$", TEXT[page], re.DOTALL | re.MULTILINE):
        names: dict[str, object] = {}
        exec(compile(block, page.name, "exec"), names)
        np.testing.assert_allclose(np.asarray(names["weights"])[2], [1 / 3] * 3)


def test_the_figures_are_those_of_the_pages() -> None:
    shown = [name for page in SESSIONS for name in re.findall(r"\]\((\w+)\.svg\)", TEXT[page])]
    assert sorted(shown) == sorted(FIGURES)
    assert {file.stem for file in COURSE.glob("*.svg")} == set(FIGURES)


def shape(svg: Path) -> tuple[str, list[float]]:
    """Return the text of a drawing without numbers, and its numbers, in points: processors round differently."""
    number = r"(?<![\w#])-?\d+(?:\.\d+)?"
    text = svg.read_text(encoding="utf-8")
    return re.sub(number, "0", text), [float(found) for found in re.findall(number, text)]


@pytest.mark.full
def test_the_figures_can_be_drawn_again(tmp_path: Path, tiny_model: Callable[..., Seq2Seq]) -> None:
    tokenizer = train_tokenizer([TIRED, WIDE, ES, SIE], vocab_size=60)
    models = {}
    for name in ("rnn", "transformer"):
        model = tiny_model(name, src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
        languages = {"src_lang": "en", "tgt_lang": "de"}
        model_folder.save(tmp_path / name / "model", model, tokenizer, extra=languages)
        models[name] = heed.load(tmp_path / name)
    draw(Models(**models), tmp_path / "figures")
    again = tmp_path / "figures"
    assert {file.stem for file in again.iterdir()} == set(FIGURES)
    for name in ("path_length", "score_functions", "saturation", "masks", "cost"):  # without a model: the same drawing
        (text, numbers), (same_text, same_numbers) = (shape(folder / f"{name}.svg") for folder in (again, COURSE))
        assert text == same_text, name
        assert numbers == pytest.approx(same_numbers, abs=0.01), name
