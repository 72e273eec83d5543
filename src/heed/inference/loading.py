"""Load what a translator needs: models or ensembles, the search of a model folder, and the device."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from heed.decoding import BeamSearch, SampleSearch, Search
from heed.errors import HeedError
from heed.inference.mbr import MBRSearch
from heed.inference.model_folder import ModelFolder, load
from heed.inference.search_settings import SearchKind, resolve_search
from heed.models.ensemble import Ensemble

SEARCHES: Mapping[SearchKind, type[Search]] = {"beam": BeamSearch, "sample": SampleSearch, "mbr": MBRSearch}


def load_models(paths: Path | Sequence[Path]) -> ModelFolder:
    """Load one model folder, or several as an ensemble with the first folder's tokenizer and config.

    Raises:
        HeedError: if a folder cannot be loaded, or the tokenizers differ.
    """
    first, *others = [paths] if isinstance(paths, Path) else paths
    folder = load(first)
    if not others:
        return folder
    members = [folder.model]
    for path in others:
        other = load(path)
        if other.tokenizer.hash != folder.tokenizer.hash:
            raise HeedError(
                f"{first} and {path} have different vocabularies, so their probabilities cannot be averaged: train the "
                "models of an ensemble on the same data with the same tokenizer settings."
            )
        members.append(other.model)
    return replace(folder, model=Ensemble(members))


def build_search(saved: object, *, kind: SearchKind | None = None, **changes: int | float | str | None) -> Search:
    """Build the search of a model folder, with changes by the user.

    Args:
        saved, kind, changes: see `resolve_search`.

    Raises:
        HeedError: if a setting does not exist, does not apply to this kind of search, or is out of range.
    """
    kind, settings = resolve_search(saved, kind, changes)
    search: Any = SEARCHES[kind]
    return search(**settings)


def find_device(name: str | None) -> torch.device:
    """Return the device with this name, after a test computation on it.

    Args:
        name: for example "cpu" or "cuda:1". None: the GPU if there is one, else the CPU.

    Raises:
        HeedError: if the device cannot be used.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.ones(1, device=device).add(1).item()
    # The exception depends on the device: unknown names, devices that torch was not built for, "meta" without values.
    except (RuntimeError, AssertionError, ValueError, TypeError, ImportError, AttributeError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0][:200]
        raise HeedError(f"--device {name} cannot be used: {reason}.") from error
    return device
