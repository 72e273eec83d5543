"""Attention at every validation: maps of some sentences as pictures, and what each head does."""

import json
import math
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import numpy.typing as npt
from lightning.pytorch.callbacks import Callback

from heed.data.text.source import Sentences
from heed.evaluation.alignment import (
    Extraction,
    MatchCounts,
    aer,
    align,
    annotated_gold,
    best_extraction,
    candidate_maps,
    link_pieces,
    match_counts,
)
from heed.evaluation.significance import Floats
from heed.evaluation.words import AttentionMap, split_punctuation, word_shares
from heed.files import write_file
from heed.options import AtLeast0
from heed.plot.attention_map import draw_filmstrip, draw_map, draw_overview, most_informative_head
from heed.plot.fonts import save_figure
from heed.runs.records import ARRAYS, ATTENTION, HEADS, PIECES, CSVRecords, is_kept
from heed.training.loggers import log_images

PREFERRED_PHENOMENA = ("pronoun", "sense", "order", "roles", "far")
"""Phenomena of the synthetic corpus whose translation depends on a distant word, the most instructive first."""
MAX_FRAMES = 12
"""Largest number of panels in a filmstrip."""


class DrawAttentionMaps(Callback):
    """Draws the attention maps of some validation sentences and their reference translations.

    Teacher forcing keeps the target pieces the same at every validation, so the pictures show how a map forms. The run
    folder contains

    - ``attention/STEP/SENTENCE.png``: all layers and heads at a validation, and ``maps.npz``: the cross-attention as
      arrays "L H T S" by sentence. A long run keeps some of its validations (`is_kept`);
    - ``attention/pieces.json``: for each sentence its texts, the pieces of the rows and columns of its maps, and the
      cells of the gold alignment, if it is known;
    - ``attention/final/``: the same for the final weights. In addition, for each sentence, its clearest cross-attention
      map at full size (``SENTENCE.cross.png``) and over the validations (``SENTENCE.forming.png``).

    ``sentences`` says about how many sentences to draw (`choose_sentences`); 0: none. Models without attention have no
    maps. Only the first process draws.
    """

    def __init__(self, *, sentences: AtLeast0) -> None:
        self.sentences = sentences

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if not trainer.is_global_zero:
            return
        # A resumed run repeats the steps after its checkpoint, and may draw other sentences.
        redrawn = self._draws_other_sentences(trainer, pl_module)
        for folder in _validation_folders(trainer):
            if redrawn or int(folder.name) > trainer.global_step:
                shutil.rmtree(folder)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero:
            every: Any = trainer.val_check_interval
            for earlier in _validation_folders(trainer):
                if not is_kept(int(earlier.name), now=trainer.global_step, every=every):
                    shutil.rmtree(earlier)
            folder = _folder(trainer) / f"{trainer.global_step:07d}"
            pictures = self._draw(pl_module, folder, history=[])
            log_images(trainer.loggers, "attention", pictures, step=trainer.global_step)

    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero and trainer.global_step > 0:  # not the scores before fine-tuning
            validations = _validation_folders(trainer)
            stride = math.ceil(len(validations) / MAX_FRAMES) or 1
            pictures = self._draw(pl_module, _folder(trainer) / "final", history=validations[::-stride][::-1])
            log_images(trainer.loggers, "attention/final", pictures, step=trainer.global_step)

    def _draws_other_sentences(self, trainer: L.Trainer, module: L.LightningModule) -> bool:
        """Return whether the maps in the run folder are those of other sentences than will be drawn, if any will."""
        file = _folder(trainer) / PIECES
        if not (file.exists() and self.sentences):
            return False
        pieces = json.loads(file.read_text(encoding="utf-8"))
        valid, rows = self._choose(module)
        drawn = {name: [of["source"], of["target"]] for name, of in pieces.items()}
        return drawn != {name: [valid.src[row], valid.tgt[row]] for name, row in rows.items()}

    def _choose(self, module: L.LightningModule) -> tuple[Sentences, dict[str, int]]:
        """Return the first validation set, and the rows to draw by name."""
        name = module.data.sets.validated[0]
        valid = module.data.sets.texts[name]
        return valid, choose_sentences(valid, module.data.sets.encoded[name].src_lengths, self.sentences)

    def _draw(self, module: L.LightningModule, folder: Path, *, history: Sequence[Path]) -> dict[str, Path]:
        """Draw the maps of the current weights into a folder.

        Args:
            history: folders of earlier validations; if there are any, also draw full-size maps and filmstrips.

        Returns:
            The pictures by name; none for a model without attention.
        """
        valid, sentences = self._choose(module)
        if not sentences:
            return {}
        translations = module.results[module.data.sets.validated[0]].translations
        src, tgt = ([side[row] for row in sentences.values()] for side in (valid.src, valid.tgt))
        pictures: dict[str, Path] = {}
        arrays: dict[str, Any] = {}
        pieces: dict[str, Any] = {}
        for (name, row), attended in zip(sentences.items(), module.translator.attend(src, tgt), strict=True):
            sets, gold = attended.map_sets, None
            if not sets:
                return {}
            if attended.cross is not None and valid.meta is not None:
                source, target = split_punctuation(attended.source), split_punctuation(attended.target)
                shares = word_shares(attended.src_pieces, source), word_shares(attended.tgt_pieces, target)
                gold = link_pieces(annotated_gold(valid.meta[row]), *shares)
                sets[0] = replace(sets[0], gold=gold)
            folder.mkdir(parents=True, exist_ok=True)
            heading = [attended.source, attended.target]
            figures = {name: draw_overview(sets, heading=[*heading, f"Its own translation: {translations[row]}"])}
            if attended.cross is not None:
                arrays[name] = attended.cross.astype(np.float16)
                texts = {"source": attended.source, "target": attended.target}
                pieces[name] = {**texts, "rows": attended.tgt_pieces, "columns": attended.src_pieces}
                pieces[name] |= {} if gold is None else {"gold": np.argwhere(gold).tolist()}
                if history:
                    layer, head = most_informative_head(attended.cross)
                    frames = {f"step {int(past.name):,}": _load_arrays(past)[name][layer, head] for past in history}
                    figures[f"{name}.cross"] = draw_map(sets[0], layer, head, heading=heading)
                    figures[f"{name}.forming"] = draw_filmstrip(sets[0], frames, layer, head, heading=heading)
            for title, figure in figures.items():
                pictures[title] = folder / f"{title}.png"
                save_figure(figure, pictures[title])
        np.savez_compressed(folder / ARRAYS, **arrays)
        write_file(folder.parent / PIECES, json.dumps(pieces, ensure_ascii=False))
        return pictures


def choose_sentences(text: Sentences, lengths: npt.NDArray[np.integer[Any]], count: int) -> dict[str, int]:
    """Choose about ``count`` sentences of a split, always the same ones.

    If the corpus tags its sentences, they are divided evenly among the tags, `PREFERRED_PHENOMENA` first. Several
    sentences of one tag have evenly spaced lengths; a single one is shorter than the average, because small maps are
    easier to read.

    Args:
        lengths: of the source sentences.

    Returns:
        Rows of the split, by a name for each sentence: its number and tag.
    """
    by_length = np.argsort(lengths, kind="stable").tolist()
    tags = ["sentence"] * len(text) if text.meta is None else [json.loads(meta).get("tag", "") for meta in text.meta]
    preferred = [tag for tag in PREFERRED_PHENOMENA if tag in tags]
    order = [*preferred, *sorted(set(tags) - set(preferred))]
    groups = {tag: [row for row in by_length if tags[row] == tag] for tag in order}
    per_group, remainder = divmod(count, len(groups))
    chosen: dict[str, int] = {}
    for position, (tag, rows) in enumerate(groups.items()):
        number = min(per_group + (position < remainder), len(rows))
        for i in range(number):
            chosen[f"{len(chosen) + 1}_{tag}"] = rows[int((i + 0.25) * len(rows) / number)]
    return chosen


def _folder(trainer: L.Trainer) -> Path:
    return Path(trainer.default_root_dir, ATTENTION)


def _validation_folders(trainer: L.Trainer) -> list[Path]:
    """Return the folders of all validations so far, the earliest first."""
    return sorted(_folder(trainer).glob("[0-9]*"))


def _load_arrays(folder: Path) -> dict[str, npt.NDArray[np.float16]]:
    with np.load(folder / ARRAYS) as arrays:
        return dict(arrays)


# ---- heads

METRIC = "valid/aer"
FIELDS = ("step", "attention", "layer", "head", "entropy", "aer")
"""Columns of ``attention/heads.csv``."""
MEASURED_AT_ONCE = 20
"""Sentence pairs with attention maps in memory at a time: those of a large model take several MB each."""


class MeasureAttentionHeads(Callback):
    """Measures every head: the entropy of its attention, and the AER of the word alignment that it gives.

    Attention is computed for the first ``sentences`` of each split (0: none), with teacher forcing on the references.
    ``attention/heads.csv`` has a row for each validation and head of the first validation set:

    - ``entropy``: see `normalized_entropy`, the mean over positions;
    - ``aer``: of cross-attention, if the corpus has gold alignments: each target word aligns with its most attended
      word, in the output or the input row (`Extraction.row`), whichever has the lower AER.

    Every validation logs as ``valid/aer`` the AER of the best extraction (layer, head or mean of heads, row). For the
    final weights, the extraction is chosen on the validation set, and its AER is measured on the test sets.

    Does nothing for models without attention. Only the first process computes.
    """

    def __init__(self, *, sentences: AtLeast0) -> None:
        self.sentences = sentences
        self.extraction: Extraction | None = None
        """Chosen on the validation set with the final weights."""
        self.error_rates: dict[str, float] = {}
        """AER of that extraction for each split, from 0 to 1."""

    @property
    def results(self) -> dict[str, Any] | None:
        """``extraction``, ``sentences`` and ``aer`` by split as plain data, or None if no AER was measured."""
        if self.extraction is None:
            return None
        return {"extraction": asdict(self.extraction), "sentences": self.sentences, "aer": self.error_rates}

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        if trainer.is_global_zero and self.sentences and pl_module.model.attention_heads:
            (records := _records(trainer)).path.parent.mkdir(exist_ok=True)
            records.start(after_step=trainer.global_step)  # a resumed run repeats the steps after its checkpoint

    def on_validation_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        entropies, counts = self._measure(trainer, pl_module, pl_module.data.sets.validated[0])
        rates = None if counts is None else aer(counts)
        if rates is not None:
            pl_module.log(METRIC, float(rates.min()), rank_zero_only=True, logger=False)
        rows = []
        for kind, of_heads in entropies.items():
            for (layer, head), entropy in np.ndenumerate(of_heads):
                rate = float(rates[:, layer, head].min()) if kind == "cross" and rates is not None else None
                rows.append((trainer.global_step, kind, layer + 1, head + 1, float(entropy), rate))
        if rows:
            _records(trainer).append(*(dict(zip(FIELDS, row, strict=True)) for row in rows))

    def on_test_epoch_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        self.extraction, self.error_rates = None, {}
        for split in pl_module.data.sets.evaluated:
            if pl_module.data.sets.texts[split].meta is None:
                continue
            _, counts = self._measure(trainer, pl_module, split)
            if counts is None:
                continue
            if self.extraction is None:
                assert split in pl_module.data.sets.validated, "the extraction is chosen before a test set is evaluated"
                self.extraction = best_extraction(aer(counts))
            self.error_rates[split] = float(aer(counts)[self.extraction.index])

    def _measure(self, trainer: L.Trainer, module: Any, split: str) -> tuple[dict[str, Floats], MatchCounts | None]:
        """Measure the first sentences of a split.

        Returns:
            By kind of attention the mean `normalized_entropy` of each head over all positions, "L H"; empty in other
            processes and for models without attention. And `match_counts` of all extractions, "2 L H 4", summed over
            sentences; None if there is nothing to count.
        """
        rows, counts = defaultdict(list), []
        text: Sentences = module.data.sets.texts[split]
        number = min(len(text), self.sentences) if trainer.is_global_zero and module.model.attention_heads else 0
        for start in range(0, number, MEASURED_AT_ONCE):
            some = slice(start, min(start + MEASURED_AT_ONCE, number))
            metas = repeat(None) if text.meta is None else text.meta[some]
            for pair, meta in zip(module.translator.attend(text.src[some], text.tgt[some]), metas, strict=False):
                for maps in pair.map_sets:
                    rows[maps.kind].append(normalized_entropy(maps.weights, causal=maps.kind == "decoder_self"))
                if pair.cross is not None and meta is not None:
                    words = split_punctuation(pair.source), split_punctuation(pair.target)
                    candidates = candidate_maps(pair.cross, pair.src_pieces, pair.tgt_pieces, *words)
                    counts.append(match_counts(align(candidates, "target"), annotated_gold(meta)))
        found = {kind: np.concatenate(of_pairs, axis=-1) for kind, of_pairs in rows.items()}
        with np.errstate(invalid="ignore"):  # a model that diverged has only NaN
            means = {kind: np.nansum(values, axis=-1) / np.isfinite(values).sum(-1) for kind, values in found.items()}
        return means, np.sum(counts, axis=0) if counts else None


def normalized_entropy(weights: AttentionMap, *, causal: bool = False) -> Floats:
    """Return H(α) / log K of each row "… Q K": 0 if it attends to one key, 1 if to all K keys alike.

    A row is divided by its sum, which may be less than 1 with ``reach=local_p``. Rows with a single key, or without
    weights, have no entropy: NaN.

    Args:
        causal: row t has the keys up to t, instead of all.
    """
    queries, keys = weights.shape[-2:]
    with np.errstate(invalid="ignore"):  # 0 / 0, 0 / log 1
        weights = weights / weights.sum(-1, keepdims=True)
        log = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
        return -(weights * log).sum(-1) / np.log(np.arange(queries) + 1.0 if causal else keys)


def _records(trainer: L.Trainer) -> CSVRecords:
    return CSVRecords(Path(trainer.default_root_dir, ATTENTION, HEADS), FIELDS)
