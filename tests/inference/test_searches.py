"""Search settings: the defaults are those of conf/search, and changes apply to the saved settings."""

from typing import Any

import pytest

from heed.errors import HeedError, command_line_arguments
from heed.inference.searches import DEFAULTS, LENGTH_LIMITS, SearchKind, resolve_search, search_settings
from heed.launch.compose import compose

SAVED = {
    "beam": 3, "length_penalty": 0.6, "n_best": 1, "max_length_factor": 1.0, "max_length_extra": 3,
    "no_repeat_ngram_size": 2,
}  # fmt: skip
GREEDY = {name: DEFAULTS["beam"][name] for name in LENGTH_LIMITS}


@pytest.mark.parametrize("kind", ["beam", "sample", "mbr"])
def test_defaults_are_those_of_conf(kind: SearchKind) -> None:
    run = compose(["data=synthetic", f"search={kind}"]).options["search"]
    settings = {name: value for name, value in run.items() if name != "_target_"}
    assert settings == DEFAULTS[kind] == search_settings(None, kind) == search_settings(run, kind)
    assert resolve_search(run) == (kind, DEFAULTS[kind])


def test_the_settings_of_minimum_bayes_risk_include_all_others() -> None:
    assert {**DEFAULTS["beam"], **DEFAULTS["sample"]}.items() <= DEFAULTS["mbr"].items()
    assert compose(["data=synthetic", "search=greedy"]).options["search"].items() >= GREEDY.items()


def test_saved_settings_replace_the_defaults() -> None:
    assert search_settings(SAVED | {"_target_": "os.system", "n_best": 3}, "beam") == SAVED
    greedy = search_settings(GREEDY | {"max_length_extra": 33}, "beam")
    assert (greedy["beam"], greedy["max_length_extra"]) == (1, 33)


def test_changes_replace_the_saved_settings() -> None:
    saved = DEFAULTS["sample"] | {"temperature": 0.5, "seed": 9, "n_best": 4, "max_length_extra": 7}
    assert resolve_search(saved, top_k=3, seed=None) == ("sample", saved | {"n_best": 1, "top_k": 3})
    assert resolve_search(SAVED, seed=None) == ("beam", SAVED)
    kind, settings = resolve_search(SAVED, mbr=True, samples=5)
    assert (kind, settings["beam"], settings["samples"], settings["max_length_extra"]) == ("mbr", 3, 5, 3)


@pytest.mark.parametrize("saved", ["sample", "mbr"])
def test_a_beam_size_selects_beam_search(saved: SearchKind) -> None:
    kind, settings = resolve_search(DEFAULTS[saved] | {"max_length_extra": 7}, beam=2)
    assert (kind, settings["beam"], settings["max_length_extra"]) == ("beam", 2, 7)
    assert resolve_search(DEFAULTS[saved], mbr=True, beam=2)[0] == "mbr"


@pytest.mark.parametrize(
    ("sample", "mbr", "changes", "message"),
    [
        (False, False, {"top_p": 0.5}, "top_p applies to sampling only: add sample=True or mbr=True"),
        (True, False, {"beam": 2}, r"beam does not apply to sampling: .* \(beam=K without sample=True\)"),
        (False, False, {"samples": 3}, "samples applies to minimum Bayes risk decoding only: add mbr=True"),
        (True, False, {"utility": "bleu"}, "utility applies to minimum Bayes risk decoding only"),
        (True, True, {}, "sample=True and mbr=True are different searches"),
        (False, False, {"bem": 5}, r"bem is not an option of search \(did you mean beam\?\)"),
    ],
)
def test_settings_of_another_kind_are_refused(sample: bool, mbr: bool, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(HeedError, match=message):
        resolve_search(SAVED, sample=sample, mbr=mbr, **changes)


def test_the_command_line_reads_the_names_of_its_options() -> None:
    message = "--top-p applies to sampling only: add --sample or --mbr"
    with command_line_arguments(), pytest.raises(HeedError, match=message):
        resolve_search(SAVED, top_p=0.5)
