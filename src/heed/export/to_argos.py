"""``heed export --to argos``: packages of Argos Translate, for LibreTranslate."""

import json
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from heed.errors import HeedError
from heed.export import to_ctranslate2
from heed.export.parity import CheckSet, ParityReport
from heed.inference.translator import Translator
from heed.languages import base_language, language_name

PACKAGE_VERSION = "100.0"
"""The version of packages. It is higher than any in the index of Argos Translate, so that LibreTranslate does not
replace an installed package by one from the index."""

ARGOS_VERSION = "1.0"
"""Lowest version of Argos Translate that packages need."""


def package_name(translator: Translator) -> str:
    """Return the folder that Argos Translate expects in a package; raise a HeedError if a language is unknown."""
    if not (translator.src_lang and translator.tgt_lang):
        raise HeedError(
            "An Argos package needs the codes of both languages, and this model does not know them: train with "
            "data.src_lang and data.tgt_lang, or write them into the config.yaml of the model folder."
        )
    languages = f"{base_language(translator.src_lang)}_{base_language(translator.tgt_lang)}"
    return f"translate-{languages}-{PACKAGE_VERSION.replace('.', '_')}"


def export(translator: Translator, out: Path, check: CheckSet, *, quantization: str | None) -> ParityReport:
    """Write an ``.argosmodel`` file with a model of `to_ctranslate2.export`.

    Raises:
        HeedError: if an Argos package cannot hold the model, or the check fails.
    """
    if translator.tokenizer.tags:
        raise HeedError(
            "Argos Translate cannot write the language tag that this model of several target languages reads: train "
            "one model per direction, or use `--to ctranslate2`."
        )
    if not translator.tokenizer.joint:
        raise HeedError(
            "An Argos package has one SentencePiece model for both languages, and this model has two: train with "
            "tokenizer.joint=true, or use `--to ctranslate2`."
        )
    metadata = {
        "package_version": PACKAGE_VERSION,
        "argos_version": ARGOS_VERSION,
        "from_code": base_language(translator.src_lang),
        "from_name": language_name(translator.src_lang),
        "to_code": base_language(translator.tgt_lang),
        "to_name": language_name(translator.tgt_lang),
        "type": "translate",
    }
    # The folder is named after the temporary file ``out``, so that `replacing` removes it after a kill.
    with TemporaryDirectory(dir=out.parent, prefix=f"{out.stem}.", suffix=".partial") as folder:
        package = Path(folder) / package_name(translator)
        model = package / "model"
        package.mkdir()
        report = to_ctranslate2.export(translator, model, check, quantization=quantization)
        (model / "tokenizer.model").rename(package / "sentencepiece.model")
        (package / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
        readme = [
            f"# {translator.src_lang} to {translator.tgt_lang}\n",
            "Trained with heed (https://github.com/heed-nmt/heed). Check of the CTranslate2 model at export:\n",
            *(f"- {line.replace('×', 'x')}" for line in report.lines()),
        ]
        (package / "README.md").write_text("\n".join(readme) + "\n", encoding="utf-8")
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(Path(folder).rglob("*")):
                archive.write(path, path.relative_to(folder))
    return report
