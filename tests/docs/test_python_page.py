"""docs/python.md: every code block runs, with models whose weights are random."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import heed
from heed.inference import model_folder
from heed.inference.searches import SearchOptions
from heed.models.seq2seq import Seq2Seq
from tests.launch.test_command import FILES, write_pairs
from tests.tokenizers import train_tokenizer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def names(
    tmp_path: Path,
    tiny_model: Callable[..., Seq2Seq],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> dict[str, Any]:
    """The variables after all blocks have run, in order, in a folder with two runs; ``printed`` is their output."""
    tokenizer = train_tokenizer(re.findall(r'"(.+?\.)"', PAGE), vocab_size=330, byte_fallback=True)
    torch.manual_seed(3)
    for name in ("mine", "other"):
        model = tiny_model("transformer", src_vocab=tokenizer.src_vocab, tgt_vocab=tokenizer.tgt_vocab).float()
        languages = {"src_lang": "en", "tgt_lang": "de"}
        model_folder.save(tmp_path / "runs" / name / "model", model, tokenizer, extra=languages)
    (tmp_path / "input.txt").write_text("The dog runs.\nThe king left.\n", encoding="utf-8")
    (tmp_path / "terms.tsv").write_text("dog\tKöter\ngarden\tPark|Parks\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path)
    for language, lines in (("en", tmp_path / "a.xx"), ("de", tmp_path / "a.yy")):
        text = lines.read_text(encoding="utf-8")
        (tmp_path / f"train.{language}").write_text(text, encoding="utf-8")
        (tmp_path / f"valid.{language}").write_text(text.upper(), encoding="utf-8")
    small = [word for word in FILES if not word.startswith(("model.", "trainer.max_steps"))]
    steps, train = {"trainer.max_steps": 2}, heed.train
    monkeypatch.setattr(heed, "train", lambda **options: train(*small, "model.d_model=16", **{**options, **steps}))
    variables: dict[str, Any] = {}
    for number, block in enumerate(BLOCKS, start=1):
        exec(compile(block, f"block {number} of python.md", "exec"), variables)
    return {**variables, "printed": capsys.readouterr().out}


def test_every_block_runs(names: dict[str, Any]) -> None:
    assert len(BLOCKS) >= 11
    assert names["found"].comparison.match.endswith("; matched: parameters.")
    assert len(names["links"]) == 2
    assert names["best"].alignment is not None
    assert names["pair"].cross.shape[2:] == (len(names["pair"].tgt_pieces), len(names["pair"].src_pieces))
    assert "train.en and train.de" in names["printed"]
    assert "top_k applies to sampling only: add sample=True or mbr=True." in names["printed"]


def test_the_page_names_every_method_option_and_field() -> None:
    methods = {"translate", "hypotheses", "stream_hypotheses", "score", "attend", "stream_attend", "align", "evaluate"}
    methods |= {
        "directions",
        "in_direction",
        "likelihood",
        "next_words",
        "score_words",
        "with_edits",
        "with_tag",
        "without_fallbacks",
    }
    of_other_packages = {
        "model",
        "changed_search",
        "mask",
        "encode",
        "encode_pairs",
        "translate_ids",
        "score_ids",
        "with_engine",
        "with_own_engine",
    }
    assert {name for name in vars(heed.Translator) if not name.startswith("_")} == methods | of_other_packages
    for name in methods:
        assert re.search(rf"model\.{name}\(|`{name}`", PAGE), name
    for option in SearchOptions.__annotations__:
        assert f"{option}=" in PAGE, option
    for field in heed.Translation.__dataclass_fields__:
        assert f"| `{field}` |" in PAGE, field
