"""``.hydra/`` of a run."""

from collections.abc import Callable
from pathlib import Path

import yaml
from omegaconf import OmegaConf

TINY = ["data.train=60", "data.valid=10", "data.test=6", "data.long=4", "model=rnn", "model.d_embedding=8",
        "model.d_model=8", "trainer=cpu", "trainer.max_steps=1", "trainer.validate_every=1", "logger=none",
        "search=greedy", "test=false"]  # fmt: skip


def test_a_run_has_hydras_files(command: Callable[..., tuple[int, str]]) -> None:
    status, err = command(*TINY, "name=x", "batching.seed=3")
    assert status == 0, err
    (line,) = (line for line in err.splitlines() if line.startswith("Options:"))
    assert line.startswith("Options:  model=rnn search=greedy trainer=cpu logger=none"), line
    (folder,) = Path("runs/x").iterdir()
    assert sorted(path.name for path in (folder / ".hydra").iterdir()) == [
        "config.yaml",
        "hydra.yaml",
        "overrides.yaml",
    ]
    assert yaml.safe_load((folder / ".hydra/overrides.yaml").read_text()) == [*TINY, "name=x", "batching.seed=3"]
    # Composed, not resolved; config.yaml of the run is resolved.
    composed = OmegaConf.load(folder / ".hydra/config.yaml")
    assert OmegaConf.to_container(composed)["data"]["cache_dir"] == "${cache_dir}"
    assert yaml.safe_load((folder / "config.yaml").read_text()) == OmegaConf.to_container(composed, resolve=True)
    hydra = OmegaConf.load(folder / ".hydra/hydra.yaml")
    assert Path(hydra.hydra.runtime.output_dir) == folder.absolute()
    assert hydra.hydra.runtime.choices.model == "rnn"
