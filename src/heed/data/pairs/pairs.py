"""Sentence pairs as token ids, in Arrow lists: in memory, or memory-mapped and read in chunks."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heed.cache import read_digests
from heed.files import replacing, write_file

IntArray = npt.NDArray[np.int64]

SIZES, TOKENS = "pairs.json", "tokens.npy"
"""Files with the sizes of all chunks, so that starting a training need not read the length of every pair."""
CHUNKS = 2**16
"""Number of chunks of a text, unless chunks would be larger than ``MAX_CHUNK``: enough to shuffle by chunks."""
MAX_CHUNK = 256
"""Largest number of pairs of a chunk: about 15 kB of ids per side. A disk reads them as fast as a single page."""
BATCH = 4096  # largest number of pairs of an Arrow record batch in a file, which has whole chunks


def id_lists(sequences: Sequence[Sequence[int]]) -> pa.ListArray:
    """Return token ids as Arrow lists."""
    return pa.array(sequences, pa.list_(pa.int32()))


def lengths(ids: pa.ListArray) -> IntArray:
    """Return the length of each list."""
    return np.diff(ids.offsets.to_numpy()).astype(np.int64)


def pair_lengths(src: IntArray, tgt: IntArray) -> IntArray:
    """Return the lengths of the source, of the target and of both, for each pair (N × 3)."""
    return np.stack([src, tgt, src + tgt], axis=1)


def flatten(ids: pa.ListArray) -> tuple[npt.NDArray[np.integer[Any]], IntArray]:
    """Return the concatenated ids of all lists, and the offsets: the start of each list, then the end of the last."""
    offsets = ids.offsets.to_numpy().astype(np.int64)
    return ids.flatten().to_numpy(), offsets - offsets[0]


def unflatten(values: npt.NDArray[np.integer[Any]], lengths: IntArray) -> pa.ListArray:
    """Cut ``values`` into lists of these lengths."""
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs in memory, as token ids without BOS and EOS. Pair i is ``src[i]``, ``tgt[i]``."""

    rows: IntArray  # index of each pair in the training set
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
        """Return the pairs with these indices."""
        rows = pa.array(index)
        return Pairs(self.rows[index], self.src.take(rows), self.tgt.take(rows))

    @classmethod
    def concatenate(cls, parts: Sequence["Pairs"]) -> "Pairs":
        """Return the concatenation of all parts."""
        rows, src, tgt = zip(*((part.rows, part.src, part.tgt) for part in parts), strict=True)
        return cls(np.concatenate(rows), pa.concat_arrays(src), pa.concat_arrays(tgt))


@dataclass(frozen=True)
class StoredPairs:
    """Stored training pairs: record batches, read in chunks."""

    batches: Sequence[pa.RecordBatch]  # with the columns "src" and "tgt": lists of ids without BOS and EOS
    chunk: int  # pairs of a chunk; the last chunk of a batch may have fewer
    chunk_tokens: IntArray  # source and target tokens of each chunk, without EOS (chunks × 2)
    longest: Sequence[int]  # tokens of the longest source, the longest target and the longest pair, without EOS
    digest: str  # of the content, a function of the text and the tokenizer
    folder: Path

    @classmethod
    def load(cls, folder: Path) -> "StoredPairs":
        """Memory-map the pairs that `heed.data.pairs.encoding` wrote to the cache."""
        digests = read_digests(folder)
        content = b"".join(bytes.fromhex(digests[file.name]) for file in _shard_files(folder))
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        sizes = json.loads((folder / SIZES).read_text(encoding="utf-8"))
        tokens = np.load(folder / TOKENS)
        return cls(list(_map_batches(folder)), sizes["chunk"], tokens, sizes["longest"], digest, folder)

    def __len__(self) -> int:
        return sum(map(len, self.batches))


def describe_pairs(folder: Path, chunk: int) -> None:
    """Write the sizes of all chunks to the folder of the pairs."""
    longest, tokens = np.zeros(3, np.int64), []
    for batch in _map_batches(folder):
        src, tgt = lengths(batch["src"]), lengths(batch["tgt"])
        longest = np.maximum(longest, [side.max(initial=0) for side in (src, tgt, src + tgt)])
        tokens.append(count_chunk_tokens(batch, chunk))
    with replacing(folder / TOKENS) as file, file.open("wb") as stream:
        np.save(stream, np.concatenate(tokens))
    write_file(folder / SIZES, json.dumps({"chunk": chunk, "longest": longest.tolist()}))


def shard_file(folder: Path, number: int) -> Path:
    """Return the path of the file with this number."""
    return folder / f"shard-{number:05}.arrow"


def _shard_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("shard-*.arrow"))


def _map_batches(folder: Path) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of all files, memory-mapped."""
    for file in _shard_files(folder):
        reader = pa.ipc.open_file(pa.memory_map(str(file)))
        yield from map(reader.get_batch, range(reader.num_record_batches))


def count_chunk_tokens(batch: pa.RecordBatch, chunk: int) -> IntArray:
    """Return the source and target tokens of each chunk (chunks × 2)."""
    starts = np.arange(0, len(batch), chunk)
    sides = [lengths(batch[side]) for side in ("src", "tgt")]
    return np.stack([np.add.reduceat(side, starts) if len(side) else side for side in sides], axis=1)


def chunk_size(pairs: int) -> int:
    """Return the number of pairs of a chunk for a text of this size."""
    return min(max(1, pairs // CHUNKS), MAX_CHUNK)
