"""A fuzz case as plain data: a command, its standard input, and the damage to the files that it reads."""

import ast
import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import yaml

Damage = tuple[Any, ...]
"""(kind, file, details …): a key of `DAMAGES`, a path relative to the sandbox, and the arguments of that function."""

Pieces = Sequence[tuple[bytes, int]]
"""Bytes in a short form: (bytes, number of repetitions)."""


def joined(pieces: Pieces) -> bytes:
    return b"".join(piece * times for piece, times in pieces)


@dataclass(frozen=True)
class Case:
    """One run of ``heed`` or ``train.py``.

    Attributes:
        stdin: None means closed.
        stdout: "full" means a full disk.
        valid: the command must succeed; otherwise it may also exit with 2.
    """

    program: Literal["heed", "train.py"]
    arguments: tuple[str, ...]
    damages: tuple[Damage, ...] = ()
    stdin: Pieces | None = ()
    stdout: Literal["file", "full", "closed"] = "file"
    valid: bool = False

    def __str__(self) -> str:
        """Format the case as one line of ASCII for `parse`."""
        return ascii(asdict(self))

    @staticmethod
    def parse(text: str) -> "Case":
        return Case(**ast.literal_eval(text))

    def damage(self, sandbox: Path) -> None:
        for kind, file, *details in self.damages:
            path = sandbox / file
            path.parent.mkdir(parents=True, exist_ok=True)
            DAMAGES[kind](path, *details)


# ---- whole files


def write(path: Path, *pieces: tuple[bytes, int]) -> None:
    remove(path)
    path.write_bytes(joined(pieces))


def remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def directory(path: Path) -> None:
    remove(path)
    path.mkdir()


def fifo(path: Path) -> None:
    remove(path)
    os.mkfifo(path)


def loop(path: Path) -> None:
    """Replace the file by a symbolic link to itself."""
    remove(path)
    path.symlink_to(path.name)


def forbid(path: Path) -> None:
    """Remove all permissions, which does not affect root."""
    path.chmod(0)


def copy_over(path: Path, other: str) -> None:
    """Copy ``other``, a path relative to the sandbox, over this file, if ``other`` is a file."""
    sandbox = next(parent for parent in path.parents if (parent / other).parent.is_dir())
    if (sandbox / other).is_file():
        path.write_bytes((sandbox / other).read_bytes())


# ---- bytes; positions are in 1/1000 of the file


def cut(path: Path, position: int) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * position // 1000])


def flip(path: Path, *changes: tuple[int, int]) -> None:
    """Flip bits. Each change is a position, and the bits to flip in that byte."""
    content = bytearray(path.read_bytes())
    for position, bits in changes:
        if content:
            content[(len(content) - 1) * position // 1000] ^= bits
    path.write_bytes(content)


def insert(path: Path, position: int, piece: bytes, times: int) -> None:
    content = path.read_bytes()
    start = len(content) * position // 1000
    path.write_bytes(content[:start] + piece * times + content[start:])


# ---- structured files


def edit(path: Path, steps: Sequence[int], value: str | None) -> None:
    """Replace an entry of a structured file by a value in YAML, or delete it.

    Args:
        steps: path to the entry; each step is an index modulo the number of entries. Steps below a leaf are ignored.
        value: YAML; None deletes the entry.
    """
    read, save = FORMATS[path.suffix]
    tree = read(path.read_bytes())
    *outer, last = steps
    node = tree
    for step in outer:
        inner = _entry(node, step)
        if not (isinstance(node[inner], (dict, list)) and node[inner]):
            last = step
            break
        node = node[inner]
    key = _entry(node, last)
    if value is None:
        del node[key]
    else:
        node[key] = yaml.safe_load(value)
    path.write_bytes(save(tree))


def _entry(node: Any, step: int) -> Any:
    keys = list(node) if isinstance(node, dict) else range(len(node))
    return keys[step % len(keys)]


def not_a_number(path: Path) -> None:
    """Set every weight of a safetensors file to NaN."""
    header, data = _split_safetensors(path.read_bytes())
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\xff" * len(data))


def _split_safetensors(content: bytes) -> tuple[bytes, bytes]:
    start = 8 + int.from_bytes(content[:8], "little")
    return content[8:start], content[start:]


def _read_safetensors(content: bytes) -> dict[str, Any]:
    header, data = _split_safetensors(content)
    tree: dict[str, Any] = json.loads(header)
    return {**tree, "<data>": data}


def _save_safetensors(tree: dict[str, Any]) -> bytes:
    data = tree.pop("<data>", b"")
    header = json.dumps(tree, default=str).encode()
    return len(header).to_bytes(8, "little") + header + (data if isinstance(data, bytes) else b"")


def _read_checkpoint(content: bytes) -> Any:
    return torch.load(io.BytesIO(content), weights_only=True)


def _save_checkpoint(tree: Any) -> bytes:
    file = io.BytesIO()
    torch.save(tree, file)
    return file.getvalue()


FORMATS: dict[str, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    ".yaml": (yaml.safe_load, lambda tree: yaml.safe_dump(tree, sort_keys=False).encode("utf-8", "surrogatepass")),
    ".json": (json.loads, lambda tree: json.dumps(tree, default=str).encode()),
    ".safetensors": (_read_safetensors, _save_safetensors),
    ".ckpt": (_read_checkpoint, _save_checkpoint),
}

DAMAGES: dict[str, Callable[..., None]] = {
    function.__name__: function
    for function in (write, remove, directory, fifo, loop, forbid, copy_over, cut, flip, insert, edit, not_a_number)
}
