"""Attention maps while training: where the model looks, for the same few sentences at every validation."""

import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning as L
import numpy as np
import numpy.typing as npt
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.trainer.states import TrainerFn

from heed.inference.translator import Translator
from heed.plot.attention_map import draw_filmstrip, draw_map, draw_overview, map_sets, most_informative_head, save_png
from heed.training.loggers import log_images
from heed.training.module import TranslationModule

if TYPE_CHECKING:
    from datasets import Dataset

TELLING = ("pronoun", "sense", "order", "roles", "far")
"""Phenomena in which one sees whether attention found what decides, the most instructive first."""
FRAMES = 12
"""Most panels of a filmstrip."""
MAPS = "maps.npz"


class DrawMaps(Callback):
    """Draws the attention maps of some validation sentences with their reference translations.

    Under teacher forcing the pieces are the same at every validation, so that one sees a map form. In the run folder,

    - ``attention/STEP/SENTENCE.png``: all layers and heads at a validation; ``maps.npz`` beside them: the
      cross-attention as arrays "L H T S", by sentence;
    - ``attention/final/``: the same for the final weights, and per sentence its most telling cross-attention at full
      size (``SENTENCE.cross.png``) and at one validation after the other (``SENTENCE.forming.png``).

    Silent where a model has no attention. Everything happens on the first process, without the others.
    """

    def __init__(self, folder: Path, *, count: int) -> None:
        """``count``: sentences, spread over phenomena where the corpus knows them, and over lengths."""
        self.folder = folder / "attention"
        self.count = count

    def on_train_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero:
            # A resumed run goes on after the step of its checkpoint: what was drawn beyond it never happened.
            self.forget(after=trainer.global_step)

    def forget(self, *, after: int) -> None:
        """Remove what was drawn after this step."""
        for drawn in self._validations():
            if int(drawn.name) > after:
                shutil.rmtree(drawn)

    def on_validation_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.state.fn == TrainerFn.FITTING and trainer.is_global_zero:
            pictures = self._draw(pl_module, self.folder / f"{trainer.global_step:07d}", history=[])
            log_images(trainer.loggers, "attention", pictures, step=trainer.global_step)

    def on_test_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        if trainer.is_global_zero:
            validations = self._validations()
            every = math.ceil(len(validations) / FRAMES) or 1
            pictures = self._draw(pl_module, self.folder / "final", history=validations[::-every][::-1])
            log_images(trainer.loggers, "attention/final", pictures, step=trainer.global_step)

    def _draw(self, module: L.LightningModule, folder: Path, *, history: Sequence[Path]) -> dict[str, Path]:
        """Overviews and arrays; with a history of earlier ones also what the final folder has. Pictures by name."""
        assert isinstance(module, TranslationModule)
        valid, translations = module.data.datasets["valid"], module.results["valid"][2]
        chosen = choose(valid, module.data.splits["valid"].src.lengths, self.count)
        translator = Translator(
            module.model, module.tokenizer, module.greedy, batch_tokens=module.data.planner.device_tokens
        )
        pairs = valid.select(chosen.values())
        pictures: dict[str, Path] = {}
        arrays: dict[str, Any] = {}
        for (name, row), seen in zip(chosen.items(), translator.attend(pairs["src"], pairs["tgt"]), strict=True):
            sets = map_sets(seen)
            if not sets:
                return {}
            folder.mkdir(parents=True, exist_ok=True)
            heading = [seen.source, seen.target]
            figures = {name: draw_overview(sets, heading=[*heading, f"Its own translation: {translations[row]}"])}
            if seen.cross is not None:
                arrays[name] = seen.cross.astype(np.float16)
                if history:
                    layer, head = most_informative_head(seen.cross)
                    frames = {f"step {int(then.name):,}": _maps(then)[name][layer, head] for then in history}
                    figures[f"{name}.cross"] = draw_map(sets[0], layer, head, heading=heading)
                    figures[f"{name}.forming"] = draw_filmstrip(sets[0], frames, layer, head, heading=heading)
            for title, figure in figures.items():
                pictures[title] = folder / f"{title}.png"
                save_png(figure, pictures[title])
        np.savez_compressed(folder / MAPS, **arrays)
        return pictures

    def _validations(self) -> list[Path]:
        """The folders drawn so far, the earliest first."""
        return sorted(self.folder.glob("[0-9]*"))


def choose(split: "Dataset", lengths: npt.NDArray[np.integer[Any]], count: int) -> dict[str, int]:
    """Rows of about ``count`` sentences worth looking at, by a name for each; always the same ones.

    Where the corpus tags its sentences each phenomenon has its turn (`TELLING` first); else the turn is everybody's.
    Of a group that gives several the lengths are spread evenly, and of one that gives one it is on the short side,
    where maps are easier to read.
    """
    by_length = np.argsort(lengths, kind="stable").tolist()
    groups: dict[str, list[int]] = {}
    if "meta" in split.column_names:
        tags = [json.loads(meta).get("tag", "") for meta in split["meta"]]
        for tag in sorted(set(tags), key=lambda tag: (TELLING.index(tag) if tag in TELLING else len(TELLING), tag)):
            groups[tag] = [row for row in by_length if tags[row] == tag]
    else:
        groups["sentence"] = by_length
    each, rest = divmod(count, len(groups))
    chosen: dict[str, int] = {}
    for place, (tag, rows) in enumerate(groups.items()):
        number = min(each + (place < rest), len(rows))
        for turn in range(number):
            chosen[f"{len(chosen) + 1}_{tag}"] = rows[int((turn + 0.25) * len(rows) / number)]
    return chosen


def _maps(folder: Path) -> dict[str, npt.NDArray[np.float16]]:
    with np.load(folder / MAPS) as arrays:
        return dict(arrays)
