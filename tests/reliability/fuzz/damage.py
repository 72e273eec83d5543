"""Strategies for damage to files: truncated, edited, corrupted, exchanged or malicious ones."""

import gzip
import io
import pickle
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests.reliability.fuzz.case import Case, Damage
from tests.reliability.fuzz.execute import MARK
from tests.reliability.fuzz.home import parquet


class Execute:
    """Pickles to code that runs when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, (f"open({MARK!r}, 'w').close()",))


def _saved(content: Any) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


# fmt: off
PIECES = [
    b"\xef\xbb\xbf", b"\xff\xfe", b"\r\n", b"\r", b"\n", b"\n\n", b"\0", b"\xff", b"\xed\xa0\x80", b"\xc3", b" ", b"\t",
    *map(str.encode, ("\u2028", "\u3000", "\u202e", "e\u0301", "💥", "x", "<s>", "[", "{", '{"a":', '"', "- ", ": ")),
    b'{"src": 1}\n', b'{"src": null, "tgt": []}\n', b'{"src": "\\ud800", "tgt": "a"}\n', b'"\\ud800"', b"[]\n",
    b"&a *a", b"null\n", b"1e999\n", b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"PAR1",
]
"""Bytes to insert anywhere into a file."""

BOMB = b"a: &a [x, x]\n" + b"".join(b"%c: &%c [*%c, *%c]\n" % (n + 1, n + 1, n, n) for n in range(97, 121))
CONTENTS = [
    b"", b"\n", b" \n", b"\0" * 100, b"\xff" * 100, "ä".encode("utf-16"), gzip.compress(b"a b c\n", mtime=0),
    b"{}", b"[]", b"null", b"true", b"1", b'"x"', b"&a [*a]", b"family: &a {b: *a}\nmodel: *a\n", b"PAR1", BOMB,
    _saved({}), _saved([1]), _saved({"state_dict": {}, "loops": {}, "callbacks": {}}),
    pickle.dumps(Execute()), _saved(Execute()), _saved({"state_dict": Execute(), "loops": {}, "callbacks": {}}),
    f"!!python/object/apply:os.system ['touch {MARK}']\n".encode(),
]
"""Contents of whole files."""
NESTED = [(b"[", 100_000), (b'{"a":', 100_000), (b"- ", 1000), (b"{", 1000)]

VALUES = [
    "null", "true", "-1", "0", "1", "2147483648", "1099511627776", "9223372036854775808", "0.5", "1e308", ".nan",
    ".inf", "''", "x", "'1'", "'???'", "'${nowhere}'", "[]", "[1]", "[x]", "{}", "{a: 1}", "2020-01-01",
    "!!binary aGVlZA==", "x" * 300, "[&a [1], *a]", "[" * 200 + "]" * 200, '"\\ud800"', '"\\0"',
    "{_target_: os.getcwd}",
]
"""Values of entries in structured files, in YAML."""

TABLES = [
    parquet(src=[1, 2], tgt=["a", "b"]), parquet(src=[None, "a"], tgt=["a", None]), parquet(src=["a"]), parquet(),
    parquet(src=[["a"]], tgt=["b"]), parquet(src=[{"a": "b"}], tgt=["b"]), parquet(src=[b"\xff"], tgt=["b"]),
    parquet(src=[], tgt=[]),
]
"""Contents of parquet files."""
# fmt: on

POSITIONS = st.integers(0, 1000)
STRUCTURED = (".yaml", ".json", ".ckpt", ".safetensors")


def damages(files: Sequence[str]) -> st.SearchStrategy[Damage]:
    """Damage one of the files."""

    def damage_to(file: str) -> st.SearchStrategy[Damage]:
        whole = [(kind, file) for kind in ("remove", "directory", "fifo", "loop", "forbid")]
        kinds: list[st.SearchStrategy[Damage]] = [
            st.sampled_from(whole),
            st.sampled_from(files).map(lambda other: ("copy_over", file, other)),
            st.one_of(st.tuples(st.sampled_from(CONTENTS), st.just(1)), st.sampled_from(NESTED)).map(
                lambda content: ("write", file, content)
            ),
            POSITIONS.map(lambda position: ("cut", file, position)),
            st.lists(st.tuples(POSITIONS, st.integers(1, 255)), min_size=1, max_size=4).map(
                lambda changes: ("flip", file, *changes)
            ),
            st.tuples(POSITIONS, st.sampled_from(PIECES), st.sampled_from([1, 2, 200_000])).map(
                lambda piece: ("insert", file, *piece)
            ),
        ]
        if file.endswith(STRUCTURED):
            steps = st.lists(st.integers(0, 40), min_size=1, max_size=4).map(tuple)
            edits: st.SearchStrategy[Damage] = st.tuples(steps, st.none() | st.sampled_from(VALUES)).map(
                lambda edit: ("edit", file, *edit)
            )
            kinds += [edits, edits, edits]
        if file.endswith(".parquet"):
            kinds.append(st.sampled_from(TABLES).map(lambda table: ("write", file, (table, 1))))
        if file.endswith(".safetensors"):
            kinds.append(st.just(("not_a_number", file)))
        return st.one_of(kinds)

    return st.sampled_from(files).flatmap(damage_to)


@st.composite
def damaged(draw: st.DrawFn, case: Case, files: Sequence[str]) -> Case:
    """The unchanged case, which must succeed, or the case with one or two damaged files."""
    count = draw(st.sampled_from([0, 0, 1, 1, 2]))
    found = draw(st.lists(damages(files), min_size=count, max_size=count, unique_by=lambda damage: damage[1]))
    return replace(case, damages=(*case.damages, *found), valid=not found)
