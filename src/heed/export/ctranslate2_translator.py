"""``--engine ctranslate2``: heed's translator with CTranslate2 for the search."""

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from heed import __version__
from heed.data.cache import build_once
from heed.data.tokenizer import Tokenizer
from heed.decoding import BeamSearch, Hypothesis, Search
from heed.errors import HeedError
from heed.export import ctranslate2_model, to_ctranslate2
from heed.export.ctranslate2_engine import CTranslate2Engine
from heed.export.extra import require
from heed.export.parity import check_sentences
from heed.inference import BATCH_TOKENS, MAX_TOKENS, model_folder
from heed.inference.loading import find_device
from heed.inference.translator import Translator
from heed.models.seq2seq import Seq2Seq
from heed.options import AtLeast1

ADVICE = "Leave out --engine ctranslate2 to translate with heed's own engine."


class CTranslate2Translator(Translator):
    """A `Translator` that searches with CTranslate2.

    Greedy search finds the translations of heed's own engine. Beam search explores by CTranslate2's rules and ranks by
    heed's score, so it may find other translations. Log-probabilities of found translations are normalised without
    <pad> and <s>, which makes them a little larger (some 0.001 nats a token for a trained model). Attention maps,
    alignments and scores of given translations are computed by heed's model.

    Args:
        model, tokenizer, search, options: see `Translator`.
        engine: the export of the same model.

    Raises:
        HeedError: see `Translator`; or if the search is not beam search.
    """

    def __init__(
        self, model: Seq2Seq, tokenizer: Tokenizer, search: Any = None, *, engine: CTranslate2Engine, **options: Any
    ) -> None:
        self.engine = engine
        super().__init__(model, tokenizer, search, **options)

    def translate_ids(
        self, sources: Sequence[Sequence[int]], *, first_line: int = 1, search: Search | None = None
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of CTranslate2's search, see `Translator.translate_ids`."""
        chosen = _check_beam_search(search or self.search)
        results = [[Hypothesis(tokens=[], log_prob=0.0, score=0.0, finished=True)] for _ in sources]
        for batch in self._batches([len(ids) + 1 for ids in sources]):
            if rows := [row for row in batch if sources[row]]:
                lengths = torch.tensor([len(sources[row]) + 1 for row in rows])
                mask = torch.arange(int(lengths.max())) < lengths[:, None]
                found = self.engine.search(
                    [sources[row] for row in rows],
                    beam=chosen.beam,
                    length_penalty=chosen.length_penalty,
                    limits=chosen.limits(self.model, mask),
                )
                for row, hypotheses in zip(rows, found, strict=True):
                    results[row] = hypotheses[: chosen.n_best]
        return results

    def _build_search(self, changes: Mapping[str, Any]) -> Search:
        return _check_beam_search(super()._build_search(changes))


def _check_beam_search(search: Search) -> BeamSearch:
    if not isinstance(search, BeamSearch):
        raise HeedError(f"The engine ctranslate2 has beam search and greedy search only. {ADVICE}")
    return search


def load(
    *paths: str | Path,
    device: str | None = None,
    direction: str | None = None,
    batch_tokens: AtLeast1 = BATCH_TOKENS,
    max_tokens: AtLeast1 | None = MAX_TOKENS,
) -> Translator:
    """Load a trained model for CTranslate2, after exporting it into its folder if it is used for the first time.

    Args:
        paths: a run, a model folder, or a copy of either.
        device: "cpu", "cuda", "cuda:1"; None: cuda if available, otherwise cpu.
        direction, batch_tokens, max_tokens: see `heed.inference.loading.load`.

    Raises:
        HeedError: CTranslate2 is not installed or cannot compute the model, there are several models, or see
            `heed.inference.loading.load`.
    """
    if len(paths) > 1:
        raise HeedError(f"CTranslate2 cannot translate with an ensemble: give one model. {ADVICE}")
    require("ctranslate2")
    found = find_device(device)
    if found.type not in ("cpu", "cuda"):
        raise HeedError(f"CTranslate2 cannot use the device {found}. {ADVICE}")
    path = Path(*paths)
    folder = model_folder.load(path)
    arguments: Any = (folder.model.to(found), folder.tokenizer, folder.config.get("search"))
    options = {
        "alignment": folder.config.get("alignment"),
        "src_lang": folder.config.get("src_lang", ""),
        "tgt_lang": folder.config.get("tgt_lang", ""),
        "directions": folder.config.get("directions", ()),
        "batch_tokens": batch_tokens,
        "max_tokens": max_tokens,
        "packed": True,
    }
    export = cached_export(path, Translator(*arguments, **options), folder.config.get("search"))
    engine = CTranslate2Engine(export, device=str(found), threads=torch.get_num_threads())
    return CTranslate2Translator(*arguments, engine=engine, **options).in_direction(direction)


def cached_export(path: Path, translator: Translator, search: Any) -> Path:
    """Return the folder ``ctranslate2/DIGEST`` in a model folder, after exporting the model to it if it is missing.

    The digest is that of the model's files and of the versions of heed and CTranslate2. The export is checked on the
    run's validation sentences; without them a line on stderr says that it is not checked.

    Args:
        path: the run or model folder.
        translator: heed's translator of the model.
        search: the ``search`` section of the model folder's config.

    Raises:
        HeedError: CTranslate2 cannot compute the model, or the folder cannot be written.
    """
    try:
        ctranslate2_model.check_supported(translator.model)
    except HeedError as error:
        raise HeedError(f"{error} {ADVICE}") from error
    folder = model_folder.find(path)
    cache = folder / "ctranslate2" / _digest(folder)
    if not os.access(cache.parent if cache.parent.exists() else folder, os.W_OK):
        raise HeedError(f"{folder} cannot be written, and the engine ctranslate2 keeps its export there. {ADVICE}")

    def export(partial: Path) -> None:
        print(f"heed: exporting {folder} to CTranslate2, once.", file=sys.stderr)
        partial.mkdir()
        try:
            check = check_sentences(path, None, _read_lines, translator.directions)
        except HeedError:  # a model folder without its run
            print("heed: it is not compared with heed, because the run's validation set is not there.", file=sys.stderr)
            to_ctranslate2.convert(translator, search, partial)
        else:
            to_ctranslate2.write(translator, search, partial, check, quantization=None)

    return build_once(cache, export)


def _digest(folder: Path) -> str:
    """Return the digest of a model folder's files and of the versions of heed and CTranslate2."""
    facts = f"heed {__version__}, ctranslate2 {require('ctranslate2').__version__}, {model_folder.digest(folder)}"
    return hashlib.blake2b(facts.encode(), digest_size=8).hexdigest()


def _read_lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
