"""Search settings: the defaults are those of conf/search, and changes apply to the saved settings."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from heed.errors import HeedError
from heed.inference.search_settings import DEFAULTS, SearchKind, resolve_search, search_settings

CONF = Path(__file__).parents[2] / "conf" / "search"
SAVED = {"beam": 3, "length_penalty": 0.6, "n_best": 1, "max_length_factor": 1.0, "max_length_extra": 3}


def conf(name: str) -> dict[str, Any]:
    """Return the settings of a file in conf/search, with the default seed of conf/train.yaml."""
    settings = yaml.safe_load((CONF / f"{name}.yaml").read_text())
    return {key: 1 if value == "${seed}" else value for key, value in settings.items() if key != "_target_"}


@pytest.mark.parametrize("kind", ["beam", "sample", "mbr"])
def test_defaults_are_those_of_conf(kind: SearchKind) -> None:
    assert conf(kind) == DEFAULTS[kind] == search_settings(None, kind) == search_settings(conf(kind), kind)
    assert resolve_search(conf(kind), None, {}) == (kind, DEFAULTS[kind])


def test_saved_settings_replace_the_defaults() -> None:
    assert search_settings(SAVED | {"_target_": "os.system", "n_best": 3}, "beam") == SAVED
    greedy = search_settings(conf("greedy") | {"max_length_extra": 33}, "beam")
    assert (greedy["beam"], greedy["max_length_extra"]) == (1, 33)


def test_changes_replace_the_saved_settings() -> None:
    saved = conf("sample") | {"temperature": 0.5, "seed": 9, "n_best": 4, "max_length_extra": 7}
    assert resolve_search(saved, None, {"top_k": 3, "seed": None}) == ("sample", saved | {"n_best": 1, "top_k": 3})
    assert resolve_search(SAVED, None, {"seed": None}) == ("beam", SAVED)
    kind, settings = resolve_search(SAVED, "mbr", {"samples": 5})
    assert (kind, settings["beam"], settings["samples"], settings["max_length_extra"]) == ("mbr", 3, 5, 3)


@pytest.mark.parametrize("saved", ["sample", "mbr"])
def test_a_beam_size_selects_beam_search(saved: SearchKind) -> None:
    kind, settings = resolve_search(conf(saved) | {"max_length_extra": 7}, None, {"beam": 2})
    assert (kind, settings["beam"], settings["max_length_extra"]) == ("beam", 2, 7)
    assert resolve_search(conf(saved), "mbr", {"beam": 2})[0] == "mbr"


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (None, {"top_p": 0.5}, "--top-p applies to sampling only: add --sample or --mbr"),
        ("sample", {"beam": 2}, "--beam does not apply to sampling"),
        ("beam", {"samples": 3}, "--samples applies to minimum Bayes risk decoding only: add --mbr"),
        ("sample", {"utility": "bleu"}, "--utility applies to minimum Bayes risk decoding only"),
    ],
)
def test_settings_of_another_kind_are_refused(kind: SearchKind | None, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HeedError, match=message):
        resolve_search(SAVED, kind, changes)
