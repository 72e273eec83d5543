"""``.hydra/`` of a run."""

import yaml
from omegaconf import OmegaConf

from tests.finished import OPTIONS, FinishedRun


def test_a_run_has_hydras_files(finished: FinishedRun) -> None:
    (line,) = (line for line in finished.printed.splitlines() if line.startswith("Options:"))
    assert line.startswith("Options:  model=rnn search=greedy trainer=cpu logger=[csv,wandb]"), line
    folder = finished.folder
    names = ["config.yaml", "hydra.yaml", "overrides.yaml"]
    assert sorted(path.name for path in (folder / ".hydra").iterdir()) == names
    cache = f"cache_dir={folder.parents[2]}/cache"
    assert yaml.safe_load((folder / ".hydra/overrides.yaml").read_text()) == [*OPTIONS, cache]
    # Composed, not resolved; config.yaml of the run is resolved.
    composed = OmegaConf.load(folder / ".hydra/config.yaml")
    assert OmegaConf.to_container(composed)["data"]["cache_dir"] == "${cache_dir}"
    assert yaml.safe_load((folder / "config.yaml").read_text()) == OmegaConf.to_container(composed, resolve=True)
    hydra = OmegaConf.load(folder / ".hydra/hydra.yaml")
    assert hydra.hydra.runtime.output_dir == str(folder)
    assert hydra.hydra.runtime.choices.model == "rnn"
