"""Sentence pairs as token ids, in Arrow lists: in memory, or encoded once, memory-mapped and read in chunks."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from heed.cache import build_once, cache_key, read_digests
from heed.data.pairs.placeholders import MASKING_REVISION, with_placeholders
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.text.clean_pairs import CleanPairs, write_arrow
from heed.data.text.cleaning import DIGEST_LIMIT
from heed.data.text.corpus import Text
from heed.data.text.workers import Workers
from heed.errors import HeedError
from heed.files import replacing, write_file
from heed.progress import progress_bar

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


Limit = tuple[float, float, float]
"""The most tokens of a source, of a target and of both."""
Limits = Mapping[str, Limit]
"""Limits of pairs with tags and EOS, by the option that sets them."""


def check_lengths(lengths: IntArray, limits: Limits, where: str, lines: IntArray, otherwise: str) -> None:
    """Raise a HeedError that names the first pair whose `pair_lengths`, with tags and EOS, exceed a limit.

    Args:
        where: name of the text.
        lines: line of each pair, counted from 0.
        otherwise: what to do if the limit cannot be raised.
    """
    for option, limit in limits.items():
        for row in np.flatnonzero((lengths > limit).any(axis=1)).tolist():
            src, tgt, _ = lengths[row] - 1
            raise HeedError(
                f"{where}, sentence pair {lines[row] + 1:,}: {src:,} source and {tgt:,} target tokens and EOS, more "
                f"than {option}: set it to {lengths[lengths > limit].max()} or more, or {otherwise}."
            )


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs in memory, as token ids with tags, without BOS and EOS. Pair i is ``src[i]``, ``tgt[i]``."""

    rows: IntArray  # row of each pair in its text or in all training text
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
    """The pairs of a text in one direction: record batches, read in chunks."""

    batches: Sequence[pa.RecordBatch]  # with the columns "src" and "tgt": lists of ids without tags, BOS and EOS
    chunk: int  # pairs of a chunk; the last chunk of a batch may have fewer
    chunk_tokens: IntArray  # tokens of both columns in each chunk (chunks × 2)
    stored_longest: Sequence[int]  # the largest `pair_lengths` of the columns
    digest: str  # of the content, a function of the text and the tokenizer
    folder: Path
    tags: tuple[int, ...] = ()  # ids that start every non-empty source
    swapped: bool = False  # whether the column "tgt" holds the sources

    @classmethod
    def load(cls, folder: Path) -> "StoredPairs":
        """Memory-map the pairs that `heed.data.pairs.pairs` wrote to the cache."""
        digests = read_digests(folder)
        content = b"".join(bytes.fromhex(digests[file.name]) for file in _shard_files(folder))
        digest = hashlib.blake2b(content, digest_size=16).hexdigest()
        sizes = json.loads((folder / SIZES).read_text(encoding="utf-8"))
        tokens = np.load(folder / TOKENS)
        return cls(list(_map_batches(folder)), sizes["chunk"], tokens, sizes["longest"], digest, folder)

    def __len__(self) -> int:
        return int(self._first_rows[-1])

    @cached_property
    def _first_rows(self) -> IntArray:
        """The number of pairs before each batch, followed by the number of pairs."""
        return np.cumsum([0, *map(len, self.batches)])

    @cached_property
    def chunk_starts(self) -> IntArray:
        """Row of the first pair of each chunk."""
        return np.concatenate([np.arange(first, stop, self.chunk) for first, stop in pairwise(self._first_rows)])

    @property
    def chunk_tgt_tokens(self) -> IntArray:
        """Target tokens of each chunk, including EOS."""
        return self.chunk_tokens[:, 0 if self.swapped else 1] + np.diff(np.append(self.chunk_starts, len(self)))

    @property
    def src_tokens(self) -> int:
        """Source tokens, including tags and EOS."""
        return int(self.chunk_tokens[:, 1 if self.swapped else 0].sum()) + (1 + len(self.tags)) * len(self)

    @property
    def longest(self) -> IntArray:
        """Tokens of the longest source, the longest target and the longest pair, with tags and EOS."""
        return self._complete(np.array(self.stored_longest))

    def lengths(self) -> IntArray:
        """Return the `pair_lengths` of all pairs, with tags and EOS."""
        stored = [pair_lengths(lengths(batch["src"]), lengths(batch["tgt"])) for batch in self.batches]
        return self._complete(np.concatenate(stored))

    def _complete(self, stored: IntArray) -> IntArray:
        tags = len(self.tags)
        return stored[..., [1, 0, 2] if self.swapped else [0, 1, 2]] + (tags + 1, 1, tags + 2)

    def read(self, rows: IntArray) -> Pairs:
        """Return the pairs of these rows, in their order."""
        # Read batch by batch: Arrow would copy all batches to take lists from several.
        return read_groups(np.searchsorted(self._first_rows, rows, side="right") - 1, rows, self._read_batch)

    def _read_batch(self, number: int, rows: IntArray) -> Pairs:
        columns = self.batches[number].take(pa.array(rows - self._first_rows[number]))
        src, tgt = ("tgt", "src") if self.swapped else ("src", "tgt")
        return Pairs(rows, self._tagged(columns[src]), columns[tgt])

    def _tagged(self, sources: pa.ListArray) -> pa.ListArray:
        """Return the sources with the tags at their start. An empty source stays empty."""
        if not self.tags:
            return sources
        values, offsets = flatten(sources)
        starts = offsets[:-1][np.diff(offsets) > 0]
        tagged = np.insert(values, np.repeat(starts, len(self.tags)), np.tile(self.tags, len(starts)))
        return unflatten(tagged, np.diff(offsets) + len(self.tags) * (np.diff(offsets) > 0))


class TrainingPairs:
    """The pairs of all training texts, one text after the other.

    Row numbers continue from epoch to epoch: row ``len(pairs)`` is row 0 in the second epoch.
    """

    def __init__(self, texts: Sequence[StoredPairs]) -> None:
        self.texts = texts
        self._first_rows = np.cumsum([0, *map(len, texts)])  # pairs before each text
        starts = [first + text.chunk_starts for first, text in zip(self._first_rows, texts, strict=False)]
        self.chunk_starts = np.append(np.concatenate(starts), len(self))
        """Row of the first pair of each chunk, followed by the number of pairs."""
        self.chunk_tgt_tokens = np.concatenate([text.chunk_tgt_tokens for text in texts])
        """Target tokens of each chunk, including EOS."""
        self.src_tokens = sum(text.src_tokens for text in texts)  # including tags and EOS
        self.tgt_tokens = int(self.chunk_tgt_tokens.sum())  # including EOS

    def __len__(self) -> int:
        return int(self._first_rows[-1])

    def text_of(self, rows: IntArray) -> IntArray:
        """Return the index of the text of each row."""
        return np.searchsorted(self._first_rows, rows % len(self), side="right") - 1

    def read(self, rows: IntArray) -> Pairs:
        """Return the pairs of these rows, in their order."""
        return read_groups(self.text_of(rows), rows, self._read_text)

    def _read_text(self, number: int, rows: IntArray) -> Pairs:
        return replace(self.texts[number].read(rows % len(self) - self._first_rows[number]), rows=rows)


def read_groups(groups: IntArray, rows: IntArray, read: Callable[[int, IntArray], Pairs]) -> Pairs:
    """Return the pairs of these rows, in their order. ``read`` reads rows of one group, such as a batch."""
    by_group = np.argsort(groups, kind="stable")
    cuts = np.flatnonzero(np.diff(groups[by_group])) + 1
    parts = [read(int(groups[at[0]]), rows[at]) for at in np.split(by_group, cuts)]
    return parts[0] if len(parts) == 1 else Pairs.concatenate(parts).take(np.argsort(by_group))


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


# ---- encoding a text once: the ids of its selected pairs, sorted by digest, as Arrow files

SHARD = 100_000  # average number of pairs of a file; one process encodes and sorts them in memory


def encode(text: Text, tokenizer: Tokenizer) -> StoredPairs:
    """Return the token ids of all pairs. They are cached once, for both directions of a text.

    Raise a HeedError if the tokenizer lacks the tag of the text.
    """
    tags, clean = tokenizer.source_tags(text.direction.tgt_lang, text.tag), text.clean

    def build(folder: Path) -> None:
        with clean.workers() as workers:
            write_pairs(folder, clean, tokenizer, workers)

    masking = [MASKING_REVISION] if tokenizer.placeholders else []
    folder = clean.folder.parents[1] / "encoded" / cache_key(clean.digest, tokenizer.digest, SHARD, *masking)
    stored = StoredPairs.load(build_once(folder, build, wait_minutes=clean.preparation.wait_minutes))
    return replace(stored, tags=tags, swapped=text.swapped)


def write_pairs(folder: Path, clean: CleanPairs, tokenizer: Tokenizer, workers: Workers) -> None:
    """Write the ids of clean pairs for `StoredPairs`. Files that an interrupted call has written are reused."""
    chunk = chunk_size(len(clean))
    shards = max(1, round(len(clean) / SHARD))
    bounds = [*(number * clean.bound // shards for number in range(shards)), DIGEST_LIMIT]
    tasks = [
        partial(_write_shard, shard_file(folder, number), clean, tokenizer.models, low, high, chunk)
        for number, (low, high) in enumerate(pairwise(bounds))
    ]
    with progress_bar("Encoding", total=len(clean), unit="pairs") as bar:
        for pairs in workers.map(tasks):
            bar.update(pairs)
    describe_pairs(folder, chunk)


def _write_shard(file: Path, clean: CleanPairs, models: Sequence[bytes], low: int, high: int, chunk: int) -> int:
    """Write the ids of the pairs with keys from ``low`` to ``high`` - 1, and return the number of pairs written."""
    if file.exists():
        return 0
    tokenizer = Tokenizer(models, threads=1)  # one process per core
    ids = pa.list_(pa.uint16() if max(tokenizer.src_vocab, tokenizer.tgt_vocab) <= 2**16 else pa.int32())
    digests, batches = [], []
    for number in clean.blocks:
        block, own = clean.read(number, low, high)
        if tokenizer.placeholders:
            block = with_placeholders(block, own)
        sides = tokenizer.encode_src(block.src, tagged=False), tokenizer.encode_tgt(block.tgt)
        batches.append(pa.record_batch([pa.array(side, ids) for side in sides], ["src", "tgt"]))
        digests.append(own)
    order = np.argsort(np.concatenate(digests), kind="stable")
    pairs = pa.Table.from_batches(batches).take(pa.array(order)).combine_chunks()
    write_arrow(file, pairs, BATCH // chunk * chunk)
    return len(pairs)
