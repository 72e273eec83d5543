"""The private interfaces of libraries that heed uses still exist and work as heed expects."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf

from heed import compat

# ---- hydra


def test_hydra_job_error_is_the_exception_of_a_failed_job(capsys: pytest.CaptureFixture[str]) -> None:
    job, error = JobReturn(), ValueError("x")
    job.return_value = error
    job.status = JobStatus.FAILED
    assert compat.hydra_job_error(job) is error
    with pytest.raises(ValueError, match="x"):
        _ = job.return_value  # the public property, which also prints
    assert capsys.readouterr().err


def test_hydra_edit_loaded_configs_sees_each_file_under_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hydra._internal.config_loader_impl import ConfigLoaderImpl

    # The original is restored after the test.
    monkeypatch.setattr(ConfigLoaderImpl, "_load_single_config", ConfigLoaderImpl._load_single_config)
    (tmp_path / "group").mkdir()
    (tmp_path / "main.yaml").write_text("defaults:\n  - group: choice\n  - _self_\nroot: 1\n")
    (tmp_path / "group" / "choice.yaml").write_text("leaf: 2\n")

    def edit(config: Any) -> None:
        if OmegaConf.select(config, "group.leaf") == 2:
            config.group.leaf = 3

    compat.hydra_edit_loaded_configs(edit)
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(tmp_path), version_base="1.3"):
        assert compose("main") == {"group": {"leaf": 3}, "root": 1}


@pytest.mark.skipif(not compat.has_onednn_linear(), reason="this torch was built without oneDNN")
@pytest.mark.parametrize("biased", [True, False])
def test_onednn_linear_is_the_linear_map(biased: bool) -> None:
    weight, bias = torch.randn(11, 7), torch.randn(11) if biased else None
    x = torch.randn(3, 7)
    with torch.inference_mode():
        found = compat.onednn_linear(x, compat.onednn_packed_weight(weight), bias)
    torch.testing.assert_close(found, torch.nn.functional.linear(x, weight, bias))
