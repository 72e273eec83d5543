"""Build searches from the settings of a model folder and changes by the user."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from heed.decoding import BeamSearch, SampleSearch, Search
from heed.inference.mbr import MBRSearch
from heed.inference.search_settings import SearchKind, resolve_search

SEARCHES: Mapping[SearchKind, type[Search]] = {"beam": BeamSearch, "sample": SampleSearch, "mbr": MBRSearch}


class SearchOptions(TypedDict, total=False):
    """Changes to the search of a model. None leaves an option as it is."""

    beam: int | None
    """Hypotheses that beam search keeps; 1 is greedy search."""
    length_penalty: float | None
    """Exponent of the length penalty; 0 is none, larger values favour longer translations."""
    sample: bool
    """Sample translations instead of beam search."""
    temperature: float | None
    """Of sampling; lower values favour likely subwords."""
    top_k: int | None
    """Sample from the k likeliest subwords."""
    top_p: float | None
    """Sample from the smallest set of subwords with this total probability."""
    seed: int | None
    """Of sampling."""
    mbr: bool
    """Minimum Bayes risk decoding: choose the candidate that is most similar to the others."""
    samples: int | None
    """Sampled candidates of minimum Bayes risk decoding, besides those of ``beam``."""
    utility: Literal["chrf", "bleu"] | None
    """Similarity for minimum Bayes risk decoding."""


def build_search(
    saved: object, *, sample: bool = False, mbr: bool = False, **changes: int | float | str | None
) -> Search:
    """Build the search of a model folder, with changes by the user.

    Args:
        saved: the ``search`` section of a model folder's config; None for heed's defaults.
        sample, mbr, changes: see `SearchOptions`; also ``n_best``.

    Raises:
        HeedError: if a setting does not exist, does not apply to this kind of search, or is out of range.
    """
    kind, settings = resolve_search(saved, sample=sample, mbr=mbr, changes=changes)
    search: Any = SEARCHES[kind]
    return search(**settings)
