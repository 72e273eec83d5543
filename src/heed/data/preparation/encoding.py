"""Token ids of the selected pairs of a training text, in the order of their digests, as Arrow files.

This is an external sort: each part of the text leaves its ids sorted by digest, and then every shard, which is a range
of digests, is merged from the parts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heed.data.arrow import batches_of, new_arrow_file, open_arrow_file
from heed.data.pairs import batch_rows, chunk_tokens, lengths
from heed.data.preparation.clean_text import DIGEST_LIMIT, CleanText
from heed.data.text import Advance
from heed.data.tokenizer import Tokenizer

SHARD = 1_000_000
"""Average number of pairs of a shard."""


@dataclass(frozen=True)
class EncodeTask:
    """A part to encode.

    Args:
        number: index of the part.
        text: folder of the `CleanText`.
        tokenizer: folder of the tokenizer.
        folder: where the result is written.
    """

    number: int
    text: Path
    tokenizer: Path
    folder: Path


def encode_part(task: EncodeTask, advance: Advance) -> None:
    """Write the ids of a part's pairs, sorted by digest, unless an interrupted preparation has done so."""
    path, text = _part_file(task.folder, task.number), CleanText(task.text)
    if path.exists():
        return
    # One thread, because there is a process for each core.
    tokenizer = Tokenizer.load(task.tokenizer, threads=1)
    ids = pa.list_(id_type(tokenizer))
    schema = pa.schema([("digest", pa.uint64()), ("src", ids), ("tgt", ids)])
    batches = []
    for block, digests in text.read(task.number):
        columns = digests, tokenizer.encode_src(block.src, tagged=False), tokenizer.encode_tgt(block.tgt)
        batches.append(pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema))
        advance(len(block))
    pairs = pa.Table.from_batches(batches, schema)
    with new_arrow_file(path, schema) as writer:
        writer.write_table(_sorted(pairs))


def id_type(tokenizer: Tokenizer) -> pa.DataType:
    """Return the smallest type that holds the ids."""
    return pa.uint16() if max(tokenizer.src_vocab, tokenizer.tgt_vocab) <= 2**16 else pa.int32()


def _part_file(folder: Path, part: int) -> Path:
    return folder / f"part-{part:05}.arrow"


def _sorted(pairs: pa.Table) -> pa.Table:
    """Return pairs in the order of their digests; the order of equal ones stays."""
    return pairs.take(pa.array(np.argsort(pairs["digest"].to_numpy(), kind="stable")))


# ---- shards


@dataclass(frozen=True)
class ShardTask:
    """A shard to write: the pairs with digests from ``low`` to below ``high``.

    Args:
        number: index of the shard.
        low, high: bounds of the digests.
        parts: number of encoded parts.
        chunk: pairs of a chunk.
        source: folder of the encoded parts.
        folder: where the shard is written.
    """

    number: int
    low: int
    high: int
    parts: int
    chunk: int
    source: Path
    folder: Path


class ShardSizes(NamedTuple):
    """What a shard holds: tokens of both sides of each chunk, and of the longest source, target and pair."""

    chunk_tokens: npt.NDArray[np.int64]
    longest: tuple[int, int, int]


def shard_tasks(pairs: int, text: CleanText, *, chunk: int, source: Path, folder: Path) -> list[ShardTask]:
    """Return the tasks that write all shards of ``pairs`` pairs."""
    count = max(1, round(pairs / SHARD))
    bounds = [number * text.bound // count for number in range(count)] + [DIGEST_LIMIT]
    return [
        ShardTask(number, bounds[number], bounds[number + 1], len(text.parts), chunk, source, folder)
        for number in range(count)
    ]


def write_shard(task: ShardTask, advance: Advance) -> ShardSizes:
    """Write a shard and return its sizes."""
    pieces = []
    for part in range(task.parts):
        with open_arrow_file(_part_file(task.source, part)) as reader:
            for batch in batches_of(reader):
                digests = batch["digest"].to_numpy()
                first = int(np.searchsorted(digests, np.uint64(task.low)))
                stop = int(np.searchsorted(digests, np.uint64(task.high - 1), side="right"))
                pieces.append(_copied(batch.slice(first, stop - first)))
    pairs = _sorted(pa.Table.from_batches(pieces)).select(["src", "tgt"]).combine_chunks()
    with new_arrow_file(shard_file(task.folder, task.number), pairs.schema) as writer:
        writer.write_table(pairs, max_chunksize=batch_rows(task.chunk))
    advance(len(pairs))
    src, tgt = (lengths(pairs[side].chunk(0)) if len(pairs) else np.zeros(0, np.int64) for side in ("src", "tgt"))
    longest = [int(side.max(initial=0)) for side in (src, tgt, src + tgt)]
    return ShardSizes(chunk_tokens(src, tgt, task.chunk), (longest[0], longest[1], longest[2]))


def _copied(batch: Any) -> Any:
    """Return a record batch in memory, which outlives the file that it was mapped from."""
    return batch.take(pa.array(np.arange(len(batch))))


def shard_file(folder: Path, number: int) -> Path:
    """Return the path of a shard."""
    return folder / f"shard-{number:05}.arrow"


def shard_files(folder: Path) -> Sequence[Path]:
    """Return the paths of all shards."""
    return sorted(folder.glob("shard-*.arrow"))
