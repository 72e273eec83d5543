"""README.md and docs/: generated parts are current, links exist, and what the pages say of the code is so."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs.pages import MARKED, ROOT, files, generate, pages

from heed.runs.results import RESULT_FIELDS, SCORE_FIELDS
from heed.training.callbacks.metrics import metrics_fields

PAGES = pages()
DOCS = ROOT / "docs"
CODE = re.compile(r"^```.*?^```$|`[^`]*`|\]\([^)]*\)|<!--.*?-->", re.DOTALL | re.MULTILINE)
"""What is no prose: code, the targets of links, and comments."""
MEASUREMENT = re.compile(r"\b\d+\.\d+\b|\b\d[\d,]* (?:BLEU|%|tokens/s|sentences/s|ms|minutes)\b", re.MULTILINE)
NO_MEASUREMENT = re.compile(r"Python 3\.11|Apache-2\.0|50 %|Apache License 2\.0")
"""A version, a licence, and the accuracy of chance."""
RENEW = "{} is out of date: run `python scripts/docs` and commit what it writes."


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_generated_parts_are_current(page: Path) -> None:
    assert generate(page) == page.read_text(encoding="utf-8"), RENEW.format(page_name(page))


def test_generated_files_are_current() -> None:
    texts = {file: text for file, text in files().items() if file not in PAGES}
    old = [page_name(file) for file, text in texts.items() if file.read_text(encoding="utf-8") != text]
    assert old == [], RENEW.format(", ".join(old))
    assert {*DOCS.glob("figures/*")} <= {*texts}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_a_value_never_starts_a_line(page: Path) -> None:
    """A comment at the start of a line would make the whole line HTML."""
    assert not re.search(r"^ *<!-- value:", page.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in ("options", "coming-from")], ids=page_name)
def test_measurements_come_from_the_results(page: Path) -> None:
    prose = CODE.sub("", MARKED.sub("", page.read_text(encoding="utf-8")))
    assert not MEASUREMENT.findall(NO_MEASUREMENT.sub("", prose))


def test_the_home_page_names_every_page_and_so_does_the_navigation() -> None:
    home = (DOCS / "index.md").read_text(encoding="utf-8").partition("## All pages")[2]
    names = {page.relative_to(DOCS).as_posix() for page in DOCS.glob("**/*.md")} - {"index.md"}
    assert set(re.findall(r"\]\(([^)#]+)\)", home)) == names
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    assert {*re.findall(r": ([\w/-]+\.md)$", navigation, re.MULTILINE)} == {*names, "index.md"}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 155


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_linked_files_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
        elif "/blob/main/" in target:
            assert (ROOT / target.partition("/blob/main/")[2]).exists(), target


@pytest.mark.full
def test_the_site_builds_without_warnings_and_loads_nothing_from_other_servers(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    html = "".join(page.read_text(encoding="utf-8") for page in tmp_path.glob("**/*.html"))
    assert "heed train" in html
    assert not re.findall(r'<(?:script|img|iframe)[^>]+src="?(?:https?:)?//[^>]*', html)
    assert not re.findall(r'<link rel="?(?!canonical)[^>]+href="?(?:https?:)?//[^>]*', html)
    assert "data-md-component=source" not in html  # it asks GitHub for the number of stars


def test_the_results_page_has_every_field() -> None:
    text = (DOCS / "run-folder.md").read_text(encoding="utf-8")
    section = text.partition("## results.json")[2].partition("## Studies")[0]
    documented = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE))))
    assert {*RESULT_FIELDS, *SCORE_FIELDS} <= documented


def test_the_metrics_page_has_every_column() -> None:
    text = (DOCS / "run-folder.md").read_text(encoding="utf-8")
    section = text.partition("## metrics.csv")[2].partition("## results.json")[0]
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (.*?) \|", section, re.MULTILINE)))) == {
        *metrics_fields([])
    }


def test_the_architecture_page_has_every_package_and_existing_files() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    packages = {init.parent.name for init in (ROOT / "src" / "heed").glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == packages
    for file in re.findall(r"`([\w/]+\.py)`", text):
        assert (ROOT / "src" / "heed" / file).exists(), file


def test_the_messages_of_the_page_about_errors_are_in_the_code() -> None:
    """A message matches a string of the code whose placeholders may stand for anything."""
    code = [_with_placeholders(node) for file in (ROOT / "src").glob("**/*.py") for node in _strings(file)]
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    messages = re.findall(r"^> (.+)$", text, re.MULTILINE)
    assert len(messages) > 20
    for message in messages:
        fragments = [fragment.strip() for fragment in message.split("…") if len(fragment.strip()) > 3]
        pattern = re.compile(".*".join(map(re.escape, fragments)), re.DOTALL)
        assert any(pattern.search(string) for string in code), message


def _strings(file: Path) -> list[ast.expr]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr | ast.Constant)]


def _with_placeholders(node: ast.expr) -> str:
    """Return the text of a string or an f-string; a placeholder is the text of the strings inside it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(_with_placeholders(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
