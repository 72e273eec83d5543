"""The table of docs/python.md: which constraint works with which search, engine and model; every cell is tried."""

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import heed
from heed.decoding import BeamSearch, GreedySearch, SampleSearch
from heed.decoding.search import Search
from heed.errors import HeedError
from heed.exchange import parity, to_ctranslate2, to_huggingface
from heed.inference.mbr import MBRSearch
from heed.inference.translator import Translator
from tests.conftest import RNN
from tests.exchange.models import LINES, transformer, write_run

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs" / "python.md"
CONSTRAINTS: dict[str, dict[str, Any]] = {
    "prefix": {"prefix": "the f"}, "terms": {"terms": {"dog": "house"}}, "n-grams": {},
}  # fmt: skip
FAMILIES = ("transformer", "RNN", "ensemble")
EXPORTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "CTranslate2": (to_ctranslate2.export, to_ctranslate2.CTranslate2Engine),
    "Hugging Face": (to_huggingface.export, to_huggingface.HuggingFaceEngine),
}


def read_table() -> dict[tuple[str, str, str], set[str]]:
    """Return the constraints that work by engine, family and search."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in re.search(r"\| engine \| model \|.*?\n\n", DOCS.read_text(encoding="utf-8"), re.DOTALL)[
            0
        ].splitlines()  # type: ignore[index]
        if line
    ]
    return {
        (engine, family, search): set(filter(None, works.split(", ")))
        for engine, families, *cells in rows[2:]
        for family in families.split(", ")
        for search, works in zip(rows[0][2:], cells, strict=True)
    }


def build(kind: str, **limits: Any) -> Search:
    limits = {"max_length_factor": 1.0, "max_length_extra": 6, **limits}
    sampling = {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 1}
    searches: dict[str, Callable[[], Search]] = {
        "greedy": lambda: GreedySearch(**limits),
        "beam": lambda: BeamSearch(beam=4, length_penalty=0.6, n_best=1, **limits),
        "sample": lambda: SampleSearch(**sampling, n_best=1, **limits),
        "mbr": lambda: MBRSearch(beam=2, samples=3, utility="chrf", length_penalty=0.6, n_best=1, **sampling, **limits),
    }
    return searches[kind]()


def refusal(function: Callable[..., Any], *args: Any, **options: Any) -> str:
    """Call a function; return the sentence with which it refuses, or ""."""
    try:
        function(*args, **options)
    except HeedError as error:
        return str(error)
    return ""


def check_works(translator: Translator, constraint: str) -> None:
    if constraint == "n-grams":
        tokens = [n_best[0].tokens for n_best in translator.translate_ids(translator.encode(LINES))]
        assert all(len({*pairwise(ids)}) == max(0, len(ids) - 1) for ids in tokens)
        return
    for line, text in zip(LINES, translator.translate(LINES, **CONSTRAINTS[constraint]), strict=True):
        assert text.startswith("the f") if constraint == "prefix" else "dog" not in line or "house" in text.split()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """The runs of the model of each family."""
    root = tmp_path_factory.mktemp("table")
    one, rnn = write_run(root / "transformer", transformer()), write_run(root / "rnn", RNN)
    return {"transformer": [one], "RNN": [rnn], "ensemble": [one, rnn]}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("engine", ["heed", *EXPORTS])
def test_each_cell_is_true(engine: str, family: str, runs: dict[str, list[Path]], tmp_path: Path) -> None:
    table, loaded = read_table(), heed.load(*runs[family], device="cpu")
    assert {each[2] for each in table} == {"greedy", "beam", "sample", "mbr"}
    assert len(table) == (1 + len(EXPORTS)) * len(FAMILIES) * 4
    exported = None
    if engine in EXPORTS:
        export, load = EXPORTS[engine]
        pytest.importorskip(export.__module__.split("_")[-1].replace("huggingface", "transformers"))
        refused = refusal(export, loaded, tmp_path / "out", parity.check_set("lines", LINES), quantization=None)
        assert bool(refused) == (family != "transformer")
        assert refused.endswith("and no ensembles: export a transformer." if refused else "")
        exported = None if refused else load(tmp_path / "out")
    for kind in ("greedy", "beam", "sample", "mbr"):
        found = set()
        for constraint in CONSTRAINTS if exported or engine == "heed" else ():
            search = build(kind, no_repeat_ngram_size=2 * (constraint == "n-grams"))
            translator = Translator(loaded.model, loaded.tokenizer, search)
            translator = translator.with_engine(exported) if exported else translator
            if refused := refusal(check_works, translator, constraint):
                assert re.fullmatch(r"CTranslate2 [^.]+\.( Give [^.]+\.)?|heed runs [^.]+\.", refused)
            else:
                found.add(constraint)
        assert found == table[engine, family, kind], kind


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample", "mbr"])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_without_constraints_these_models_do_none_of_it(
    constraint: str, kind: str, runs: dict[str, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONSTRAINTS, constraint, {})
    loaded = heed.load(*runs["transformer"], device="cpu")
    with pytest.raises(AssertionError):
        check_works(Translator(loaded.model, loaded.tokenizer, build(kind)), constraint)
