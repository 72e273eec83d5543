"""Run folders as heed writes them, of any length, without training."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

VALIDATION = ("valid_loss", "valid_bleu", "valid_chrf")
SENTENCES = [
    "The <b>dog</b> didn't see the bank.",
    "The horse that slept under the bridge was very happy because it was old.",
]


def write_csv(file: Path, rows: list[dict[str, Any]], fields: tuple[str, ...]) -> None:
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, fields)
        writer.writeheader()
        writer.writerows(rows)


def make_run(folder: Path, *, steps: int = 60, log_every: int = 5, validate_every: int = 20, pieces: int = 12) -> Path:
    """Write the files of a run that was interrupted."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"name: mine\nseed: 1\ntrainer:\n  max_steps: {steps + 1}\n", encoding="utf-8")
    rows: list[dict[str, Any]] = []
    speed: list[dict[str, Any]] = []
    for step in range(1, steps + 1):
        x = step / steps
        if step % log_every == 0:
            rows.append({"step": step, "epoch": 0, "lr": 1e-3, "nll": 6 - 4 * x, "grad_norm": 2 + math.sin(step)})
            speed.append(
                {"step": step, "tokens": 100 * step, "seconds": 0.5 * step, "tokens_per_second": 200, "data_wait": 0.01}
            )
        if step % validate_every == 0:
            rows.append({"step": step, "epoch": 0, "valid_loss": 6 - 4 * x, "valid_bleu": 40 * x, "valid_chrf": 60 * x})
    write_csv(
        folder / "metrics.csv", rows, ("step", "epoch", "lr", "loss", "nll", "grad_norm", *VALIDATION, "valid_aer")
    )
    write_csv(folder / "speed.csv", speed, ("step", "tokens", "seconds", "tokens_per_second", "data_wait"))
    kept = [*range(validate_every, steps + 1, validate_every)][:100]
    with (folder / "samples.jsonl").open("w", encoding="utf-8") as file:
        for step in kept:
            translations = [f"Version {step} von {text}" for text in SENTENCES * 4]
            texts = {"source": SENTENCES * 4, "reference": SENTENCES * 4, "translation": translations}
            file.write(json.dumps({"step": step, "set": "valid", **texts}) + "\n")
    labels = [f"▁w{number}" for number in range(pieces)]
    names = [f"{number}_pronoun" for number in range(5)]
    for step in kept:
        (folder / "attention" / f"{step:07d}").mkdir(parents=True)
        weights = np.random.default_rng(step).dirichlet(np.full(pieces, 0.1), size=(2, 2, pieces)).astype(np.float16)
        np.savez_compressed(folder / "attention" / f"{step:07d}" / "maps.npz", **dict.fromkeys(names, weights))
    sides = {"source": SENTENCES[0], "target": SENTENCES[1], "rows": labels, "columns": labels, "gold": [[0, 1]]}
    heads = [
        {"step": step, "attention": "cross", "layer": 1, "head": head, "entropy": 0.5 / head, "aer": step / steps}
        for step in kept
        for head in (1, 2)
    ]
    write_csv(folder / "attention" / "heads.csv", heads, ("step", "attention", "layer", "head", "entropy", "aer"))
    (folder / "attention" / "pieces.json").write_text(json.dumps(dict.fromkeys(names, sides)), encoding="utf-8")
    (folder / "facts.json").write_text(
        json.dumps({"Data": "files, en → de", "Cleaning": "60 read, 58 kept", "Options": "seed=7"})
    )
    return folder


def results(**changes: Any) -> str:
    """Return the content of results.json."""
    scores = {"bleu": 41.25, "chrf": 60.5, "loss": 1.5, "bleu_signature": "nrefs:1|tok:13a", "chrf_signature": "nc:6"}
    facts = {
        "name": "mine", "model": "rnn", "data": "files", "seed": 1, "git": None,
        "params": 1_234_567, "steps": 60, "epochs": 2.5, "tokens": 6000,
        "train_seconds": 90.0, "tokens_per_second": 100.0, "weights": "best", "selected_step": 40,
        "options": ["model=rnn"], "data_digest": "abc", "tokenizer_digest": "def", "search": {"beam_size": 4},
        "valid": scores, "test": scores | {"bleu": 39.75}, "tests": {"test": scores | {"bleu": 39.75}},
    }  # fmt: skip
    return json.dumps({**facts, **changes})
