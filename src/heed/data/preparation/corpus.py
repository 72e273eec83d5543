"""A training text and what is prepared from it, in the cache: its selected pairs, a tokenizer's sample, token ids."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from heed.compat import usable_cores
from heed.data.cleaning import Cleaning, CleaningReport
from heed.data.digests import Digests
from heed.data.preparation.encode import (
    EncodeTask,
    Shard,
    encode_part,
    id_type,
    merge_shard,
    shard_tasks,
)
from heed.data.preparation.folder import open_or_build
from heed.data.preparation.ranges import DIGEST_LIMIT
from heed.data.preparation.scan import run_path
from heed.data.preparation.selection import (
    Selection,
    SelectionSettings,
    changed_error,
    read_selected,
    select_pairs,
)
from heed.data.preparation.words import CountTask, count_part
from heed.data.preparation.workers import Workers
from heed.data.store import PreparedPairs, chunk_size
from heed.data.text import Block, Part, Source
from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.files import remove, replacing
from heed.options import AtLeast1, Positive, validated

FORMAT = 1
"""Version of the files. Those of another version are prepared again."""

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
        sources: the text.
        held_out: digests of the sentences of the validation and test sets, see `Cleaning.violations`.
        cleaning, min_score, at_most: what is selected, see `SelectionSettings`.
        swapped: swap source and target.
        preparation: how it is prepared.
        cache_dir: folder of the cache.
        heavier: texts of the same mixture; their pairs are duplicates in this one.

    Raises:
        HeedError: if the text is invalid.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        held_out: Sequence[Digests],
        cleaning: Cleaning,
        min_score: float | None,
        at_most: int | None,
        swapped: bool,
        preparation: Preparation,
        cache_dir: Path,
        heavier: "Sequence[TrainingText]" = (),
    ) -> None:
        self.sources, self.swapped, self.preparation, self.cache_dir = sources, swapped, preparation, cache_dir
        settings = SelectionSettings(cleaning, min_score, at_most)
        held_out = held_out if cleaning.drop_leaked else ()
        self._identity = [source.identity() for source in sources]
        rules = sorted(vars(cleaning).items())
        others = [text.selection.folder for text in heavier] if cleaning.drop_duplicates else []
        names = [folder.name for folder in others]
        leaked = [digests.tobytes() for digests in held_out]
        key = _digest(FORMAT, self._identity, rules, min_score, at_most, swapped, leaked, names)

        def build(folder: Path) -> None:
            with self._unchanged(folder), Workers.started(self.processes) as workers:
                select_pairs(folder, self.parts, settings, held_out, workers, swapped=swapped, heavier=others)

        self.selection: Selection = open_or_build(
            cache_dir / "text" / key,
            _load_selection,
            build,
            wait_minutes=preparation.wait_minutes,
            keep_failed=False,  # after a correction of the text, nothing would continue it
        )

    @cached_property
    def parts(self) -> list[Part]:
        """The parts of all sources."""
        return [part for source in self.sources for part in source.parts()]

    @property
    def size(self) -> int:
        """Bytes of the text."""
        return sum(part.size for part in self.parts)

    @property
    def processes(self) -> int:
        """Number of worker processes; none for a small text."""
        return 0 if self.size <= SMALL else self.preparation.processes

    def __len__(self) -> int:
        return len(self.selection)

    @property
    def fingerprint(self) -> str:
        """Digest of the selected pairs, whatever their order and the format of the files."""
        return self.selection.fingerprint

    @property
    def report(self) -> CleaningReport:
        """What the cleaning rules dropped."""
        return self.selection.report

    def blocks(self) -> Iterator[Block]:
        """Yield the selected pairs, in the order of the text."""
        for number, part in enumerate(self.parts):
            for _, block, _ in read_selected(self.selection, part, number, lambda _: None, swapped=self.swapped):
                yield block

    def write_words(self, at_most: int, folder: Path, workers: Workers) -> list[Path]:
        """Write the word counts of a sample of about ``at_most`` pairs, and return the files."""
        threshold = _bound(self.selection) * min(at_most, len(self)) // len(self)
        tasks = [
            CountTask(number, part, self.swapped, self.selection.folder, threshold, folder / f"{number}")
            for number, part in enumerate(self.parts)
        ]
        workers.map(count_part, tasks, description="Counting words", total=self.size, unit="B")
        return [task.file for task in tasks]

    def encode(self, tokenizer: Tokenizer) -> PreparedPairs:
        """Return the token ids of all pairs, from the cache if they are there.

        Raises:
            HeedError: if there is too little room on the disk.
        """
        key = _digest(FORMAT, self.fingerprint, tokenizer.hash)

        def build(folder: Path) -> None:
            with self._unchanged(folder), Workers.started(self.processes) as workers:
                self._encode(folder, tokenizer, workers)

        return open_or_build(
            self.cache_dir / "encoded" / key, PreparedPairs, build, wait_minutes=self.preparation.wait_minutes
        )

    def _encode(self, folder: Path, tokenizer: Tokenizer, workers: Workers) -> None:
        tokenizer_folder, runs_folder = folder / "tokenizer", folder / "runs"
        tokenizer.save(tokenizer_folder)
        runs_folder.mkdir(exist_ok=True)
        self._check_room(folder, tokenizer)
        tasks = [
            EncodeTask(number, part, self.swapped, self.selection.folder, tokenizer_folder, runs_folder)
            for number, part in enumerate(self.parts)
        ]
        workers.map(encode_part, tasks, description="Encoding", total=self.size, unit="B")
        runs = [run_path(runs_folder, run.part, run.number) for run in self.selection.runs]
        shards = workers.map(
            merge_shard,
            shard_tasks(len(self), runs, folder, limit=_bound(self.selection)),
            description="Writing token ids",
            total=len(self),
            unit="pairs",
        )
        _write_manifest(folder, shards)
        remove(runs_folder)

    @contextmanager
    def _unchanged(self, folder: Path) -> Iterator[None]:
        """Raise a HeedError and remove the folder if a source is not the same after the block as at the start.

        The folder is named after the text, so it must not keep anything of another one.
        """
        try:
            yield
        except (HeedError, OSError):
            self._check_unchanged(folder)
            raise
        self._check_unchanged(folder)

    def _check_unchanged(self, folder: Path) -> None:
        for source, identity in zip(self.sources, self._identity, strict=True):
            try:
                if source.identity() != identity:
                    raise changed_error(source.parts()[0].name)
            except HeedError:
                remove(folder)
                raise

    def _check_room(self, folder: Path, tokenizer: Tokenizer) -> None:
        """Raise a HeedError if the disk has too little room for the token ids, which are written twice."""
        block = next(block for block in self.blocks() if len(block))
        src, tgt = block.src[:SAMPLED_PAIRS], block.tgt[:SAMPLED_PAIRS]
        tokens = sum(map(len, (*tokenizer.encode_src(src, tagged=False), *tokenizer.encode_tgt(tgt))))
        chars = sum(map(len, (*src, *tgt)))
        item = np.dtype(id_type(tokenizer)).itemsize
        needed = 2 * (item * tokens / max(1, chars) * self.selection.clean_chars + 12 * len(self))
        done = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        free = shutil.disk_usage(folder).free
        if ROOM * needed > free + done:
            raise HeedError(
                f"{folder.parent} has {free / 1e6:,.0f} MB of free space, but preparing {len(self):,} pairs needs "
                f"about {ROOM * needed / 1e6:,.0f} MB: make room, or set cache_dir=DIR to a folder on another disk."
            )


def _load_selection(folder: Path) -> Selection:
    try:
        return Selection(folder, verify=True)
    except (OSError, KeyError, TypeError) as error:
        raise ValueError(f"{folder} is not complete") from error


def _bound(selection: Selection) -> int:
    """Return the number below which the digests of the selected pairs are."""
    is_sample = selection.limit is not None and not selection.keep_duplicates
    return selection.limit[0] if is_sample and selection.limit is not None else DIGEST_LIMIT


def _write_manifest(folder: Path, shards: Sequence[Shard]) -> None:
    longest = [max(shard.longest[column] for shard in shards) for column in range(3)]
    content = {
        "pairs": sum(shard.pairs for shard in shards),
        "chunk": chunk_size(sum(shard.pairs for shard in shards)),
        "longest": longest,
        "shards": [vars(shard) for shard in shards],
    }
    with replacing(folder / "manifest.json", durable=True) as file:
        file.write_text(json.dumps({"digest": _digest(json.dumps(content)), **content}, indent=1), encoding="utf-8")


def _digest(*content: Any) -> str:
    return hashlib.blake2b(repr(content).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
