"""Attention maps as one HTML page without dependencies (no network, server or library), and as pictures."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heed.comparison.runs import unique_names
from heed.errors import HeedError
from heed.inference.outputs import Attended
from heed.interventions.forcing import named_words
from heed.plot.attention_map import TITLES, MapSet, draw_map, draw_overview, most_informative_head, piece_label
from heed.plot.fonts import save_figure
from heed.report.pages import render_template
from heed.runs.results import RESULTS, read_results
from heed.symbols import SPECIAL_PIECES, WORD_START


@dataclass(frozen=True)
class System:
    """A model with its attention maps. All systems of a page have the same source sentences."""

    name: str
    path: str  # its folder
    family: str  # transformer or rnn
    pairs: Sequence[Attended]
    command: Sequence[str] = ()
    """The words of the command that shows these maps, without the sentence; empty: the page offers no command."""
    words: Sequence[Sequence[tuple[str, float]]] = ()
    """The words of each translation and log p of each, see `Translator.score_words`; empty: the page shows no log p."""


def attention_page(systems: Sequence[System], *, given: bool) -> str:
    """Return the HTML of the page; ``given``: the user gave the translations, the models did not produce them."""
    data = {
        "given": given,
        "titles": {kind: title for kind, (title, _) in TITLES.items()},
        "systems": [{**vars(system), "pairs": [_pair_data(pair) for pair in system.pairs]} for system in systems],
    }
    return render_template("attend.html.j2", data=data)


def draw_pictures(folder: Path, suffix: str, pairs: Sequence[Attended], only: tuple[str, int, int] | None) -> None:
    """Write ``N.png``, all maps of sentence N, and ``N.KIND.LAYER.HEAD.png``, a single map; all counted from 1."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, pair in enumerate(pairs, start=1):
        heading, sets = [pair.source, pair.target], pair.map_sets
        if sets and not only:
            save_figure(draw_overview(sets, heading=heading), folder / f"{number}.{suffix}")
        for maps in sets:
            for layer, head in np.ndindex(maps.weights.shape[:2]):
                if only in (None, (maps.kind, layer, head)):
                    path = folder / f"{number}.{maps.kind}.{layer + 1}.{head + 1}.{suffix}"
                    save_figure(draw_map(maps, layer, head, heading=heading), path)


def model_names(folders: Sequence[Path]) -> list[str]:
    """Return a unique name for each run or model folder: the run's name if it is known, else the folder's."""
    return unique_names([_model_name(folder.resolve()) for folder in folders], folders)


def _model_name(folder: Path) -> str:
    run = folder.parent if folder.name == "model" else folder
    try:
        return str(read_results(run / RESULTS)["name"])
    except (HeedError, KeyError):
        return run.name  # a copy of the model alone


def _pair_data(pair: Attended) -> dict[str, Any]:
    maps = {maps.kind: _map_data(maps) for maps in pair.map_sets}
    sides = {"source": (pair.source, pair.src_pieces), "target": (pair.target, pair.tgt_pieces)}
    words = {side: named_words(*texts) for side, texts in sides.items()}
    return {"source": pair.source, "target": pair.target, "words": words, "maps": maps}


def _map_data(maps: MapSet) -> dict[str, Any]:
    """Encode weights as one byte each, 255 for a weight of 1, in the order of "L H Q K"."""
    weights = (np.clip(maps.weights, 0, 1) * 255).round().astype(np.uint8)
    return {
        "shape": weights.shape,
        "weights": base64.b64encode(weights.tobytes()).decode(),
        "best": most_informative_head(maps.weights),
        "rows": [_piece_data(piece) for piece in maps.rows],
        "columns": [_piece_data(piece) for piece in maps.columns],
    }


def _piece_data(piece: str) -> dict[str, Any]:
    """Return the texts of a piece; ``opens`` says that it starts a word and has a space before it."""
    special = piece in SPECIAL_PIECES
    text = piece.removeprefix(WORD_START) or WORD_START
    opens = special or piece.startswith(WORD_START)
    return {"text": text, "label": piece_label(piece), "opens": opens, "special": special}
