"""Search settings of model folders: defaults, and the combination of saved settings with changes by the user.

Nothing slow to import is imported here, so that ``heed --help`` can show the defaults.
"""

from collections.abc import Mapping
from typing import Any, Literal

from heed.errors import HeedError, argument
from heed.options import did_you_mean, format_value

SearchKind = Literal["beam", "sample", "mbr"]
Settings = dict[str, Any]

LENGTH_LIMITS: Settings = {"max_length_factor": 2.0, "max_length_extra": 10}
BEAM: Settings = {"beam": 5, "length_penalty": 0.6, "n_best": 1, **LENGTH_LIMITS}
SAMPLE: Settings = {"temperature": 1.0, "top_k": None, "top_p": None, "seed": 1, "n_best": 1, **LENGTH_LIMITS}
MBR: Settings = {**BEAM, **SAMPLE, "utility": "chrf", "samples": 32}

DEFAULTS: Mapping[SearchKind, Settings] = {"beam": BEAM, "sample": SAMPLE, "mbr": MBR}
"""The settings of conf/search/beam.yaml, sample.yaml and mbr.yaml, for model folders without search settings."""


def resolve_search(
    saved: object, *, sample: bool, mbr: bool, changes: Mapping[str, Any]
) -> tuple[SearchKind, Settings]:
    """Return the kind of search and all its settings.

    Without ``sample`` and ``mbr`` the kind is beam search if ``changes`` has a beam, else the saved kind.

    Args:
        saved: the ``search`` section of a model folder's config; None if there is none.
        sample: sample translations.
        mbr: use minimum Bayes risk decoding.
        changes: settings that replace the saved ones; None values are ignored.

    Raises:
        HeedError: if ``saved`` is not a mapping, or a change is not a setting of this kind of search.
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
    kind: SearchKind = "sample" if sample else "mbr" if mbr else "beam" if "beam" in changes else _saved_kind(saved)
    settings = search_settings(saved, kind)
    for name in changes:
        if name not in MBR:
            raise HeedError(f"{name} is not an option of search{did_you_mean(name, ['sample', 'mbr', *MBR])}.")
        if name not in settings:
            raise HeedError(f"{argument(name)} {_other_kind(name)}.")
    return kind, {**settings, **changes}


def search_settings(saved: Mapping[str, Any] | None, kind: SearchKind) -> Settings:
    """Return the settings of this kind of search: the saved ones, and the defaults for those that are not saved.

    ``n_best`` is 1 whatever is saved.
    """
    defaults = DEFAULTS[kind]
    if saved is None:
        return dict(defaults)
    # Settings without a beam were saved by greedy search. (`_target_` is not used: it could name any Python object.)
    greedy = {"beam": 1} if kind == "beam" else {}
    known = {name: saved[name] for name in defaults if name in saved}
    return {**defaults, **greedy, **known, "n_best": 1}


def _saved_kind(saved: Mapping[str, Any] | None) -> SearchKind:
    """Return the kind of search that has the saved settings."""
    if saved and "utility" in saved:
        return "mbr"
    return "sample" if saved and "temperature" in saved else "beam"


def _other_kind(name: str) -> str:
    """Name the kind of search that this setting belongs to."""
    if name in SAMPLE:
        return f"applies to sampling only: add {argument('sample', True)} or {argument('mbr', True)}"
    if name in BEAM:
        beam = f"{argument('beam', 'K')} without {argument('sample', True)}"
        return f"does not apply to sampling: leave it out, or use beam search ({beam})"
    return f"applies to minimum Bayes risk decoding only: add {argument('mbr', True)}"
