"""The undamaged files of all cases: a small corpus, and a finished run of each model family."""

import io
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.reliability.fuzz.case import Case
from tests.reliability.fuzz.execute import outcome

LINES = [(f"{'a b c d e f'[: 1 + i % 11]} {i}", f"{'f e d c b a'[: 1 + i % 11]} {i}") for i in range(16)]
LINES_HELD_OUT = [("a b c 99", "c b a 99"), ("d 98", "d 98"), ("e f 97", "f e 97")]

TINY = {
    "rnn": {"model": "rnn", "model.d_embedding": "8", "model.d_model": "8"},
    "transformer": {"model": "transformer", "model.d_model": "8", "model.d_ff": "8", "model.num_heads": "2",
                    "model.encoder_layers": "1", "model.decoder_layers": "1"},
}  # fmt: skip
"""Options by model family."""

PAIR, HELD_OUT = "[[in/text.xx,in/text.yy]]", "[[in/held_out.xx,in/held_out.yy]]"
HUB = {"data.root": "in/hub"}
DATA = {
    "files": {"data.train": PAIR, "data.valid": HELD_OUT, "data.test": HELD_OUT},
    "synthetic": {"data.train": "40", "data.valid": "8", "data.test": "8", "data.long": "8"},
    "multi30k": HUB,
    "tatoeba": HUB,
}
"""Options by corpus, for an epoch of about one step."""

BASE = {
    "trainer": "cpu",
    "trainer.max_epochs": "1",
    "trainer.max_steps": "1",
    "trainer.validate_every": "1",
    "callbacks.attention_maps.sentences": "0",
    "callbacks.sample_translations.sentences": "1",
    "logger": "none",
    "search": "greedy",
    "weights": "last",
    "batching.batch_tokens": "60",
    "cache_dir": "cache",
    "name": "run",
}


UNFINISHED = "runs/run/2026-01-01_00-00-00"
"""A copy of the RNN's run without results."""
TWO_STEPS = {"trainer.max_steps": "2", "trainer.keep_last": "2", "batching.batch_tokens": "30"}


def overrides(options: dict[str, str]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in options.items())


def text_files(pairs: Sequence[tuple[str, str]]) -> tuple[bytes, ...]:
    return tuple("".join(f"{pair[side]}\n" for pair in pairs).encode() for side in (0, 1))


def parquet(**columns: list[object]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def build_home(folder: Path) -> Path:
    """Write the corpus and train both models for two steps."""
    inputs = folder / "in"
    (inputs / "hub").mkdir(parents=True)
    (inputs / "gold.txt").write_text("0-0\n" * len(LINES))
    train, held_out = text_files(LINES), text_files(LINES_HELD_OUT)
    for stem, sides in (("text", train), ("held_out", held_out)):
        for suffix, side in zip(("xx", "yy"), sides, strict=True):
            (inputs / f"{stem}.{suffix}").write_bytes(side)
    for stem, sides in {"train": train, "val": held_out, "test": held_out, "test_2016_flickr": held_out}.items():
        for suffix, side in zip(("en", "de"), sides, strict=True):
            (inputs / "hub" / f"{stem}.{suffix}").write_bytes(side)
    for family, tiny in TINY.items():
        train_in(
            folder, {**BASE, "data": "files", **DATA["files"], **tiny, **TWO_STEPS, "hydra.run.dir": f"in/{family}"}
        )
    shutil.copytree(inputs / "rnn", folder / UNFINISHED)
    (folder / UNFINISHED / "results.json").unlink()
    return folder


def train_in(home: Path, options: dict[str, str]) -> None:
    """Train a run inside ``home``."""
    case = Case("train.py", overrides(options), valid=True)
    with outcome(case, home, limit=120) as seen:
        assert seen.status == 0, seen.stderr.decode()
        for path in seen.written:
            target = home / path.relative_to(seen.sandbox)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
