"""Encode a training text once: write the token ids of its selected pairs, sorted by digest, as Arrow files."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from heed.cache import build_once, cache_key
from heed.data.pairs.pairs import BATCH, StoredPairs, chunk_size, describe_pairs, shard_file
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.text.clean_pairs import CleanPairs, write_arrow
from heed.data.text.cleaning import DIGEST_LIMIT
from heed.data.text.corpus import Text
from heed.data.text.workers import Workers
from heed.progress import progress_bar

SHARD = 100_000  # average number of pairs of a file; one process encodes and sorts them in memory


def encode(text: Text, tokenizer: Tokenizer) -> StoredPairs:
    """Return the token ids of all pairs. They are cached once, for both directions of a text.

    Raise a HeedError if the tokenizer lacks the tag of the text.
    """
    tags, clean = tokenizer.source_tags(text.direction.tgt_lang, text.tag), text.clean

    def build(folder: Path) -> None:
        with clean.workers() as workers:
            write_pairs(folder, clean, tokenizer, workers)

    folder = clean.folder.parents[1] / "encoded" / cache_key(clean.digest, tokenizer.digest, SHARD)
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
        sides = tokenizer.encode_src(block.src, tagged=False), tokenizer.encode_tgt(block.tgt)
        batches.append(pa.record_batch([pa.array(side, ids) for side in sides], ["src", "tgt"]))
        digests.append(own)
    order = np.argsort(np.concatenate(digests), kind="stable")
    pairs = pa.Table.from_batches(batches).take(pa.array(order)).combine_chunks()
    write_arrow(file, pairs, BATCH // chunk * chunk)
    return len(pairs)
