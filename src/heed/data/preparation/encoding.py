"""Write the token ids of a training text's selected pairs, sorted by digest, as Arrow files."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from heed.data.cleaning import DIGEST_LIMIT
from heed.data.pairs import BATCH, chunk_size, describe_pairs, shard_file
from heed.data.preparation.clean_text import CleanText, write_arrow
from heed.data.preparation.workers import Workers
from heed.data.tokenizer import Tokenizer
from heed.progress import progress_bar

SHARD = 100_000  # average number of pairs of a file; one process encodes and sorts them in memory


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
