"""``heed export --to ctranslate2``."""

from pathlib import Path
from typing import Any

from heed.errors import HeedError
from heed.export import ctranslate2_model, require
from heed.export.ctranslate2_engine import CTranslate2Engine
from heed.export.description import write_description
from heed.export.parity import CheckSet, Report, compare_engines, require_equal
from heed.files import replacing
from heed.inference.translator import Translator


def export(translator: Translator, out: Path, check: CheckSet, *, quantization: str | None) -> Report:
    """Write a folder for `CTranslate2Engine`, which also CTranslate2 alone can load.

    Args:
        out: the new folder.
        quantization: see `heed.export.ctranslate2_model.save`. Without it the check must succeed.

    Raises:
        HeedError: CTranslate2 is not installed or cannot compute the model, or the check fails. Nothing is written.
    """
    require("ctranslate2")
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as folder:
        folder.mkdir()
        return write(translator, folder, check, quantization=quantization)


def write(translator: Translator, folder: Path, check: CheckSet, *, quantization: str | None = None) -> Report:
    """Write the files of `export` into an existing folder and check them."""
    facts = convert(translator, folder, quantization=quantization)
    report = compare_engines(translator, CTranslate2Engine(folder), check)
    if quantization is None:
        require_equal(report)
    write_description(folder, "ctranslate2", translator, **facts, check=report.plain())
    return report


def convert(translator: Translator, folder: Path, *, quantization: str | None = None) -> dict[str, Any]:
    """Write the files of `export` into an existing folder without a check; return further content of ``heed.json``."""
    model = ctranslate2_model.check_supported(translator.model)
    tokenizer = translator.tokenizer
    src_pieces = tokenizer.src_pieces(range(tokenizer.src_vocab))
    tgt_pieces = tokenizer.tgt_pieces(range(tokenizer.tgt_vocab))
    try:
        ctranslate2_model.save(folder, model, src_pieces, tgt_pieces, quantization=quantization)
    except ValueError as error:
        raise HeedError(f"CTranslate2 could not convert the model: {error}") from error
    tokenizer.save(folder)
    facts = {"quantization": quantization, "positions": model.max_target_length}
    write_description(folder, "ctranslate2", translator, **facts)
    return facts
