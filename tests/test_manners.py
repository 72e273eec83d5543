"""``train.py`` runs without network, terminal or home folder, and is reproducible."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

TINY = ["data=files", "data.cleaning.drop_leaked=false", "model=transformer", "model.d_model=16", "model.num_heads=2",
        "model.d_ff=16", "model.encoder_layers=1", "model.decoder_layers=1", "trainer=cpu", "trainer.max_epochs=null",
        "trainer.max_steps=4", "trainer.validate_every=2", "trainer.log_every=1",
        "callbacks.attention_maps.sentences=1", "batching.batch_tokens=60", "tokenizer.bpe_dropout=0.2"]  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> list[str]:
    rng = random.Random(5)
    lines = [" ".join(rng.choices("abcdefghij", k=rng.randint(2, 7))) for _ in range(30)]
    (tmp_path / "a.xx").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "a.yy").write_text("".join(f"{line[::-1]}\n" for line in lines))
    pair = f"[['{tmp_path}/a.xx','{tmp_path}/a.yy']]"
    return [*TINY, *(f"data.{split}={pair}" for split in ("train", "valid", "test"))]


def isolated_environment() -> dict[str, str]:
    """Return an environment with folders that not even root can create, and a proxy that does not answer."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "VIRTUAL_ENV") if name in os.environ}
    folders = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
               "MPLCONFIGDIR", "TMPDIR")  # fmt: skip
    proxies = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {
        **kept,
        **{name: f"/dev/null/{name}" for name in folders},
        **dict.fromkeys(proxies, "http://127.0.0.1:9"),
        "OMP_NUM_THREADS": "1",
    }


def without_network() -> list[str]:
    """Return the prefix of a command that runs it without network, empty if the system does not allow that."""
    command = ["unshare", "--net"]
    try:
        allowed = subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        allowed = False
    return command if allowed else []


@pytest.mark.full
def test_no_network_no_account_no_terminal_no_home(
    run: Callable[..., Path], settings: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "alone"
    done = subprocess.run(
        [*without_network(), sys.executable, ROOT / "train.py", *settings, f"hydra.run.dir={folder}"],
        cwd=tmp_path,
        env=isolated_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        start_new_session=True,  # a session without a terminal
        preexec_fn=lambda: os.close(0),
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    assert json.loads((folder / "results.json").read_text())["steps"] == 4
    assert list(folder.glob("wandb/offline-run-*/*.wandb"))
    assert list(folder.glob("attention/final/*.png"))
    # Progress lines are not overwritten without a terminal.
    assert "\r" not in done.stdout
    assert "ERROR" not in done.stdout
    # metrics.csv depends neither on time nor on the environment.
    reference = run("reference", *settings)
    assert (folder / "metrics.csv").read_bytes() == (reference / "metrics.csv").read_bytes()
