"""Load translators: models, ensembles and devices."""

from pathlib import Path

import torch

from heed.errors import HeedError, argument
from heed.inference import BATCH_TOKENS, MAX_TOKENS, model_folder
from heed.inference.engine import TorchEngine
from heed.inference.translator import Translator
from heed.models.ensemble import Ensemble
from heed.options import AtLeast1


def load(
    *paths: str | Path,
    device: str | None = None,
    direction: str | None = None,
    batch_tokens: AtLeast1 = BATCH_TOKENS,
    max_tokens: AtLeast1 | None = MAX_TOKENS,
) -> Translator:
    """Load a trained model, or several as an ensemble.

    Loading is safe for untrusted folders: it runs no code from them.

    Args:
        paths: a run (``runs/NAME/TIME``), a model folder, or a copy of either. An ensemble uses the tokenizer, the
            languages and the search settings of the first.
        device: "cpu", "cuda", "cuda:1", "mps"; None: cuda if available, otherwise cpu.
        direction: one of several directions of the model, such as "de-en", or its target language "en"; None: the
            first.
        batch_tokens, max_tokens: see `Translator`.

    Raises:
        HeedError: if a folder cannot be loaded, the tokenizers of an ensemble differ, the model does not have the
            direction, or the device cannot be used.
    """
    found = find_device(device)  # report a wrong device before reading the models
    if not paths:
        raise HeedError("There is no model to load: give a run or a model folder.")
    first, *others = map(model_folder.load, paths)
    for path, other in zip(paths[1:], others, strict=True):
        if other.tokenizer.digest != first.tokenizer.digest:
            raise HeedError(
                f"{paths[0]} and {path} have different vocabularies, so their probabilities cannot be averaged: train "
                "the models of an ensemble on the same data with the same tokenizer settings."
            )
    model = Ensemble([first.model, *(other.model for other in others)]) if others else first.model
    saved = ("search", "alignment", "src_lang", "tgt_lang", "directions", "base_model")
    translator = Translator(
        TorchEngine(model.to(found), packed=True),
        first.tokenizer,
        **{name: first.config[name] for name in saved if name in first.config},
        batch_tokens=batch_tokens,
        max_tokens=max_tokens,
    )
    return translator.in_direction(direction)


def find_device(name: str | None) -> torch.device:
    """Return the device with this name, after a test computation on it.

    Args:
        name: for example "cpu" or "cuda:1". None: the GPU if there is one, otherwise the CPU.

    Raises:
        HeedError: if the device cannot be used.
    """
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.ones(1, device=device).add(1).item()
    # The exception class differs for unknown names, devices that torch was not built for, and "meta".
    except (RuntimeError, AssertionError, ValueError, TypeError, ImportError, AttributeError) as error:
        reason = " ".join(str(error).split()).partition(". ")[0][:200]
        raise HeedError(f"{argument('device', name)} cannot be used: {reason}.") from error
    if device.type == "cuda":
        # Results of fp32, equal to the CPU's: training allows TF32, and cuDNN's recurrent layers use it by default.
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
    return device
