"""Sentence pairs as token ids, in Arrow lists: in memory, or memory-mapped and read in chunks."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heed.data.arrow import batches_of

IntArray = npt.NDArray[np.int64]

CHUNKS = 2**16
"""Chunks of a text, unless they would be larger than ``MAX_CHUNK``: enough to shuffle by chunks."""

MAX_CHUNK = 256
"""Largest number of pairs of a chunk: some 15 kB of ids for each side, which a disk reads as fast as a single page."""

BATCH = 4096
"""Largest number of pairs of an Arrow record batch in a file."""


def id_lists(sequences: Sequence[Sequence[int]]) -> pa.ListArray:
    """Return token ids as Arrow lists."""
    return pa.array(sequences, pa.list_(pa.int32()))


def lengths(ids: pa.ListArray) -> IntArray:
    """Return the length of each list."""
    return np.diff(ids.offsets.to_numpy()).astype(np.int64)


def flatten(ids: pa.ListArray) -> tuple[npt.NDArray[np.integer[Any]], IntArray]:
    """Return the ids of all lists in one array, and the start of each list in it with the end of the last."""
    offsets = ids.offsets.to_numpy().astype(np.int64)
    return ids.flatten().to_numpy(), offsets - offsets[0]


def unflatten(values: npt.NDArray[np.integer[Any]], lengths: IntArray) -> pa.ListArray:
    """Return the lists of these lengths in ``values``."""
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs in memory, as token ids without BOS and EOS; pair i is ``src[i]``, ``tgt[i]``."""

    rows: IntArray
    """Index of each pair in the training set."""
    src: pa.ListArray
    tgt: pa.ListArray

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def src_lengths(self) -> IntArray:
        """Source tokens of each pair, without EOS."""
        return lengths(self.src)

    @cached_property
    def tgt_lengths(self) -> IntArray:
        """Target tokens of each pair, without EOS."""
        return lengths(self.tgt)

    def take(self, index: IntArray) -> "Pairs":
        """Return some of the pairs."""
        rows = pa.array(index)
        return Pairs(self.rows[index], self.src.take(rows), self.tgt.take(rows))

    @classmethod
    def concatenate(cls, parts: Sequence["Pairs"]) -> "Pairs":
        """Return the pairs of all parts."""
        return cls(
            np.concatenate([part.rows for part in parts]),
            pa.concat_arrays([part.src for part in parts]),
            pa.concat_arrays([part.tgt for part in parts]),
        )


class StoredPairs:
    """Training pairs in chunks.

    Args:
        batches: record batches with the columns "src" and "tgt", which are lists of ids without BOS and EOS.
        chunk: pairs of a chunk; the last one of a batch may have fewer.
        tokens: source and target tokens of each chunk, without EOS; None: they are counted.
        longest: tokens of the longest source, the longest target and the longest pair, without EOS.
        digest: of the content; the same for the same text and tokenizer.
        folder: of the files; None: the pairs are in memory.
    """

    def __init__(
        self,
        batches: Iterable[pa.RecordBatch],
        *,
        chunk: int,
        tokens: IntArray | None = None,
        longest: tuple[int, int, int] = (0, 0, 0),
        digest: str = "",
        folder: Path | None = None,
    ) -> None:
        self._batches = list(batches)
        self._chunk = chunk
        sizes = np.array([len(batch) for batch in self._batches])
        self._first_row = np.append(0, np.cumsum(sizes))
        self._first_chunk = np.append(0, np.cumsum(-(-sizes // chunk)))
        self.longest, self.digest, self.folder = longest, digest, folder
        self.chunk_tokens = _count_tokens(self._batches, chunk) if tokens is None else tokens
        """Chunks × 2: source and target tokens of each chunk, without EOS."""

    @classmethod
    def in_memory(cls, src: pa.ListArray, tgt: pa.ListArray, *, chunk: int = 1) -> "StoredPairs":
        """Return pairs in memory as stored ones."""
        return cls([pa.record_batch([src, tgt], ["src", "tgt"])], chunk=chunk)

    @classmethod
    def load(cls, folder: Path) -> "StoredPairs":
        """Return the pairs that `heed.data.preparation` wrote to a folder. Their files are memory-mapped."""
        content = json.loads((folder / "pairs.json").read_text(encoding="utf-8"))
        files = sorted(folder.glob("shard-*.arrow"))
        readers = [pa.ipc.open_file(pa.memory_map(str(file))) for file in files]
        return cls(
            [batch for reader in readers for batch in batches_of(reader)],
            chunk=content["chunk"],
            tokens=np.load(folder / "tokens.npy"),
            longest=content["longest"],
            digest=content["digest"],
            folder=folder,
        )

    def __len__(self) -> int:
        return int(self._first_row[-1])

    @cached_property
    def chunk_rows(self) -> IntArray:
        """Pairs of each chunk."""
        chunks = np.diff(self._first_chunk)
        rows = np.full(int(self._first_chunk[-1]), self._chunk)
        rows[self._first_chunk[1:][chunks > 0] - 1] -= (chunks * self._chunk - np.diff(self._first_row))[chunks > 0]
        return rows

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return int(self._first_chunk[-1])

    def lengths(self, chunk: int) -> IntArray:
        """Return the tokens of source and target of each pair of a chunk (pairs × 2), without EOS."""
        number = int(np.searchsorted(self._first_chunk, chunk, side="right")) - 1
        batch = self._batches[number].slice((chunk - int(self._first_chunk[number])) * self._chunk, self._chunk)
        return np.stack([lengths(batch["src"]), lengths(batch["tgt"])], axis=1)

    def read(self, chunks: IntArray) -> Pairs:
        """Return the pairs of these chunks, in their order, in memory."""
        owners = np.searchsorted(self._first_chunk, chunks, side="right") - 1
        counts = self.chunk_rows[chunks]
        ends = np.cumsum(counts)
        # Row of each pair in its batch: the row of its chunk, and the position in the chunk.
        first = (chunks - self._first_chunk[owners]) * self._chunk
        rows = np.arange(int(ends[-1])) + np.repeat(first - (ends - counts), counts)
        owners = np.repeat(owners, counts)
        # Lists are gathered batch by batch: one array of all batches would have to be copied.
        by_batch = np.argsort(owners, kind="stable")
        cuts = np.flatnonzero(np.diff(owners[by_batch])) + 1
        parts = [
            Pairs(rows[group] + self._first_row[number], pairs["src"], pairs["tgt"])
            for group in np.split(by_batch, cuts)
            for number in [int(owners[group[0]])]
            for pairs in [self._batches[number].take(pa.array(rows[group]))]
        ]
        if len(parts) == 1:
            return parts[0]
        return Pairs.concatenate(parts).take(np.argsort(by_batch))


def _count_tokens(batches: Sequence[pa.RecordBatch], chunk: int) -> IntArray:
    return np.concatenate([chunk_tokens(lengths(batch["src"]), lengths(batch["tgt"]), chunk) for batch in batches])


def chunk_tokens(src: IntArray, tgt: IntArray, chunk: int) -> IntArray:
    """Return the sums of source and target lengths of each chunk (chunks × 2)."""
    starts = np.arange(0, len(src), chunk)
    return np.stack([np.add.reduceat(side, starts) if len(side) else side for side in (src, tgt)], axis=1)


def chunk_size(pairs: int) -> int:
    """Return the number of pairs of a chunk for a text of this size."""
    return min(max(1, pairs // CHUNKS), MAX_CHUNK)


def batch_rows(chunk: int) -> int:
    """Return the number of pairs of a record batch, which holds whole chunks."""
    return chunk * (BATCH // chunk)
