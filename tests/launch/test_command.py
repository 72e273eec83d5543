"""``python train.py`` and ``heed train``: one program with two names."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import distributed

from heed.errors import HeedError
from tests import forkserver

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "python train.py": [sys.executable, str(ROOT / "train.py")],
    "heed train": [sys.executable, "-m", "heed", "train"],
}


def run(program: str, *arguments: str, folder: Path, timeout: int = 300) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAMS[program], *arguments]
    return forkserver.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_names_the_program_and_lists_the_groups(program: str, tmp_path: Path) -> None:
    done = run(program, "--help", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {program} [GROUP=CHOICE")
    lines = done.stdout.splitlines()
    assert len(lines) < 60
    groups = {line.split()[0]: line.split()[1::2] for line in lines if " | " in line}
    assert groups["model/attention"] == sorted(path.stem for path in (ROOT / "conf/model/attention").iterdir())


def test_both_programs_compose_the_same_config(tmp_path: Path) -> None:
    arguments = ("model=rnn", "model.dropout=0.25", "--cfg", "job")
    one, other = (run(program, *arguments, folder=tmp_path) for program in PROGRAMS)
    assert one.stdout == other.stdout
    assert "dropout: 0.25" in one.stdout


def test_messages_name_the_program_that_was_called(tmp_path: Path) -> None:
    done = run("heed train", "modle=rnn", folder=tmp_path)
    assert done.returncode == 2
    unknown = "modle is unknown (did you mean module or model?)"
    assert done.stderr.startswith(f"heed train: {unknown}: `heed train --cfg job` shows")
    done = run("python train.py", "modle=rnn", folder=tmp_path)
    assert done.stderr.startswith(f"train.py: {unknown}: `python")
    assert f"{ROOT / 'train.py'} --cfg job` shows" in done.stderr


def test_presets_of_ones_own(tmp_path: Path) -> None:
    preset = tmp_path / "my_conf" / "experiment" / "mine.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_text("# @package _global_\nseed: 7\nmodel:\n  dropout: 0.125\n")
    done = run("heed train", "--config-dir", "my_conf", "experiment=mine", "--cfg", "job", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\nseed: 7\n" in done.stdout
    assert "dropout: 0.125" in done.stdout
    (tmp_path / "my_conf" / "primary.yaml").write_text("defaults: [train, _self_]\nseed: 8\n")
    words = ("--config-dir", "my_conf", "--config-name", "primary")
    assert "\nseed: 8\n" in run("heed train", *words, "--cfg", "job", folder=tmp_path).stdout
    # They are known to whatever composes the options again.
    done = run("heed train", "--config-dir", "my_conf", "experiment=mine", "model.dropoutt=0.3", folder=tmp_path)
    assert done.stderr.startswith("heed train: model.dropoutt is unknown (did you mean model.dropout?)")
    assert len(done.stderr.splitlines()) == 1
    write_pairs(tmp_path)
    for name in ("check", "prepare"):
        command = [sys.executable, "-m", "heed", name, *FILES, "experiment=mine", "--config-dir", "my_conf"]
        done = forkserver.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    done = run("heed train", "-m", "--config-dir=my_conf", "experiment=mine", "model.dropout=0.1,2", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("heed train: Job 1, experiment=mine model.dropout=2 ")
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_lightning_starts_the_processes_of_the_jobs_of_a_grid(tmp_path: Path) -> None:
    """The jobs of a grid have command lines of their own."""
    write_pairs(tmp_path)
    preset = tmp_path / "my_conf" / "experiment" / "mine.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_text("# @package _global_\nmodel:\n  dropout: 0.125\n")
    two = ("--config-dir", "my_conf", "experiment=mine", "trainer=ddp_cpu", "trainer.devices=2", *FILES)
    done = run("heed train", "-m", "seed=1,2", *two, "hydra.sweep.dir=grid", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    results = [json.loads(path.read_text()) for path in (tmp_path / "grid").glob("*/results.json")]
    assert [result["device"][:7] for result in results] == ["2 × cpu", "2 × cpu"]


def test_a_dry_run_prints_sizes_and_leaves_nothing(
    command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", pipe)
    write_pairs(tmp_path)
    status, err = command(*FILES, "trainer=cpu", "--dry-run")
    assert status == 0, err
    pipe.seek(0)
    printed = pipe.read()
    assert "xx \\u2192 yy" in printed
    assert not (tmp_path / "runs" / "files-transformer").exists()
    lines = dict(line.split(":", 1) for line in printed.splitlines())
    total = int(lines["Model"].split(",", 1)[1].split(" parameters")[0].replace(",", ""))
    parts = [int(part.split()[1].replace(",", "")) for part in lines["Parts"].split(", ")]
    assert sum(parts) == total
    assert "about 2 steps" in lines["Training"]
    assert lines["Learning"].strip() == "Muon with the peak rate 0.01, Cosine"
    needed, activations = (float(number) for number in re.findall(r"([\d.]+) (?:MB|for)", lines["Memory"]))
    assert 0 <= activations <= needed


def test_a_failed_run_leaves_the_process_group(
    command: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(cfg: object) -> None:
        distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
        raise HeedError("x")

    monkeypatch.setattr("heed.launch.train", fail)
    assert command() == (2, "train.py: x\n")
    assert not distributed.is_initialized()


FILES = [
    *("data=files", "data.src_lang=xx", "data.tgt_lang=yy", "data.cleaning.drop_leaked=false", "logger=none"),
    *("data.train=[[a.xx,a.yy]]", "data.valid=[[a.xx,a.yy]]", "data.test=[[a.xx,a.yy]]"),
    *("model.d_model=16", "model.num_heads=2", "model.d_ff=16", "model.encoder_layers=1", "model.decoder_layers=1"),
    *("trainer.max_epochs=null", "trainer.max_steps=2", "trainer.validate_every=2", "callbacks.attention_maps=null"),
    *("batching.batch_tokens=60", "batching.device_tokens=100", "schedule.warmup_steps=1"),
]


def write_pairs(folder: Path) -> None:
    lines = [" ".join("abcdefghij"[(i * j) % 10] for j in range(1, 4 + i % 5)) for i in range(30)]
    (folder / "a.xx").write_text("".join(f"{line}\n" for line in lines))
    (folder / "a.yy").write_text("".join(f"{line[::-1]}\n" for line in lines))
