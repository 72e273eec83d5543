"""The second pass over the text: token ids of the selected pairs, written in the order of their digests.

Each run of a part leaves the ids of its pairs, sorted by digest. Then every shard, which is a range of digests, is
merged from the runs.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from heed.data.digests import Digests
from heed.data.preparation.arrays import files_digest, map_array, write_array
from heed.data.preparation.ranges import DIGEST_LIMIT
from heed.data.preparation.scan import run_path
from heed.data.preparation.selection import Selection, read_selected
from heed.data.ragged import Ragged, take
from heed.data.text import Advance, Part
from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.files import replacing

SHARD = 1_000_000
"""Average number of pairs of a shard."""

MAX_TOKENS = 2**16 - 1
"""Longest sentence, in tokens."""

SIDES = ("src", "tgt")


@dataclass(frozen=True)
class EncodeTask:
    """A part to encode.

    Args:
        number: index of the part.
        part: the text.
        swapped: swap source and target.
        selection: folder of the `Selection`.
        tokenizer: folder of the tokenizer.
        folder: where the results are written.
    """

    number: int
    part: Part
    swapped: bool
    selection: Path
    tokenizer: Path
    folder: Path


def encode_part(task: EncodeTask, advance: Advance) -> None:
    """Encode the selected pairs of a part, unless an interrupted preparation has done so."""
    done = task.folder / f"{task.number:05}.done"
    if done.exists():
        advance(task.part.size)
        return
    # One thread, because there is a process for each core.
    tokenizer, selection = Tokenizer.load(task.tokenizer, threads=1), Selection(task.selection)
    blocks = read_selected(selection, task.part, task.number, advance, swapped=task.swapped)
    for run, group in groupby(blocks, key=itemgetter(0)):
        keys: list[Digests] = []
        ids: tuple[list[Ragged], list[Ragged]] = ([], [])
        for _, block, digests in group:
            keys.append(digests)
            ids[0].append(Ragged.of(tokenizer.encode_src(block.src, tagged=False)))
            ids[1].append(Ragged.of(tokenizer.encode_tgt(block.tgt)))
        _write_run(run_path(task.folder, run.part, run.number), np.concatenate(keys), ids, tokenizer)
    done.touch()


def _write_run(path: Path, keys: Digests, ids: tuple[list[Ragged], list[Ragged]], tokenizer: Tokenizer) -> None:
    order = np.argsort(keys, kind="stable")
    write_array(path.with_suffix(".keys.npy"), keys[order])
    _write_pairs(path, [take(Ragged.concatenate(side), order) for side in ids], id_type(tokenizer))


def _write_pairs(path: Path, sides: Sequence[Ragged], dtype: npt.DTypeLike) -> None:
    """Write ``path.{src,tgt}.npy`` with the ids and ``path.lengths.npy`` with a row of two lengths for each pair."""
    lengths = np.stack([side.lengths for side in sides], axis=1)
    if lengths.size and lengths.max() > MAX_TOKENS:
        raise HeedError(
            f"A training sentence has {lengths.max():,} tokens, more than {MAX_TOKENS:,}: set data.cleaning.max_chars."
        )
    write_array(path.with_suffix(".lengths.npy"), lengths.astype(np.uint16))
    for name, side in zip(SIDES, sides, strict=True):
        write_array(path.with_suffix(f".{name}.npy"), side.values.astype(dtype))


def id_type(tokenizer: Tokenizer) -> npt.DTypeLike:
    """Return the smallest type that holds the ids."""
    return np.uint16 if max(tokenizer.src_vocab, tokenizer.tgt_vocab) <= 2**16 else np.int32


# ---- shards


@dataclass(frozen=True)
class Shard:
    """What a shard holds, for the manifest."""

    pairs: int
    src_tokens: int
    tgt_tokens: int
    longest: tuple[int, int, int]
    """Tokens of the longest source, of the longest target, and of the longest pair (both sides together)."""
    digest: str
    """Digest of its files."""


@dataclass(frozen=True)
class MergeTask:
    """A shard to write: the pairs with digests from ``low`` to below ``high``.

    Args:
        number: index of the shard.
        runs: paths of the encoded runs, without suffixes.
        folder: where the shard is written.
    """

    number: int
    low: int
    high: int
    runs: Sequence[Path]
    folder: Path


def merge_shard(task: MergeTask, advance: Advance) -> Shard:
    """Write a shard, unless an interrupted preparation has done so."""
    path = shard_path(task.folder, task.number)
    done = path.with_suffix(".json")
    if done.exists():
        shard = Shard(**json.loads(done.read_text(encoding="utf-8")))
        advance(shard.pairs)
        return shard
    keys: list[Digests] = []
    sides: tuple[list[Ragged], list[Ragged]] = ([], [])
    for run in task.runs:
        all_keys = map_array(run.with_suffix(".keys.npy"))
        first = int(np.searchsorted(all_keys, np.uint64(task.low)))
        stop = int(np.searchsorted(all_keys, np.uint64(task.high - 1), side="right"))
        keys.append(np.array(all_keys[first:stop]))
        lengths = map_array(run.with_suffix(".lengths.npy")).astype(np.int64)
        for column, (name, side) in enumerate(zip(SIDES, sides, strict=True)):
            start = int(lengths[:first, column].sum())
            end = start + int(lengths[first:stop, column].sum())
            side.append(
                Ragged.of_lengths(
                    np.array(map_array(run.with_suffix(f".{name}.npy"))[start:end]), lengths[first:stop, column]
                )
            )
    order = np.argsort(np.concatenate(keys), kind="stable")
    src, tgt = (take(Ragged.concatenate(side), order) for side in sides)
    _write_pairs(path, (src, tgt), src.values.dtype)
    longest = [int(lengths.max(initial=0)) for lengths in (src.lengths, tgt.lengths, src.lengths + tgt.lengths)]
    shard = Shard(
        len(order),
        len(src.values),
        len(tgt.values),
        (longest[0], longest[1], longest[2]),
        files_digest(shard_files(path)),
    )
    with replacing(done) as partial:
        partial.write_text(json.dumps(asdict(shard)), encoding="utf-8")
    advance(len(order))
    return shard


def shard_tasks(pairs: int, runs: Sequence[Path], folder: Path, *, limit: int) -> list[MergeTask]:
    """Return the tasks that write all shards.

    Args:
        pairs: number of selected pairs.
        limit: bound of the digests of the selected pairs: 2⁶⁴, or less for a sample.
    """
    count = max(1, round(pairs / SHARD))
    bounds = [number * limit // count for number in range(count)] + [DIGEST_LIMIT]
    return [MergeTask(number, bounds[number], bounds[number + 1], runs, folder) for number in range(count)]


def shard_path(folder: Path, number: int) -> Path:
    """Return the path of a shard's files, without their suffixes."""
    return folder / f"shard-{number:05}"


def shard_files(path: Path) -> list[Path]:
    """Return the files of a shard."""
    return [path.with_suffix(f".{name}.npy") for name in (*SIDES, "lengths")]
