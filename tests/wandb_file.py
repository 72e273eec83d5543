"""Read the files of offline wandb runs: protobuf records in LevelDB's log format (its doc/log_format.md)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.waiting import wait_for

BLOCK = 32768
FILE_HEADER = CHUNK_HEADER = 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


@dataclass
class WandbRun:
    """One offline run.

    Attributes:
        history: a dict for each call of ``log``.
        files: folder of its media.
    """

    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    files: Path = Path()
    run_id: str = ""
    name: str = ""
    group: str = ""


def read_wandb(folder: Path, part: str = "wandb/offline-run-*") -> WandbRun:
    """Read a part of a run folder's wandb run, by default the only one, and wait until wandb has written its end."""
    (path,) = folder.glob(f"{part}/run-*.wandb")
    # wandb's process may write after the run has ended; the exit code is its last record.
    return wait_for(lambda: run if (run := _read(path)).exit_code is not None else None)


def _read(path: Path) -> WandbRun:
    from wandb.proto.wandb_internal_pb2 import Record

    run = WandbRun(files=path.parent / "files")
    for data in _records(path.read_bytes()):
        record = Record.FromString(data)
        run.config |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        if record.HasField("run"):
            run.run_id, run.name, run.group = record.run.run_id, record.run.display_name, record.run.run_group
        if record.HasField("history"):
            run.history.append({_key(item): json.loads(item.value_json) for item in record.history.item})
        run.summary |= {_key(item): json.loads(item.value_json) for item in record.summary.update}
        if record.HasField("exit"):
            run.exit_code = record.exit.exit_code
    return run


def _key(item: Any) -> str:
    return item.key or ".".join(item.nested_key)


def _records(data: bytes) -> Iterator[bytes]:
    offset, parts = FILE_HEADER, b""
    while offset + CHUNK_HEADER <= len(data):
        if BLOCK - offset % BLOCK < CHUNK_HEADER:  # padding, too short for a chunk header
            offset += BLOCK - offset % BLOCK
            continue
        size, kind = int.from_bytes(data[offset + 4 : offset + 6], "little"), data[offset + 6]
        offset += CHUNK_HEADER
        if offset + size > len(data):
            return
        parts = data[offset : offset + size] if kind in (FULL, FIRST) else parts + data[offset : offset + size]
        offset += size
        if kind in (FULL, LAST):
            yield parts
