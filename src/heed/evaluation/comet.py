"""COMET and CometKiwi, learned metrics (Rei et al. 2020, 2022), computed by Unbabel's program ``comet-score``.

The program is installed in an environment of its own, because it needs other versions of heed's packages.
"""

import json
import os
import re
import shutil
import subprocess
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory

from heed.errors import HeedError, argument
from heed.evaluation.scores import MetricScore, SystemOutput

PROGRAM = "comet-score"
INSTALL = "uv tool install unbabel-comet --with 'setuptools<81'"
"""The command that installs the program. It imports ``pkg_resources``, which setuptools 81 no longer has."""
DEFAULT_MODEL = "Unbabel/wmt22-comet-da"


def comet(output: SystemOutput, *, name: str = DEFAULT_MODEL) -> MetricScore:
    """Return the mean score over sentences and references, usually between 0 and 1. Nothing is downloaded.

    Args:
        name: A folder with ``hparams.yaml`` and ``checkpoints/model.ckpt``, the checkpoint in such a folder, or a model
            of the Hugging Face hub that is in the local cache.

    Raises:
        HeedError: the program, the model or the source sentences are missing.
    """
    from torch.cuda import is_available

    if output.sources is None:
        raise HeedError(f"COMET needs the source sentences: add {argument('src', 'FILE')}.")
    program = shutil.which(PROGRAM)
    if program is None:
        raise HeedError(f"COMET needs the program {PROGRAM}, which is not on PATH: install it with `{INSTALL}`.")
    model = Path(name, "checkpoints", "model.ckpt") if Path(name).is_dir() else name
    repeats = len(output.references)  # each translation is scored with each reference
    texts = {
        "sources": [*output.sources] * repeats,
        "translations": [*output.hypotheses] * repeats,
        "references": [line for lines in output.references for line in lines],
    }
    with TemporaryDirectory() as folder:
        scores = Path(folder, "scores.json")
        command = [program, "--model", str(model), "--to_json", str(scores), "--quiet", "--only_system"]
        command += ["--gpus", str(int(is_available())), "--num_workers", "0"]
        for kind, lines in texts.items():
            file = Path(folder, kind)
            file.write_text("".join(re.sub(r"[\r\n]", " ", line) + "\n" for line in lines), encoding="utf-8")
            command += [f"--{kind}", str(file)]
        offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", env=offline)
        if done.returncode or not scores.exists():
            reason = done.stderr.strip().rpartition("\n")[2] or "no message"
            raise HeedError(
                f"{PROGRAM} cannot score with COMET {name} ({reason}): if the model or its encoder is not on this "
                f"machine, fetch it with `hf download {name}`."
            )
        (rows,) = json.loads(scores.read_text(encoding="utf-8")).values()
    value = sum(row["COMET"] for row in rows) / len(rows)
    return MetricScore(value, f"nrefs:{repeats}|model:{name}|unbabel-comet:{_version(Path(program))}")


def _version(program: Path) -> str:
    """Return the version of the package in the environment of its program."""
    packages = program.resolve().parents[1].glob("[lL]ib/**/site-packages")
    found = distributions(name="unbabel-comet", path=[str(folder) for folder in packages])
    return next((each.version for each in found), "unknown")
