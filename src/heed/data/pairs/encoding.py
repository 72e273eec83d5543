"""Encode a training text once: write the token ids of its selected pairs, sorted by digest, as Arrow files."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from heed.cache import build_once, cache_key
from heed.data.pairs.pairs import BATCH, StoredPairs, chunk_size, describe_pairs, shard_file
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.text.clean_text import CleanText, write_arrow
from heed.data.text.cleaning import DIGEST_LIMIT
from heed.data.text.preparation import PreparedText
from heed.data.text.workers import Workers
from heed.files import require_room
from heed.progress import progress_bar

SHARD = 100_000  # average number of pairs of a file; one process encodes and sorts them in memory
SAMPLED_PAIRS = 1000  # pairs from which the number of tokens is estimated before they are written


def encode(part: PreparedText, tokenizer: Tokenizer) -> StoredPairs:
    """Return the token ids of all pairs, cached once, or raise a HeedError if the disk has too little room."""

    def build(folder: Path) -> None:
        _check_room(folder, part, tokenizer)
        with Workers(part.preparation.workers_for(part.clean.report.chars)) as workers:
            write_pairs(folder, part.clean, tokenizer, workers)

    folder = part.cache_dir / "encoded" / cache_key(part.clean.digest, tokenizer.hash, SHARD)
    return StoredPairs.load(build_once(folder, build, wait_minutes=part.preparation.wait_minutes))


def _check_room(folder: Path, part: PreparedText, tokenizer: Tokenizer) -> None:
    """Raise a HeedError if the disk has too little room for the token ids."""
    block = next(block for block, _ in map(part.clean.read, part.clean.blocks) if len(block))
    src, tgt = block.src[:SAMPLED_PAIRS], block.tgt[:SAMPLED_PAIRS]
    tokens = sum(map(len, (*tokenizer.encode_src(src, tagged=False), *tokenizer.encode_tgt(tgt))))
    tokens_per_char = tokens / max(1, sum(map(len, (*src, *tgt))))
    offsets = 2 * 4 * len(part)
    # Require more than the estimated size, because the sample may have few tokens.
    needed = 1.2 * (id_type(tokenizer).bit_width / 8 * tokens_per_char * part.clean.report.chars + offsets)
    done = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    require_room(folder.parent, needed - done, f"preparing {len(part):,} pairs", "cache_dir")


def write_pairs(folder: Path, text: CleanText, tokenizer: Tokenizer, workers: Workers) -> None:
    """Write the ids of a text for `StoredPairs`. Files that an interrupted call has written are reused."""
    chunk = chunk_size(text.report.kept)
    shards = max(1, round(text.report.kept / SHARD))
    bounds = [*(number * text.bound // shards for number in range(shards)), DIGEST_LIMIT]
    tasks = [
        partial(_write_shard, shard_file(folder, number), text.folder, tokenizer.models, low, high, chunk)
        for number, (low, high) in enumerate(pairwise(bounds))
    ]
    with progress_bar("Encoding", total=text.report.kept, unit="pairs") as bar:
        for pairs in workers.map(tasks):
            bar.update(pairs)
    describe_pairs(folder, chunk)


def _write_shard(file: Path, text: Path, models: Sequence[bytes], low: int, high: int, chunk: int) -> int:
    """Write the ids of the pairs with keys from ``low`` to ``high`` - 1, and return the number of pairs written."""
    if file.exists():
        return 0
    clean = CleanText(text)
    tokenizer = Tokenizer(models, threads=1)  # one process per core
    ids = pa.list_(id_type(tokenizer))
    digests, batches = [], []
    for number in clean.blocks:
        block, own = clean.read(number, low, high)
        sides = tokenizer.encode_src(block.src, tagged=False), tokenizer.encode_tgt(block.tgt)
        batches.append(pa.record_batch([pa.array(side, ids) for side in sides], ["src", "tgt"]))
        digests.append(own)
    order = np.argsort(np.concatenate(digests), kind="stable")
    pairs = pa.Table.from_batches(batches).take(pa.array(order)).combine_chunks()
    write_arrow(file, pairs, BATCH // chunk * chunk)
    return len(pairs)


def id_type(tokenizer: Tokenizer) -> pa.DataType:
    """Return the smallest type that holds the ids."""
    return pa.uint16() if max(tokenizer.src_vocab, tokenizer.tgt_vocab) <= 2**16 else pa.int32()
