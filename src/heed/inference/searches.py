"""Searches of model folders: the default settings of conf/search, saved settings, and changes by the user.

This file does not import torch, so that ``heed --help`` can show the defaults.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from heed.errors import HeedError, argument
from heed.files import CONF, read_yaml
from heed.options import format_value, suggest

if TYPE_CHECKING:
    import heed.decoding
    from heed.inference.constraints import Terms

SearchKind = Literal["beam", "sample", "mbr"]
Settings = dict[str, Any]
Protect = bool | Literal["markup"] | None

LENGTH_LIMITS = ("max_length_factor", "max_length_extra")
"""Settings of every kind of search."""


def _read_defaults() -> dict[SearchKind, Settings]:
    found: dict[SearchKind, Settings] = {kind: read_yaml(CONF / f"search/{kind}.yaml") for kind in get_args(SearchKind)}
    seed = read_yaml(CONF / "train.yaml")["seed"]
    for settings in found.values():
        del settings["_target_"]
        settings.update({"seed": seed} if "seed" in settings else {})  # ${seed} there
    return found


DEFAULTS: Mapping[SearchKind, Settings] = _read_defaults()
"""The settings of conf/search by kind, for model folders without search settings. Those of "mbr" include all others."""


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
    no_repeat_ngram_size: int | None
    """No sequence of this many subwords is repeated in a translation; 0: no limit."""


class TranslateOptions(SearchOptions, total=False):
    """Changes to the search of a model, and what its translations must contain."""

    prefix: "str | Sequence[str]"
    """Text with which every translation begins, or one for each sentence. A trailing space completes its last word."""
    terms: "Terms | Mapping[str, str | Sequence[str]]"
    """Source words, and the target words, or several of them to choose from, that translate them."""
    tag: str | None
    """The kind of text: the tag of a training text, such as "<crawl>", or "crawl"."""
    protect: Protect
    """Copy variables, tags, addresses and identifiers, see `heed.inference.protection`; None: if the model has
    placeholders for them; "markup": only the private-use characters that stand for markup of documents."""


def build_search(saved: object, **options: Any) -> "heed.decoding.Search":
    """Build the search of a model folder, with changes by the user. Arguments and errors: see `resolve_search`."""
    from heed.decoding import BeamSearch, SampleSearch
    from heed.inference.mbr import MBRSearch

    kind, settings = resolve_search(saved, **options)
    search: Any = {"beam": BeamSearch, "sample": SampleSearch, "mbr": MBRSearch}[kind]
    return search(**settings)


def resolve_search(
    saved: object, *, sample: bool = False, mbr: bool = False, **changes: int | float | str | None
) -> tuple[SearchKind, Settings]:
    """Return the kind of search of a model folder and all its settings, with changes by the user.

    Without ``sample`` and ``mbr`` the kind is beam search if ``changes`` has a beam, otherwise the saved kind. Changes
    that are None are ignored.

    Args:
        saved: the ``search`` section of a model folder's config; None: heed's defaults.
        sample, mbr, changes: see `SearchOptions`. ``n_best`` is allowed too.

    Raises:
        HeedError: if a setting does not exist, does not apply to this kind of search, or is out of range.
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
    given = {name: value for name, value in changes.items() if value is not None}
    kind: SearchKind = "sample" if sample else "mbr" if mbr else "beam"
    if saved and not (sample or mbr or "beam" in given):
        kind = "mbr" if "utility" in saved else "sample" if "temperature" in saved else "beam"
    settings = search_settings(saved, kind)
    for name in given:
        if name not in DEFAULTS["mbr"]:
            similar = suggest(name, ["sample", "mbr", *DEFAULTS["mbr"]], section="flags")
            raise HeedError(f"{name} is not an option of search{similar}.")
        if name not in settings:
            raise HeedError(f"{argument(name)} {_other_kind(name)}.")
    return kind, {**settings, **given}


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
    if name in DEFAULTS["sample"]:
        return f"applies to sampling only: add {argument('sample', True)} or {argument('mbr', True)}"
    if name in DEFAULTS["beam"]:
        beam = f"{argument('beam', 'K')} without {argument('sample', True)}"
        return f"does not apply to sampling: leave it out, or use beam search ({beam})"
    return f"applies to minimum Bayes risk decoding only: add {argument('mbr', True)}"
