"""COMET, a learned metric (Rei et al. 2020), if the package ``unbabel-comet`` and a model are installed."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from heed.errors import HeedError, missing_package
from heed.evaluation.scores import MetricScore


class Comet:
    """A COMET model, loaded from a checkpoint or from the Hugging Face cache; nothing is downloaded."""

    def __init__(self, name: str) -> None:
        """Load the model.

        Args:
            name: A checkpoint file, or a model of the Hugging Face hub that is in the local cache.

        Raises:
            HeedError: The package is not installed, or the model is not on this machine.
        """
        try:
            from comet import load_from_checkpoint
        except ImportError as error:
            raise missing_package("COMET", "unbabel-comet", "comet") from error
        self.name = name
        try:
            self._model: Any = load_from_checkpoint(str(_checkpoint(name)), local_files_only=True)
        except Exception as error:  # load_from_checkpoint raises plain Exception
            raise HeedError(f"The COMET model {name} cannot be loaded: {' '.join(str(error).split())}") from error

    def score(
        self, sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> MetricScore:
        """Return the mean over sentences and references, usually between 0 and 1; see `Metric`."""
        import torch

        samples = [
            {"src": src, "mt": hypothesis, "ref": ref}
            for reference in references
            for src, hypothesis, ref in zip(sources, hypotheses, reference, strict=True)
        ]
        predicted = self._model.predict(samples, gpus=int(torch.cuda.is_available()), progress_bar=False)
        signature = f"nrefs:{len(references)}|model:{self.name}|version:{version('unbabel-comet')}"
        return MetricScore(float(predicted.system_score), signature, None)


def _checkpoint(name: str) -> Path:
    if Path(name).is_file():
        return Path(name)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True)) / "checkpoints" / "model.ckpt"
    except (OSError, ValueError) as error:  # not in the cache, or not a valid model name
        raise HeedError(
            f"There is no COMET model {name} on this machine: give its checkpoint (….ckpt), or fetch it first with "
            f"`hf download {name}`."
        ) from error
