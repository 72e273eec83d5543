"""docs/python.md: every code block runs, against a trained model."""

import re
from pathlib import Path
from typing import Any

import pytest

import heed
from heed.inference.searches import SearchOptions

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
MODEL = ROOT / "tests" / "fixtures" / "format_1" / "transformer"


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The variables after all blocks have run, in order, in a folder with two runs; ``printed`` is their output."""
    (tmp_path / "runs").mkdir()
    for name in ("mine", "other"):
        (tmp_path / "runs" / name).symlink_to(MODEL)
    (tmp_path / "input.txt").write_text("The dog runs.\nThe king left.\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    variables: dict[str, Any] = {}
    for number, block in enumerate(BLOCKS, start=1):
        exec(compile(block, f"block {number} of python.md", "exec"), variables)
    return {**variables, "printed": capsys.readouterr().out}


def test_every_block_runs(names: dict[str, Any]) -> None:
    assert len(BLOCKS) >= 9
    assert len(names["links"]) == len(names["best"]) == 2
    assert names["pair"].cross.shape[2:] == (len(names["pair"].tgt_pieces), len(names["pair"].src_pieces))
    assert "top_k applies to sampling only: add sample=True or mbr=True." in names["printed"]


def test_the_page_names_every_method_option_and_field() -> None:
    methods = {"translate", "stream", "score", "attend", "stream_attend", "align", "evaluate"}
    methods |= {"directions", "in_direction"}
    of_other_packages = {"translate_ids", "score_ids", "with_engine"}
    assert {name for name in vars(heed.Translator) if not name.startswith("_")} == methods | of_other_packages
    for name in methods:
        assert re.search(rf"model\.{name}\(|`{name}`", PAGE), name
    for option in SearchOptions.__annotations__:
        assert f"{option}=" in PAGE, option
    for field in heed.Translation.__dataclass_fields__:
        assert f"| `{field}` |" in PAGE, field
