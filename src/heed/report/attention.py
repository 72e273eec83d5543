"""Attention maps as one page that needs nothing else: no network, no server, no library (the page is attend.html)."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Protocol

import numpy as np

from heed.plot.attention_map import TITLES, Attended, MapSet, label, map_sets, most_telling


class Pair(Attended, Protocol):
    """What `heed.inference.translator.Attended` is."""

    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...


@dataclass(frozen=True)
class System:
    """A model and what it made of the sentences, which are the same for all systems of a page."""

    name: str
    family: str
    pairs: Sequence[Pair]


def page(systems: Sequence[System], *, given: bool) -> str:
    """The HTML of the page. ``given``: the translations are not the models' own."""
    data = {
        "given": given,
        "titles": {kind: title for kind, (title, _) in TITLES.items()},
        "systems": [
            {"name": system.name, "family": system.family, "pairs": [_pair(pair) for pair in system.pairs]}
            for system in systems
        ],
    }
    # A "<" could end the script that the data stands in.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return files("heed.evaluation").joinpath("attend.html").read_text(encoding="utf-8").replace("@DATA@", text)


def _pair(pair: Pair) -> dict[str, Any]:
    return {
        "source": pair.source,
        "target": pair.target,
        "maps": {maps.kind: _maps(maps) for maps in map_sets(pair)},
    }


def _maps(maps: MapSet) -> dict[str, Any]:
    """Weights in 255ths, one byte each, in the order of "L H Q K"."""
    weights = (np.clip(maps.weights, 0, 1) * 255).round().astype(np.uint8)
    return {
        "shape": weights.shape,
        "weights": base64.b64encode(weights.tobytes()).decode(),
        "telling": most_telling(maps.weights),
        "rows": [_piece(piece) for piece in maps.rows],
        "columns": [_piece(piece) for piece in maps.columns],
    }


def _piece(piece: str) -> dict[str, Any]:
    """``opens``: a word begins here, so that there is a gap before it."""
    special = piece in ("<s>", "</s>", "<unk>", "<pad>")
    opens = special or piece.startswith("▁")
    return {"text": piece.removeprefix("▁") or "▁", "label": label(piece), "opens": opens, "special": special}
