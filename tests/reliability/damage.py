"""Damage to the files that a case reads: truncated, edited, exchanged or malicious ones."""

import gzip
import io
import json
import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml
from hypothesis import strategies as st

from tests.reliability.execution import MARK, Case


def write(path: Path, *pieces: tuple[bytes, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(piece * times for piece, times in pieces))


def replace_by(path: Path, kind: str) -> None:
    """Replace the file by nothing, a folder, a named pipe, a link to itself, or a file that cannot be read."""
    if kind == "forbidden":
        return path.chmod(0)  # without effect for root
    path.unlink()
    make = {"folder": path.mkdir, "fifo": lambda: os.mkfifo(path), "loop": lambda: path.symlink_to(path.name)}
    return make.get(kind, lambda: None)()


def copy_over(path: Path, other: str) -> None:
    """Copy the file ``other``, relative to the same root, over this one."""
    root = next(parent for parent in path.parents if (parent / other).is_file())
    path.write_bytes((root / other).read_bytes())


def cut(path: Path, position: int) -> None:
    """Cut the file. Positions are in 1/1000 of the file."""
    os.truncate(path, path.stat().st_size * position // 1000)


def flip(path: Path, *changes: tuple[int, int]) -> None:
    """Flip bits. Each change is a position, and the bits to flip in that byte."""
    content = bytearray(path.read_bytes())
    for position, bits in changes if content else ():
        content[(len(content) - 1) * position // 1000] ^= bits
    path.write_bytes(content)


def insert(path: Path, position: int, piece: bytes, times: int) -> None:
    content = path.read_bytes()
    start = len(content) * position // 1000
    path.write_bytes(content[:start] + piece * times + content[start:])


def not_a_number(path: Path) -> None:
    """Set every weight of a safetensors file to NaN."""
    content = path.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    path.write_bytes(content[:start] + b"\xff" * (len(content) - start))


def edit(path: Path, place: int, value: str | None) -> None:
    """Replace an entry of a structured file by a value in YAML, or delete it (None).

    Args:
        place: which of all entries, modulo their number.
    """
    content, data = path.read_bytes(), b""
    if path.suffix == ".safetensors":
        start = 8 + int.from_bytes(content[:8], "little")
        content, data = content[8:start], content[start:]
    tree = torch.load(io.BytesIO(content), weights_only=True) if path.suffix == ".ckpt" else yaml.safe_load(content)
    entries = list(_entries(tree))
    node, key = entries[place % len(entries)]
    if value is None:
        del node[key]
    else:
        node[key] = yaml.safe_load(value)
    if path.suffix == ".ckpt":
        path.write_bytes(saved(tree))
    elif path.suffix == ".yaml":
        path.write_bytes(yaml.safe_dump(tree, sort_keys=False).encode("utf-8", "surrogatepass"))
    else:
        header = json.dumps(tree, default=str).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + data if data else header)


def _entries(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every entry of nested mappings and lists."""
    for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
        yield node, key
        yield from _entries(node[key])


def saved(content: Any) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def parquet(**columns: list[object]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


class Execute:
    """Pickles to code that runs when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, (f"open({MARK!r}, 'w').close()",))


# fmt: off
PIECES = [
    b"\xef\xbb\xbf", b"\xff\xfe", b"\r\n", b"\r", b"\n", b"\n\n", b"\0", b"\xff", b"\xed\xa0\x80", b"\xc3", b" ", b"\t",
    *map(str.encode, ("\u2028", "\u3000", "\u202e", "e\u0301", "💥", "x", "<s>", "[", "{", '{"a":', '"', "- ", ": ")),
    b'{"src": 1}\n', b'{"src": null, "tgt": []}\n', b'{"src": "\\ud800", "tgt": "a"}\n', b'"\\ud800"', b"[]\n",
    b"&a *a", b"null\n", b"1e999\n", b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"PAR1",
]
"""Bytes to insert anywhere into a file."""
BOMB = b"a: &a [x, x]\n" + b"".join(b"%c: &%c [*%c, *%c]\n" % (n + 1, n + 1, n, n) for n in range(97, 121))
CONTENTS = [*((content, 1) for content in (
    b"", b"\n", b" \n", b"\0" * 100, b"\xff" * 100, "ä".encode("utf-16"), gzip.compress(b"a b c\n", mtime=0),
    b"{}", b"[]", b"null", b"true", b"1", b'"x"', b"&a [*a]", b"family: &a {b: *a}\nmodel: *a\n", b"PAR1", BOMB,
    saved({}), saved([1]), saved({"state_dict": {}, "loops": {}, "callbacks": {}}),
    pickle.dumps(Execute()), saved(Execute()), saved({"state_dict": Execute(), "loops": {}, "callbacks": {}}),
    f"!!python/object/apply:os.system ['touch {MARK}']\n".encode(),
)), (b"[", 100_000), (b'{"a":', 100_000), (b"- ", 1000), (b"{", 1000)]
"""Contents of whole files."""
TABLES = [
    parquet(src=[1, 2], tgt=["a", "b"]), parquet(src=[None, "a"], tgt=["a", None]), parquet(src=["a"]), parquet(),
    parquet(src=[["a"]], tgt=["b"]), parquet(src=[{"a": "b"}], tgt=["b"]), parquet(src=[b"\xff"], tgt=["b"]),
    parquet(src=[], tgt=[]),
]
"""Contents of parquet files."""
VALUES = [
    "null", "true", "-1", "0", "1", "2147483648", "1099511627776", "9223372036854775808", "0.5", "1e308", ".nan",
    ".inf", "''", "x", "'1'", "'???'", "'${nowhere}'", "[]", "[1]", "[x]", "{}", "{a: 1}", "2020-01-01",
    "!!binary aGVlZA==", "x" * 300, "[&a [1], *a]", "[" * 200 + "]" * 200, '"\\ud800"', '"\\0"',
    "{_target_: os.getcwd}",
]
"""Values of entries in structured files, in YAML."""
# fmt: on
POSITIONS = st.integers(0, 1000)


def damages(files: Sequence[str]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Damage one of the files."""

    def damage_to(file: str) -> st.SearchStrategy[tuple[Any, ...]]:
        this = st.just(file)
        kinds: list[st.SearchStrategy[tuple[Any, ...]]] = [
            st.tuples(st.just(replace_by), this, st.sampled_from(["nothing", "folder", "fifo", "loop", "forbidden"])),
            st.tuples(st.just(copy_over), this, st.sampled_from(files)),
            st.tuples(st.just(write), this, st.sampled_from(CONTENTS)),
            st.tuples(st.just(cut), this, POSITIONS),
            st.tuples(st.just(flip), this, st.tuples(POSITIONS, st.integers(1, 255))),
            st.tuples(st.just(insert), this, POSITIONS, st.sampled_from(PIECES), st.sampled_from([1, 2, 200_000])),
        ]
        if file.endswith((".yaml", ".json", ".ckpt", ".safetensors")):
            kinds += [st.tuples(st.just(edit), this, POSITIONS, st.none() | st.sampled_from(VALUES))] * 3
        if file.endswith(".parquet"):
            kinds.append(st.tuples(st.just(write), this, st.tuples(st.sampled_from(TABLES), st.just(1))))
        if file.endswith(".safetensors"):
            kinds.append(st.tuples(st.just(not_a_number), this))
        return st.one_of(kinds)

    return st.sampled_from(files).flatmap(damage_to)


@st.composite
def damaged(draw: st.DrawFn, case: Case, files: Sequence[str]) -> Case:
    """The unchanged case, which must succeed, or the case with one or two damaged files."""
    count = draw(st.sampled_from([0, 0, 1, 1, 2]))
    found = draw(st.lists(damages(files), min_size=count, max_size=count, unique_by=lambda damage: damage[1]))
    return replace(case, damages=(*case.damages, *found), valid=not found)
