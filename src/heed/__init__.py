"""heed: train translation models you can look inside.

    import heed

    model = heed.load("runs/…")  # a run, a model folder, or a copy of it; several make an ensemble
    model.translate(["The dog saw the cat."], beam=5)

The public names are imported when they are first used, so that ``import heed`` does not import torch.

Axis legend, the same letters in every signature:

    B sentences · S source positions · T target positions · D model width · H heads · E width per head
    F feed-forward width · V vocabulary · K beam · L layers · R rows of a decoder state (B · K in a beam)
"""

import os
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heed import interventions, plot
    from heed.errors import HeedError
    from heed.exchange.from_huggingface import import_model
    from heed.inference.constraints import Terms
    from heed.inference.loading import load
    from heed.inference.outputs import Attended, Translation
    from heed.inference.translator import Translator
    from heed.launch.clients import check_corpus as check
    from heed.launch.clients import train
    from heed.report.comparison import compare_runs as compare
    from heed.runs.trained import TrainedRun

__version__ = "0.1.0"

if "OMP_WAIT_POLICY" not in os.environ:
    # torch's threads wait for each other in a loop that keeps their cores busy. If another program needs one of the
    # cores, the loop keeps the awaited thread from running: training was up to 60 times slower on two cores. After
    # this many rounds, a waiting thread sleeps. torch reads the number when it is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")

__all__ = [
    "Attended", "HeedError", "Terms", "TrainedRun", "Translation", "Translator", "__version__", "check", "compare",
    "import_model", "interventions", "load", "plot", "train",
]  # fmt: skip

_PLACES = {
    "Attended": "heed.inference.outputs:Attended",
    "HeedError": "heed.errors:HeedError",
    "Terms": "heed.inference.constraints:Terms",
    "TrainedRun": "heed.runs.trained:TrainedRun",
    "Translation": "heed.inference.outputs:Translation",
    "Translator": "heed.inference.translator:Translator",
    "check": "heed.launch.clients:check_corpus",
    "compare": "heed.report.comparison:compare_runs",
    "import_model": "heed.exchange.from_huggingface:import_model",
    "interventions": "heed.interventions",
    "load": "heed.inference.loading:load",
    "plot": "heed.plot",
    "train": "heed.launch.clients:train",
}


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, own_name = _PLACES[name].partition(":")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "IProgress not found")  # a widget of notebooks that heed does not use
        value = import_module(module)
    globals()[name] = value = getattr(value, own_name) if own_name else value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
