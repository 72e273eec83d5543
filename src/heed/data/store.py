"""Prepared training pairs: token ids and lengths in shards on disk, read in chunks of consecutive pairs."""

import json
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from heed.compat import read_randomly, release_pages
from heed.data.preparation.arrays import VERIFIED_BYTES, files_digest
from heed.data.preparation.encode import Shard, shard_files, shard_path
from heed.data.ragged import Ragged, gather, take

IntArray = npt.NDArray[np.int64]

CHUNKS = 2**16
"""Chunks of a corpus, unless they would be larger than ``MAX_CHUNK``: enough to shuffle by chunks."""

MAX_CHUNK = 256
"""Largest number of pairs of a chunk: some 15 kB of ids for each side, which a disk reads as fast as a single page."""


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs in memory, as token ids without BOS and EOS; pair i is ``src[i]``, ``tgt[i]``."""

    rows: IntArray
    """Index of each pair in the training set."""
    src: Ragged
    tgt: Ragged

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: IntArray) -> "Pairs":
        """Return some of the pairs."""
        return Pairs(self.rows[index], take(self.src, index), take(self.tgt, index))

    @classmethod
    def concatenate(cls, parts: Sequence["Pairs"]) -> "Pairs":
        """Return the pairs of all parts."""
        return cls(
            np.concatenate([part.rows for part in parts]),
            Ragged.concatenate([part.src for part in parts]),
            Ragged.concatenate([part.tgt for part in parts]),
        )


@dataclass(frozen=True)
class StoredShard:
    """The arrays of a shard."""

    src: npt.NDArray[np.integer[Any]]
    """Ids of all sources, one after the other."""
    tgt: npt.NDArray[np.integer[Any]]
    """Ids of all targets."""
    lengths: npt.NDArray[np.integer[Any]]
    """Pairs × 2: tokens of source and target, without EOS."""


class PairStore:
    """Training pairs in chunks.

    Args:
        shards: the pairs.
        chunk: pairs of a chunk; the last one of a shard may have fewer.
    """

    def __init__(self, shards: Sequence[StoredShard], *, chunk: int, maps: Sequence[mmap.mmap] = ()) -> None:
        self._shards = shards
        self._maps = maps
        sizes = [len(shard.lengths) for shard in shards]
        self._chunk = chunk
        self._first_row = np.cumsum([0, *sizes])
        self._first_chunk = np.cumsum([0, *(-(-size // chunk) for size in sizes)])
        tokens = np.concatenate([_chunk_sums(shard.lengths, chunk) for shard in shards])
        self.chunk_tokens: tuple[IntArray, IntArray] = (tokens[:, 0], tokens[:, 1])
        """Source and target tokens of each chunk, without EOS."""
        starts = np.cumsum(tokens, axis=0) - tokens
        shard_of = np.repeat(np.arange(len(shards)), np.diff(self._first_chunk))
        self._starts = starts - starts[np.minimum(self._first_chunk[:-1], len(starts) - 1)][shard_of]
        """Position of each chunk's first token in its shard, for both sides."""

    @classmethod
    def of(cls, src: Ragged, tgt: Ragged, *, chunk: int = 1) -> "PairStore":
        """Return pairs in memory as a store."""
        lengths = np.stack([src.lengths, tgt.lengths], axis=1)
        return cls([StoredShard(src.values, tgt.values, lengths)], chunk=chunk)

    def __len__(self) -> int:
        return int(self._first_row[-1])

    @cached_property
    def chunk_rows(self) -> IntArray:
        """Pairs of each chunk."""
        rows = [np.diff(np.append(np.arange(0, len(s.lengths), self._chunk), len(s.lengths))) for s in self._shards]
        return np.concatenate(rows)

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return int(self._first_chunk[-1])

    def lengths(self, chunk: int) -> IntArray:
        """Return the tokens of source and target of each pair of a chunk (pairs × 2), without EOS."""
        shard = int(np.searchsorted(self._first_chunk, chunk, side="right")) - 1
        first = (chunk - int(self._first_chunk[shard])) * self._chunk
        return self._shards[shard].lengths[first : first + self._chunk].astype(np.int64)

    def read(self, chunks: IntArray) -> Pairs:
        """Return the pairs of these chunks, in their order."""
        shards = np.searchsorted(self._first_chunk, chunks, side="right") - 1
        parts, places = [], []
        for shard in np.unique(shards):
            place = np.flatnonzero(shards == shard)
            parts.append(self._read(int(shard), chunks[place]))
            places.append(np.repeat(place, self.chunk_rows[chunks[place]]))
        self._forget()
        pairs = Pairs.concatenate(parts) if len(parts) != 1 else parts[0]
        return pairs if len(parts) == 1 else pairs.take(np.argsort(np.concatenate(places), kind="stable"))

    def _read(self, shard: int, chunks: IntArray) -> Pairs:
        stored = self._shards[shard]
        rows_of = self.chunk_rows[chunks]
        first = (chunks - self._first_chunk[shard]) * self._chunk
        ends = np.cumsum(rows_of)
        rows = np.arange(int(ends[-1])) + np.repeat(first - (ends - rows_of), rows_of)
        lengths = stored.lengths[rows].astype(np.int64)
        before = np.cumsum(lengths, axis=0) - lengths  # tokens before each pair, in the chosen chunks
        starts = before + np.repeat(self._starts[chunks] - before[ends - rows_of], rows_of, axis=0)
        src, tgt = (
            gather(values, starts[:, side], lengths[:, side]) for side, values in enumerate((stored.src, stored.tgt))
        )
        return Pairs(rows + self._first_row[shard], src, tgt)

    def _forget(self) -> None:
        """Give the memory of the pages that were read back to the system, which may keep them as long as it likes."""
        for mapped in self._maps:
            release_pages(mapped)


def _chunk_sums(lengths: npt.NDArray[np.integer[Any]], chunk: int) -> IntArray:
    return np.add.reduceat(lengths, np.arange(0, len(lengths), chunk), axis=0, dtype=np.int64)


class PreparedPairs(PairStore):
    """The training pairs that `heed.data.preparation` wrote to a folder.

    Raises:
        ValueError: if a file is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
            self.shards = [Shard(**shard) for shard in manifest["shards"]]
            self.longest: tuple[int, int, int] = manifest["longest"]
            """Tokens of the longest source, the longest target and the longest pair, without EOS."""
            self.digest: str = manifest["digest"]
            """Of the content of all files; the same for the same corpus and tokenizer."""
            stored = [self._open(folder, number, shard) for number, shard in enumerate(self.shards)]
        except (OSError, KeyError, TypeError) as error:
            raise ValueError(f"{folder} is not complete") from error
        shards, maps = zip(*stored, strict=True)
        super().__init__(shards, chunk=manifest["chunk"], maps=[one for shard in maps for one in shard])

    def _open(self, folder: Path, number: int, shard: Shard) -> tuple[StoredShard, list[mmap.mmap]]:
        path = shard_path(folder, number)
        small = len(self.shards) * sum(file.stat().st_size for file in shard_files(path)) <= VERIFIED_BYTES
        if small and files_digest(shard_files(path)) != shard.digest:
            raise ValueError(f"{path} is damaged")
        arrays, maps = [], []
        for file, size in zip(shard_files(path), (shard.src_tokens, shard.tgt_tokens, 2 * shard.pairs), strict=True):
            array, mapped = _map(file)
            if array.size != size:
                raise ValueError(f"{file} is damaged")
            arrays.append(array)
            maps += [mapped] if mapped is not None and not small else []
        return StoredShard(*arrays), maps


def _map(file: Path) -> tuple[npt.NDArray[Any], mmap.mmap | None]:
    """Return the array of a .npy file, memory-mapped, and the map."""
    with file.open("rb") as stream:
        np.lib.format.read_magic(stream)
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        if not np.prod(shape):
            return np.empty(shape, dtype), None
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        read_randomly(mapped)
        return np.frombuffer(mapped, dtype, offset=stream.tell(), count=int(np.prod(shape))).reshape(shape), mapped


def chunk_size(pairs: int) -> int:
    """Return the number of pairs of a chunk for a corpus of this size."""
    return min(max(1, pairs // CHUNKS), MAX_CHUNK)
