"""``diversify=N``: a training on the translations of other models."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heed.errors import HeedError
from heed.files import read_yaml
from heed.launch import diversification

Command = Callable[..., tuple[int, str]]

TINY = [
    "data=synthetic", "data.train=300", "data.valid=20", "data.test=20", "data.long=20", "trainer=cpu",
    "trainer.max_epochs=null", "trainer.max_steps=8", "trainer.validate_every=4", "model=rnn", "model.d_embedding=8",
    "model.d_model=8", "batching.batch_tokens=200", "schedule.warmup_steps=0", "callbacks.attention_maps=null",
    "callbacks.diagnosis=null", "callbacks.attention_heads=null", "search=greedy", "logger=none", "diversify=1",
]  # fmt: skip


def test_a_run_trains_on_the_translations_of_models_of_both_directions(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    run = subprocess.run

    def recorded(words: Any, **options: Any) -> Any:
        if words[1:3] != ["-m", "heed"]:  # git
            return run(words, **options)
        calls.append([words[3], *(word for word in words if word.startswith(("seed", "data.reverse", "resume")))])
        if len(calls) == 2:  # the second model is interrupted
            words = [*words, "trainer.max_time=00:00:00:00", "hydra.run.dir=/dev/null/none"]
        return run(words, **options)

    monkeypatch.setattr(diversification.subprocess, "run", recorded)
    status, err = command(*TINY, "hydra.run.dir=run")
    assert status == 2
    assert "diversify= ended because heed train failed" in err
    status, err = command(*TINY, "hydra.run.dir=run")
    assert status == 0, err
    forward, backward = (["train", "resume=false", f"data.reverse={is_reverse}"] for is_reverse in ("false", "true"))
    assert [sorted(call) for call in calls] == [
        sorted(call) for call in ([*forward, "seed=1"], [*backward, "seed=1"], [*backward, "seed=1"], ["synthesize"])
    ]

    config = read_yaml(Path("run/config.yaml"))
    (src, tgt), forward_pairs, backward_pairs = config["data"]["train"]
    genuine = list(zip(*(Path(file).read_text(encoding="utf-8").splitlines() for file in (src, tgt)), strict=True))
    assert len(genuine) == 300
    for file, side in ((forward_pairs, 0), (backward_pairs, 1)):
        pairs = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
        assert [(pair["src"], pair["tgt"])[side] for pair in pairs] == [pair[side] for pair in genuine]
        assert [(pair["src"], pair["tgt"]) for pair in pairs] != genuine
    assert set(config["data"]["test"]) == {"test", "long"}
    assert Path("run/translations/long.hyp").exists()

    calls.clear()
    Path(config["cache_dir"]).rename("moved")
    others = ["seed=2", "trainer.log_every=7", "cache_dir=moved", "hydra.run.dir=other"]
    status, err = command(*TINY, *others)
    assert status == 0, err
    assert calls == []  # another seed trains on the same translations

    def refused(words: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        calls.append(words[3:4])
        return subprocess.CompletedProcess(words, 1)

    monkeypatch.setattr(diversification.subprocess, "run", refused)
    assert command(*TINY, "data.noise={typos: 0.1}", "cache_dir=moved", "hydra.run.dir=noisy")[0] == 2
    assert calls[-1] == ["train"]  # noise needs other models


def test_several_directions_are_refused(compose: Callable[..., Any], tmp_path: Path) -> None:
    cfg = compose(*TINY, "data.both_directions=true", f"cache_dir={tmp_path}")
    with pytest.raises(HeedError, match="diversify= needs a single text of one direction"):
        diversification.diversify(cfg)
