"""The scripts in recipes/ go on where they were stopped."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from heed.files import read_yaml
from tests.data.texts import numbered_dogs

RECIPES = Path(__file__).parents[1] / "recipes"
TINY = [
    "trainer=cpu", "model.d_model=8", "model.num_heads=2", "model.d_ff=16", "model.encoder_layers=1",
    "model.decoder_layers=1", "tokenizer.vocab_size=auto", "module.r_drop=0", "batching.batch_tokens=200",
    "schedule.warmup_steps=1", "trainer.max_steps=30", "trainer.validate_every=4", "trainer.log_every=1",
    "trainer.keep_last=2", "callbacks.diagnosis=null", "callbacks.attention_heads=null", "search.beam=2", "logger=none",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.full
@pytest.mark.reliability
@pytest.mark.posix("a POSIX shell")
def test_data_diversification_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    dogs = numbered_dogs(200)
    (tmp_path / "corpus").mkdir()
    for name, rows in (("train", slice(180)), ("val", slice(180, 190)), ("test_2016_flickr", slice(190, 200))):
        for side, texts in (("en", dogs.src[rows]), ("de", dogs.tgt[rows])):
            (tmp_path / "corpus" / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts))
    heed = tmp_path / "heed"
    heed.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexec {sys.executable} -m heed "$@"\n')
    heed.chmod(0o755)
    out, calls = tmp_path / "out", tmp_path / "calls"

    def start() -> "subprocess.Popen[str]":
        calls.write_text("")
        return subprocess.Popen(
            [RECIPES / "multi30k_diversified.sh", tmp_path / "corpus", *TINY, f"cache_dir='{tmp_path / 'cache'}'"],
            cwd=tmp_path, env={**os.environ, "HEED": str(heed), "OUT": str(out), "SEEDS": "1"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def kill_after_checkpoint(run: str) -> None:
        """Start the recipe, and kill it when this run has written a checkpoint."""
        process = start()
        while not [*(out / run / "checkpoints").glob("last-*.ckpt")]:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert not (out / run / "results.json").exists(), "killed too late"

    def called() -> list[str]:
        """The runs of the last start, with what was done, in order."""
        lines = [line.split() for line in calls.read_text().splitlines()]
        dirs = [next((Path(w.partition("=")[2].strip("'")).name for w in line if "run.dir" in w), "") for line in lines]
        return [
            " ".join([line[0], name, *(w for w in line if w == "resume=true")])
            for line, name in zip(lines, dirs, strict=True)
        ]

    def written() -> dict[Path, int]:
        """The times at which the finished runs and translations were written."""
        files = [*out.glob("*/results.json"), *out.glob("*/metrics.csv"), *out.glob("pairs/*.jsonl")]
        return {file: file.stat().st_mtime_ns for file in files}

    kill_after_checkpoint("backward-1")
    assert called() == ["train forward-1", "train backward-1"]
    before = written()
    kill_after_checkpoint("student-1")
    assert called() == ["train backward-1 resume=true", "synthesize ", "train student-1"]
    assert written()[out / "forward-1/results.json"] == before[out / "forward-1/results.json"]

    before = written()
    process = start()
    printed, _ = process.communicate()
    assert process.returncode == 0, printed
    assert called() == ["synthesize ", "train student-1 resume=true"]
    after = written()
    kept = {file for file in before if file.parent.name != "student-1"}
    assert {file: after[file] for file in kept} == {file: before[file] for file in kept}
    assert len([file for file in kept if file.suffix == ".jsonl"]) == 2
    whole, *resumed = (
        [line.partition(",")[0] for line in (out / run / "metrics.csv").read_text().splitlines()]
        for run in ("forward-1", "backward-1", "student-1")
    )
    assert resumed == [whole, whole], "no step was trained twice"
    train = read_yaml(out / "student-1/config.yaml")["data"]["train"]
    assert [Path(str(file)).name for file in train[1:]] == ["1.jsonl", "2.jsonl"]
    assert (out / "student-1/translations/test_2016_flickr.hyp").exists()
