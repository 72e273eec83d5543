"""scripts/gpu_check.py, with its small models on a CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from heed.data.steps.steps import CPU_TOKENS

ROOT = Path(__file__).parents[2]


def gpu_check(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "scripts" / "gpu_check.py"), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_without_a_gpu_it_is_one_sentence(tmp_path: Path) -> None:
    for arguments, why in (
        ((), "gpu_check: This machine has no CUDA GPU: "),
        (("--only", "trian"), "gpu_check: There is no section trian: "),
    ):
        done = gpu_check(tmp_path, *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(why)
        assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_every_section_runs_with_small_models_and_a_failure_leaves_the_others(tmp_path: Path) -> None:
    done = gpu_check(tmp_path, "--device", "cpu", "--tiny", "--data", str(tmp_path / "missing"))
    report = json.loads((tmp_path / "gpu_check.json").read_text())
    # Only the data of Multi30k is missing.
    assert "error" in report["runs"].pop("multi30k"), report
    assert '"error"' not in json.dumps(report), report
    assert done.returncode == 1
    assert report["peak"]["tflops"] > 0
    variants = ("padding", "planned", "torch.nn.Transformer", "Hugging Face Marian")
    assert set(report["train"]) == {"transformer_tiny", *(f"transformer_tiny, {name}" for name in variants), "seconds"}
    for name in ("greedy", "beam 5"):
        assert report["decode"][name]["equal_to_cpu"]
        assert report["decode"][f"{name}, CTranslate2"]["equal"] == 1
    assert report["losses"]["fp32"] == 0
    assert 0 < report["losses"]["bf16"] < 0.02
    assert all(case["steps"] == 4 for name, case in report["runs"].items() if name != "seconds")
    for family in ("transformer", "rnn"):
        compared = report["agreement"][family]
        assert all(compared[name] == 1 for name in ("greedy", "beam 5", "sampling", "MBR", "alignments", "ablations"))
        assert report["repeat"][family] == {"again": 0, "from half": 0}
    assert report["runs"]["device_tokens=auto"]["device_tokens"] == CPU_TOKENS
