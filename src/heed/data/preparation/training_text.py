"""A training text and what is prepared from it, in the cache: its clean pairs, and their token ids."""

import hashlib
import json
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from heed.compat import usable_cores
from heed.data.cache import build_once
from heed.data.cleaning import Cleaning, CleaningReport
from heed.data.digests import Digests
from heed.data.directions import Direction
from heed.data.pairs import StoredPairs, chunk_size
from heed.data.preparation.clean_text import CleanText, Rules, write_clean_text
from heed.data.preparation.encoding import EncodeTask, encode_part, id_type, shard_files, shard_tasks, write_shard
from heed.data.preparation.workers import Workers
from heed.data.text import Advance, Block, Source, Text, WordCounts
from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.files import remove, replacing
from heed.options import AtLeast1, Positive, validated

Result = TypeVar("Result")

SMALL = 2**25
"""Largest text, in bytes, that is prepared without worker processes, because starting them takes longer."""

SAMPLED_PAIRS = 1000
"""Pairs from which the number of tokens is estimated before they are written."""

ROOM = 1.2
"""Free disk space that a preparation asks for, in multiples of what it will probably write."""


@validated("data.preparation.")
class Preparation:
    """How training text is prepared. It does not change what is prepared.

    Args:
        num_proc: number of worker processes; "auto": one for each core.
        wait_minutes: how long to wait for another process that prepares the same text, such as the first one of a run
            on several devices.
    """

    def __init__(self, *, num_proc: AtLeast1 | Literal["auto"], wait_minutes: Positive) -> None:
        self.processes = usable_cores() if num_proc == "auto" else num_proc
        self.wait_minutes = wait_minutes


class TrainingText:
    """The selected pairs of a training text.

    Args:
        text: the text.
        directions: in which it is used: as it is, and if there are two, swapped too.
        held_out: digests of the sentences of the validation and test sets, see `Cleaning.violations`.
        cleaning: the cleaning rules.
        at_most: size of the sample, see `Rules`.
        swapped: swap the source and target of its inputs.
        preparation: how it is prepared.
        cache_dir: folder of the cache.
        heavier: texts of the same mixture; their pairs are duplicates in this one.

    Raises:
        HeedError: if the text is invalid.
    """

    def __init__(
        self,
        text: Text,
        *,
        directions: tuple[Direction, ...],
        held_out: Sequence[Digests],
        cleaning: Cleaning,
        at_most: int | None,
        swapped: bool,
        preparation: Preparation,
        cache_dir: Path,
        heavier: "Sequence[TrainingText]" = (),
    ) -> None:
        self.text, self.directions = text, directions
        self.preparation, self.cache_dir = preparation, cache_dir
        sources, rules = text.sources, Rules(cleaning, text.min_score, at_most)
        held_out = held_out if cleaning.drop_leaked else ()
        others = [other.clean for other in heavier] if cleaning.drop_duplicates else []
        identity = [source.identity() for source in sources]
        leaked = [digests.tobytes() for digests in held_out]
        self.key: str = _digest(
            identity, sorted(vars(cleaning).items()), text.min_score, at_most, swapped, leaked,
            [other.key for other in heavier if cleaning.drop_duplicates],
        )  # fmt: skip
        """Digest of what decides which pairs are selected."""

        def build(folder: Path) -> None:
            with _unchanged(sources, identity, folder):
                parts = [part for source in sources for part in source.parts()]
                with Workers.started(self.processes(sum(part.size for part in parts))) as workers:
                    write_clean_text(folder, parts, rules, held_out, workers, swapped=swapped, heavier=others)

        folder = build_once(cache_dir / "text" / self.key, build, wait_minutes=preparation.wait_minutes)
        self.clean: CleanText = CleanText(folder)

    def processes(self, size: int) -> int:
        """Return the number of worker processes for a text of this many bytes; none for a small one."""
        return 0 if size <= SMALL else self.preparation.processes

    def __len__(self) -> int:
        return len(self.clean)

    @property
    def fingerprint(self) -> str:
        """Digest of the selected pairs, whatever their order and the format of the files."""
        return self.clean.fingerprint

    @property
    def report(self) -> CleaningReport:
        """What the cleaning rules dropped."""
        return self.clean.report

    def blocks(self) -> Iterator[Block]:
        """Yield the selected pairs, in the order of the text."""
        return (block for part in self.clean.parts for block, _ in self.clean.read(part))

    def write_words(self, at_most: int, folder: Path, workers: Workers) -> list[Path]:
        """Write the word counts of a sample of about ``at_most`` pairs, and return the files."""
        threshold = self.clean.bound * min(at_most, len(self)) // len(self)
        tasks = [CountTask(part, self.clean.folder, threshold, folder / f"{part}") for part in self.clean.parts]
        workers.map(count_part, tasks, description="Counting words", total=len(self), unit="pairs")
        return [task.file for task in tasks]

    def encode(self, tokenizer: Tokenizer) -> StoredPairs:
        """Return the token ids of all pairs, from the cache if they are there.

        Raises:
            HeedError: if there is too little room on the disk.
        """

        def build(folder: Path) -> None:
            with Workers.started(self.processes(self.clean.chars)) as workers:
                self._encode(folder, tokenizer, workers)

        key = _digest(self.fingerprint, tokenizer.hash)
        folder = self.cache_dir / "encoded" / key
        return StoredPairs.load(build_once(folder, build, wait_minutes=self.preparation.wait_minutes))

    def _encode(self, folder: Path, tokenizer: Tokenizer, workers: Workers) -> None:
        self._check_room(folder, tokenizer)
        parts, tokenizer_folder = folder / "parts", folder / "tokenizer"
        parts.mkdir(exist_ok=True)
        tokenizer.save(tokenizer_folder)
        tasks = [EncodeTask(part, self.clean.folder, tokenizer_folder, parts) for part in self.clean.parts]
        workers.map(encode_part, tasks, description="Encoding", total=len(self), unit="pairs")
        chunk = chunk_size(len(self))
        shards = workers.map(
            write_shard,
            shard_tasks(len(self), self.clean, chunk=chunk, source=parts, folder=folder),
            description="Writing token ids",
            total=len(self),
            unit="pairs",
        )
        with replacing(folder / "tokens.npy") as partial, partial.open("wb") as stream:
            np.save(stream, np.concatenate([shard.chunk_tokens for shard in shards]))
        digest = hashlib.blake2b(digest_size=16)
        for file in shard_files(folder):
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).digest())
        longest = np.max([shard.longest for shard in shards], axis=0).tolist()
        with replacing(folder / "pairs.json") as partial:
            content = {"pairs": len(self), "chunk": chunk, "longest": longest, "digest": digest.hexdigest()}
            partial.write_text(json.dumps(content), encoding="utf-8")
        remove(parts)

    def _check_room(self, folder: Path, tokenizer: Tokenizer) -> None:
        """Raise a HeedError if the disk has too little room for the token ids, which are written twice."""
        block = next(block for block in self.blocks() if len(block))
        src, tgt = block.src[:SAMPLED_PAIRS], block.tgt[:SAMPLED_PAIRS]
        tokens = sum(map(len, (*tokenizer.encode_src(src, tagged=False), *tokenizer.encode_tgt(tgt))))
        chars = sum(map(len, (*src, *tgt)))
        item = id_type(tokenizer).bit_width // 8
        needed = 2 * (item * tokens / max(1, chars) * self.clean.chars + 12 * len(self))
        done = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        free = shutil.disk_usage(folder).free
        if ROOM * needed > free + done:
            raise HeedError(
                f"{folder.parent} has {free / 1e6:,.0f} MB of free space, but preparing {len(self):,} pairs needs "
                f"about {ROOM * needed / 1e6:,.0f} MB: make room, or set cache_dir=DIR to a folder on another disk."
            )


@contextmanager
def _unchanged(sources: Sequence[Source], identity: Sequence[Any], folder: Path) -> Iterator[None]:
    """Raise a HeedError and remove the folder if a source is not the same after the block as before.

    The folder is named after the text, so it must not keep anything of another one.
    """
    try:
        yield
    except OSError:
        _check_unchanged(sources, identity, folder)
        raise
    _check_unchanged(sources, identity, folder)


def _check_unchanged(sources: Sequence[Source], identity: Sequence[Any], folder: Path) -> None:
    for source, before in zip(sources, identity, strict=True):
        try:
            if source.identity() != before:
                name = source.parts()[0].name
                raise HeedError(f"{name} changed while it was read: start again when nothing writes to it.")
        except HeedError:
            remove(folder)
            raise


def _digest(*content: Any) -> str:
    return hashlib.blake2b(repr(content).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


# ---- word counts, from which a tokenizer is trained


@dataclass(frozen=True)
class CountTask:
    """A part whose words are counted.

    Args:
        part: its number.
        text: folder of the `CleanText`.
        threshold: bound of the digests of the sampled pairs.
        file: where the counts are written.
    """

    part: int
    text: Path
    threshold: int
    file: Path


def count_part(task: CountTask, advance: Advance) -> None:
    """Write the word counts of the pairs of a part with digests below the threshold."""
    counts = WordCounts()
    for block, digests in CleanText(task.text).read(task.part):
        counts.add(block.take(np.flatnonzero(digests <= np.uint64(task.threshold - 1)).tolist()))
        advance(len(block))
    task.file.write_bytes(pickle.dumps(counts))


def call_with_words(function: Callable[[WordCounts], Result], files: Sequence[Path]) -> Result:
    """Return the result of the function for the sum of the counts in these files."""
    counts = WordCounts()
    for file in files:
        counts.update(pickle.loads(file.read_bytes()))
    return function(counts)
