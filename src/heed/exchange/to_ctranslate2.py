"""``heed export --to ctranslate2`` and ``--engine ctranslate2``: https://github.com/OpenNMT/CTranslate2."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from heed import __version__
from heed.cache import build_once, cache_home, cache_key
from heed.data.pairs.tokenizer import Tokenizer
from heed.decoding import BeamSearch, GreedySearch, Hypothesis, NBest, Search
from heed.decoding.search import Constraints
from heed.errors import HeedError
from heed.exchange import ctranslate2_model, require
from heed.exchange.parity import CheckSet, ExportedEngine, ParityReport, compare_engines, random_set, validation_set
from heed.inference import loading, model_folder
from heed.inference.searches import build_search
from heed.inference.translator import Translator
from heed.models.seq2seq import Seq2Seq
from heed.options import find_wrong_values
from heed.symbols import BOS_PIECE, EOS_PIECE, PAD_PIECE

REVISION = 3
"""Of what an export contains: exports of another one are made again."""


class CTranslate2Engine(ExportedEngine):
    """CTranslate2 with the tokenizer and the length limits of the exported model.

    Greedy search finds the same hypotheses as heed's own engine. Beam search follows CTranslate2's rules and ranks the
    results by heed's score, so it may find other hypotheses. Log-probabilities are normalised without <pad> and <s>,
    so they are slightly larger (about 0.001 nats per token for a trained model).

    Args:
        folder: a folder that ``heed export --to ctranslate2`` wrote, or a copy.
        device: "cpu", "cuda", "cuda:1" or "auto".
        threads: threads of one translation; 0: CTranslate2's default.

    Raises:
        HeedError: if heed did not export the folder, or CTranslate2 is not installed or cannot load it.
    """

    def __init__(self, folder: str | Path, *, device: str = "cpu", threads: int = 0) -> None:
        ctranslate2, self.folder = require("ctranslate2"), (folder := Path(folder))
        self.description = _read_description(folder)
        self.positions = self.description.get("positions")
        self.tokenizer = Tokenizer.load(folder)
        name, _, index = device.partition(":")
        options = {"device_index": int(index or 0), "inter_threads": 1, "intra_threads": threads}
        try:
            self._translator = ctranslate2.Translator(str(folder), device=name, **options)
            if name != "cpu":  # it looks for cuBLAS when it first multiplies
                self._translator.translate_batch([[EOS_PIECE]], max_decoding_length=1)
        except (RuntimeError, ValueError) as error:
            raise HeedError(f"CTranslate2 cannot load {folder}: {error}") from error
        self._ids = {piece: id_ for id_, piece in enumerate(self.tokenizer.tgt_pieces(range(self.tokenizer.tgt_vocab)))}

    @property
    def device(self) -> torch.device:
        return torch.device(self._translator.device, self._translator.device_index[0])

    @property
    def model(self) -> Seq2Seq:
        raise HeedError(
            f"{self.folder} is an export for CTranslate2, which has no attention maps and no scores of given "
            f"translations: give {model_folder.exported_from(self.folder)}."
        )

    has_constraints = False

    def check(self, search: Search, *, constrained: bool = False) -> None:
        try:
            check_search(search)
            if constrained:
                raise HeedError("CTranslate2 knows neither prefixes nor terms nor placeholders as heed does.")
        except HeedError as error:
            raise HeedError(f"{error} Give {model_folder.exported_from(self.folder)} for heed's own engine.") from error

    def search(self, sources: Sequence[Sequence[int]], search: Search, constraints: Constraints = None) -> list[NBest]:
        self.check(search, constrained=bool(constraints))
        longest = 1 + max(map(len, sources))
        if self.positions is not None and longest > self.positions:
            raise HeedError(
                f"A sentence of {longest:,} tokens (EOS included) is longer than the {self.positions:,} positions of "
                "the CTranslate2 model: shorten it, or use heed's own engine."
            )
        beam, penalty, n_best = 1, 0.0, 1
        if isinstance(search, BeamSearch):
            beam, penalty, n_best = search.beam, search.length_penalty, search.n_best
        limits = [search.limit(len(ids) + 1, self.positions) for ids in sources]
        ngrams = search.no_repeat_ngram_size
        results = self._translate_batch(sources, beam, max(limits), ngrams)
        for row, (result, limit) in enumerate(zip(results, limits, strict=True)):
            # A batch shares its largest limit. A sentence that exceeded its own limit is translated again, alone.
            if any(len(pieces) > limit for pieces in result.hypotheses):
                (results[row],) = self._translate_batch([sources[row]], beam, limit, ngrams)
        return [self._ranked(result, penalty)[:n_best] for result in results]

    def _translate_batch(self, sources: Sequence[Sequence[int]], beam: int, limit: int, ngrams: int) -> list[Any]:
        """Return CTranslate2's results, with at most ``limit`` tokens each, and no sequence of ``ngrams`` twice."""
        found: list[Any] = self._translator.translate_batch(
            [self.tokenizer.src_pieces(ids) for ids in sources],
            beam_size=beam,
            num_hypotheses=beam,
            length_penalty=0.0,
            min_decoding_length=0,
            max_decoding_length=limit,
            max_input_length=0,
            no_repeat_ngram_size=ngrams,
            suppress_sequences=[[PAD_PIECE], [BOS_PIECE]],
            return_scores=True,
            return_end_token=True,
        )
        return found

    def _ranked(self, result: Any, length_penalty: float) -> list[Hypothesis]:
        """Return the hypotheses of one source: finished ones first, then by heed's score."""
        found = []
        for pieces, log_prob in zip(result.hypotheses, result.scores, strict=True):
            finished = pieces[-1:] == [EOS_PIECE]
            tokens = [self._ids[piece] for piece in (pieces[:-1] if finished else pieces)]
            score = log_prob / ((5 + len(pieces)) / 6) ** length_penalty
            found.append(Hypothesis(tokens, log_prob, score, finished))
        return sorted(found, key=lambda each: (each.finished, each.score), reverse=True)

    def score(self, source: Sequence[int], target: Sequence[int]) -> float:
        pieces = self.tokenizer.src_pieces(source), self.tokenizer.tgt_pieces(target)
        (scored,) = self._translator.score_batch(*([each] for each in pieces), max_input_length=0)
        return float(sum(scored.log_probs))


def export(translator: Translator, out: Path, check: CheckSet, *, quantization: str | None = None) -> ParityReport:
    """Write a folder for `CTranslate2Engine`. CTranslate2 can also load it without heed.

    Args:
        out: the folder. It is created if it does not exist.
        quantization: one of `heed.exchange.QUANTIZATIONS`; None: float32, and the check must succeed.

    Raises:
        HeedError: if CTranslate2 is not installed or cannot compute the model, or the check fails.
    """
    require("ctranslate2")
    model, tokenizer = ctranslate2_model.check_supported(translator.model), translator.tokenizer
    out.mkdir(exist_ok=True)
    pieces = (tokenizer.src_pieces(range(tokenizer.src_vocab)), tokenizer.tgt_pieces(range(tokenizer.tgt_vocab)))
    try:
        ctranslate2_model.save(out, model, *pieces, quantization=quantization)
    except ValueError as error:
        raise HeedError(f"CTranslate2 could not convert the model: {error}") from error
    tokenizer.save(out)
    description = {
        "to": "ctranslate2",
        "heed": __version__,
        "src_lang": translator.src_lang,
        "tgt_lang": translator.tgt_lang,
        "directions": [[each.src_lang, each.tgt_lang] for each in map(translator.in_direction, translator.directions)],
        "search": translator.saved_search,
        "quantization": quantization,
        "positions": ctranslate2_model.max_positions(model),
    }
    _write_description(out, description)
    report = compare_engines(translator, CTranslate2Engine(out), check, is_exact=quantization is None)
    checked = {key: value for key, value in asdict(report).items() if key != "name"}
    _write_description(out, {**description, "check": checked})
    return report


def _write_description(folder: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    (folder / model_folder.EXPORT_DESCRIPTION).write_text(text + "\n", encoding="utf-8")


def check_search(search: Search) -> None:
    """Raise a HeedError unless CTranslate2 has this kind of search."""
    if not isinstance(search, BeamSearch | GreedySearch):
        raise HeedError("CTranslate2 has beam search and greedy search only.")


def _read_description(folder: Path) -> dict[str, Any]:
    """Read ``heed.json``; raise a HeedError unless `export` wrote it."""
    try:
        content = dict(json.loads((folder / model_folder.EXPORT_DESCRIPTION).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        content = {}
    if content.get("to") != "ctranslate2":
        raise HeedError(
            f"{folder} was not written by `heed export --to ctranslate2`: its {model_folder.EXPORT_DESCRIPTION} is "
            "missing or says otherwise."
        )
    if wrong := find_wrong_values({**model_folder.LANGUAGES, "positions": int | None}, content, where=""):
        raise HeedError(f"{folder / model_folder.EXPORT_DESCRIPTION}: {wrong[0]}")
    return content


def load(
    *paths: str | Path,
    device: str | None = None,
    direction: str | None = None,
    required: bool = True,
    search: Mapping[str, Any] | None = None,
    **options: Any,
) -> Translator:
    """Load a trained model for CTranslate2. At the first use, export it, see `cached_export`. An export is used itself.

    Args:
        paths: an export, or see `heed.inference.loading.load`.
        device, direction, options: see `heed.inference.loading.load`.
        required: False: if CTranslate2 cannot translate, or not faster, use heed's own engine, and say why in a line on
            stderr.
        search: changes to the model's search, see `build_search`.

    Raises:
        HeedError: see `heed.inference.loading.load`; with ``required``, also if CTranslate2 is not installed or does
            not have the search, the model or the device, or there are several models.
    """
    if exports := [path for path in map(Path, paths) if model_folder.is_export(path)]:
        if len(paths) > 1:
            raise HeedError(f"{exports[0]} is an export for CTranslate2, which cannot translate with an ensemble.")
        return _load_export(*exports, device=device, **options).in_direction(direction)
    translator = loading.load(*paths, device=device, **options)
    directed = translator.in_direction(direction)
    chosen = build_search(translator.saved_search, **search or {})
    try:
        check_search(chosen)
        engine = load_engine(paths, translator, required=required)
    except HeedError as error:
        if required:
            raise HeedError(f"{error} Use --engine heed, heed's own engine.") from error
        print(f"heed: heed's own engine translates. {error}", file=sys.stderr)
        return directed
    print(f"heed: CTranslate2 {require('ctranslate2').__version__} translates.", file=sys.stderr)
    return directed.with_engine(engine)


def _load_export(folder: Path, *, device: str | None, **options: Any) -> Translator:
    engine = CTranslate2Engine(folder, device=str(loading.find_device(device)), threads=torch.get_num_threads())
    saved = {
        name: engine.description[name] for name in ("search", *model_folder.LANGUAGES) if name in engine.description
    }
    return Translator(engine, engine.tokenizer, **saved, **options)


def load_engine(paths: Sequence[str | Path], translator: Translator, *, required: bool) -> CTranslate2Engine:
    """Return an engine with the model of a translator. Errors: see `load`."""
    if len(paths) > 1:
        raise HeedError("CTranslate2 cannot translate with an ensemble.")
    require("ctranslate2")
    device = str(translator.model.device)
    if device != "cpu" and not required:
        raise HeedError("On a GPU, CTranslate2 is not faster.")
    if not device.startswith(("cpu", "cuda")):
        raise HeedError(f"CTranslate2 cannot use the device {device}.")
    folder = cached_export(Path(*paths), translator)
    return CTranslate2Engine(folder, device=device, threads=torch.get_num_threads())


def cached_export(path: Path, translator: Translator) -> Path:
    """Return the folder of a model's export, named after its digest. If it is missing, export the model.

    It is in the subfolder ``ctranslate2`` of the model folder, or of `cache_home` if that cannot be written. The
    digest covers the model's files and the versions of heed and CTranslate2. The export is checked on the run's
    validation sentences, without them on random subwords.

    Raises:
        HeedError: if CTranslate2 cannot compute the model, or the export cannot be written or differs from heed.
    """
    ctranslate2_model.check_supported(translator.model)
    folder = model_folder.find(path)
    versions = f"heed {__version__}.{REVISION}, ctranslate2 {require('ctranslate2').__version__}"
    exports = folder / "ctranslate2"
    if not os.access(exports if exports.exists() else folder, os.W_OK):
        exports = cache_home() / "ctranslate2"

    def write(partial: Path) -> None:
        print(f"heed: exporting {folder} to CTranslate2, once.", file=sys.stderr)
        try:
            check = validation_set(path, translator.directions)
        except HeedError:  # a model folder without its run
            check = random_set(translator.tokenizer)
        export(translator, partial, check)

    key = cache_key(versions, model_folder.digest(folder))
    return build_once(exports / key, write, setting="XDG_CACHE_HOME", limit=None)
