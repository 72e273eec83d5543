"""Searches of model folders: default settings, saved settings, and changes by the user.

This file does not import torch, so that ``heed --help`` can show the defaults.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from heed.errors import HeedError, argument
from heed.options import format_value, suggest

if TYPE_CHECKING:
    import heed.decoding

SearchKind = Literal["beam", "sample", "mbr"]
Settings = dict[str, Any]

LENGTH_LIMITS: Settings = {"max_length_factor": 2.0, "max_length_extra": 10}
BEAM: Settings = {"beam": 5, "length_penalty": 0.6, "n_best": 1, **LENGTH_LIMITS}
SAMPLE: Settings = {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 1, "n_best": 1, **LENGTH_LIMITS}
MBR: Settings = {**BEAM, **SAMPLE, "utility": "chrf", "samples": 32}

DEFAULTS: Mapping[SearchKind, Settings] = {"beam": BEAM, "sample": SAMPLE, "mbr": MBR}
"""The settings of conf/search/beam.yaml, sample.yaml and mbr.yaml, for model folders without search settings."""


class SearchOptions(TypedDict, total=False):
    """Changes to the search of a model. None leaves an option as it is."""

    beam: int | None
    """Hypotheses that beam search keeps; 1 is greedy search."""
    length_penalty: float | None
    """Exponent of the length penalty; 0 is none, larger values favour longer translations."""
    sample: bool
    """Sample translations instead of beam search."""
    temperature: float | None
    """Temperature of sampling; lower values favour likely subwords."""
    top_k: int | None
    """Sample from the k likeliest subwords."""
    top_p: float | None
    """Sample from the smallest set of subwords with this total probability."""
    seed: int | None
    """Of sampling."""
    mbr: bool
    """Minimum Bayes risk decoding: choose the candidate that is most similar to the others."""
    samples: int | None
    """Number of sampled candidates of minimum Bayes risk decoding, in addition to ``beam``."""
    utility: Literal["chrf", "bleu"] | None
    """Similarity for minimum Bayes risk decoding."""


def build_search(
    saved: object, *, sample: bool = False, mbr: bool = False, **changes: int | float | str | None
) -> "heed.decoding.Search":
    """Build the search of a model folder, with changes by the user.

    Args:
        saved: the ``search`` section of a model folder's config; None: heed's defaults.
        sample, mbr, changes: see `SearchOptions`. ``n_best`` is allowed too.

    Raises:
        HeedError: if a setting does not exist, does not apply to this kind of search, or is out of range.
    """
    from heed.decoding import BeamSearch, SampleSearch
    from heed.inference.mbr import MBRSearch

    kind, settings = resolve_search(saved, sample=sample, mbr=mbr, changes=changes)
    search: Any = {"beam": BeamSearch, "sample": SampleSearch, "mbr": MBRSearch}[kind]
    return search(**settings)


def resolve_search(
    saved: object, *, sample: bool, mbr: bool, changes: Mapping[str, Any]
) -> tuple[SearchKind, Settings]:
    """Return the kind of search and all its settings, see `build_search`.

    Without ``sample`` and ``mbr`` the kind is beam search if ``changes`` has a beam, otherwise the saved kind. Changes
    that are None are ignored.
    """
    if saved is not None and not isinstance(saved, Mapping):
        raise HeedError(
            f"The model's search={format_value(saved)} must be a mapping: correct its config.yaml, or copy the model "
            "again."
        )
    if sample and mbr:
        raise HeedError(
            f"{argument('sample', True)} and {argument('mbr', True)} are different searches: leave one of them out."
        )
    changes = {name: value for name, value in changes.items() if value is not None}
    kind: SearchKind = "sample" if sample else "mbr" if mbr else "beam"
    if saved and not (sample or mbr or "beam" in changes):
        kind = "mbr" if "utility" in saved else "sample" if "temperature" in saved else "beam"
    settings = search_settings(saved, kind)
    for name in changes:
        if name not in MBR:
            similar = suggest(name, ["sample", "mbr", *MBR], section="flags")
            raise HeedError(f"{name} is not an option of search{similar}.")
        if name not in settings:
            raise HeedError(f"{argument(name)} {_other_kind(name)}.")
    return kind, {**settings, **changes}


def search_settings(saved: Mapping[str, Any] | None, kind: SearchKind) -> Settings:
    """Return the settings of this kind of search: those saved, completed by the defaults. ``n_best`` is always 1."""
    defaults = DEFAULTS[kind]
    if saved is None:
        return dict(defaults)
    # Settings without a beam belong to greedy search. `_target_` is ignored, because it could name any Python object.
    greedy = {"beam": 1} if kind == "beam" else {}
    known = {name: saved[name] for name in defaults if name in saved}
    return {**defaults, **greedy, **known, "n_best": 1}


def _other_kind(name: str) -> str:
    """Name the kind of search that this setting belongs to."""
    if name in SAMPLE:
        return f"applies to sampling only: add {argument('sample', True)} or {argument('mbr', True)}"
    if name in BEAM:
        beam = f"{argument('beam', 'K')} without {argument('sample', True)}"
        return f"does not apply to sampling: leave it out, or use beam search ({beam})"
    return f"applies to minimum Bayes risk decoding only: add {argument('mbr', True)}"
