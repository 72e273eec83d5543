"""heed: train translation models you can look inside.

    import heed

    model = heed.load("runs/…")  # a run, a model folder, or a copy of it; several make an ensemble
    model.translate(["A dog runs."], beam=5)

The public names are imported when they are first used, so that ``import heed`` does not import torch.

Axis legend, the same letters in every signature:

    B sentences · S source positions · T target positions · D model width · H heads · E width per head
    F feed-forward width · V vocabulary · K beam · L layers · R rows of a decoder state (B · K in a beam)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heed.errors import HeedError
    from heed.inference.loading import load
    from heed.inference.outputs import Attended, Translation
    from heed.inference.translator import Translator

__version__ = "0.1.0"

__all__ = ["Attended", "HeedError", "Translation", "Translator", "__version__", "load"]

_MODULES = {
    "Attended": "heed.inference.outputs",
    "HeedError": "heed.errors",
    "Translation": "heed.inference.outputs",
    "Translator": "heed.inference.translator",
    "load": "heed.inference.loading",
}


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
