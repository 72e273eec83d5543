"""``resume=RUN``: continue a run without its other options."""

from collections.abc import Sequence
from pathlib import Path

from heed.errors import HeedError
from heed.files import read_yaml
from heed.runs.config import HYDRA_FOLDER, read_overrides

TRUTHS = ("", "true", "false", "yes", "no", "on", "off", "1", "0")
"""Values of ``resume`` that name no run, as OmegaConf reads them."""


def expand_resume(words: Sequence[str]) -> list[str]:
    """Replace ``resume=RUN`` in a command line by the options of the run that are not in it, and its folder.

    Raises:
        HeedError: if there is no such run.
    """
    given = _by_name(words)
    value = given.get("resume", "").partition("=")[2].strip("'\"")
    if value.lower() in TRUTHS:
        return list(words)
    run = Path(value).expanduser().absolute()
    if not (run / HYDRA_FOLDER / "hydra.yaml").is_file():
        raise HeedError(f"resume={value} names no run: give its folder (runs/NAME/TIME), or true for the newest run.")
    hydra = read_yaml(run / HYDRA_FOLDER / "hydra.yaml")["hydra"]
    sources = [each["path"] for each in hydra["runtime"]["config_sources"] if each["provider"] == "command-line"]
    before = {
        name: word for name, word in _by_name(read_overrides(run)).items() if name not in given | {"ckpt_path": ""}
    }
    kept = [word for name, word in given.items() if name not in ("resume", "hydra.run.dir")]
    folders = [f"--config-dir={path}" for path in sources]
    return [*folders, *before.values(), *kept, f"hydra.run.dir='{run}'", "resume=true"]


def _by_name(words: Sequence[str]) -> dict[str, str]:
    return {word.lstrip("+~").partition("=")[0]: word for word in words}
