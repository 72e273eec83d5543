"""``--engine ctranslate2``: a `Translator` that searches with CTranslate2."""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import torch

from heed import __version__
from heed.data.cache import build_once
from heed.errors import HeedError
from heed.export import require, to_ctranslate2
from heed.export.ctranslate2_engine import ADVICE, CTranslate2Engine
from heed.export.parity import check_sentences
from heed.inference import loading, model_folder
from heed.inference.translator import Translator


def load(*paths: str | Path, device: str | None = None, direction: str | None = None, **options: Any) -> Translator:
    """Load a trained model for CTranslate2, after exporting it into its folder if it is used for the first time.

    Args:
        paths, device, direction, options: see `heed.inference.loading.load`.

    Raises:
        HeedError: CTranslate2 is not installed or cannot compute the model, there are several models, the model's
            search is not beam search, or see `heed.inference.loading.load`.
    """
    if len(paths) > 1:
        raise HeedError(f"CTranslate2 cannot translate with an ensemble: give one model. {ADVICE}")
    require("ctranslate2")
    found = str(loading.find_device(device))
    if not found.startswith(("cpu", "cuda")):
        raise HeedError(f"CTranslate2 cannot use the device {found}. {ADVICE}")
    path = Path(*paths)
    translator = loading.load(path, device=found, **options)
    engine = CTranslate2Engine(cached_export(path, translator), device=found, threads=torch.get_num_threads())
    return translator.with_engine(engine).in_direction(direction)


def cached_export(path: Path, translator: Translator) -> Path:
    """Return the folder ``ctranslate2/DIGEST`` in a model folder, after exporting the model to it if it is missing.

    The digest is that of the model's files and of the versions of heed and CTranslate2. The export is checked on the
    run's validation sentences; without them a line on stderr says that it is not checked.

    Args:
        path: the run or model folder.
        translator: heed's translator of the model.

    Raises:
        HeedError: CTranslate2 cannot compute the model, or the folder cannot be written.
    """
    try:
        to_ctranslate2.check_supported(translator.model)
    except HeedError as error:
        raise HeedError(f"{error} {ADVICE}") from error
    folder = model_folder.find(path)
    facts = f"heed {__version__}, ctranslate2 {require('ctranslate2').__version__}, {model_folder.digest(folder)}"
    cache = folder / "ctranslate2" / hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()
    if not os.access(cache.parent if cache.parent.exists() else folder, os.W_OK):
        raise HeedError(f"{folder} cannot be written, and the engine ctranslate2 keeps its export there. {ADVICE}")

    def export(partial: Path) -> None:
        print(f"heed: exporting {folder} to CTranslate2, once.", file=sys.stderr)
        try:
            check = check_sentences(path, None, _read_lines, translator.directions)
        except HeedError:  # a model folder without its run
            print("heed: it is not compared with heed, because the run's validation set is not there.", file=sys.stderr)
            to_ctranslate2.convert(translator, partial)
        else:
            to_ctranslate2.write(translator, partial, check)

    return build_once(cache, export)


def _read_lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
