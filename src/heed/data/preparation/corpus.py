"""A training text and what is prepared from it, in the cache: its selected pairs, a tokenizer's sample, token ids."""

import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeVar

import numpy as np

from heed.data.cleaning import RULES, Cleaning, CleaningReport
from heed.data.digests import Digests
from heed.data.directions import Direction
from heed.data.noise import Noise
from heed.data.preparation.encode import (
    EncodeTask,
    Shard,
    encode_part,
    id_type,
    merge_shard,
    shard_tasks,
)
from heed.data.preparation.folder import open_or_build
from heed.data.preparation.scan import run_path
from heed.data.preparation.selection import (
    DIGEST_LIMIT,
    Selection,
    SelectionSettings,
    changed_error,
    read_selected,
    select_pairs,
)
from heed.data.preparation.workers import Workers
from heed.data.store import PreparedPairs, chunk_size
from heed.data.text import Advance, Block, Part, Source, WordCounts
from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.files import remove, replacing
from heed.options import AtLeast1, Positive, validated

Result = TypeVar("Result")

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
        self.processes = len(os.sched_getaffinity(0)) if num_proc == "auto" else num_proc
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
            _CountTask(number, part, self.swapped, self.selection.folder, threshold, folder / f"{number}")
            for number, part in enumerate(self.parts)
        ]
        workers.map(_count_part, tasks, description="Counting words", total=self.size, unit="B")
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
                f"{folder.parent} has {free / 1e9:.1f} GB of free space, but preparing {len(self):,} pairs needs about "
                f"{ROOM * needed / 1e9:.1f} GB: make room, or set cache_dir=DIR to a folder on another disk."
            )


@dataclass(frozen=True)
class TrainingCorpus:
    """A training text, and how it is mixed with others.

    Args:
        name: its name in a mixture; "" if there is no other.
        text: the text.
        directions: in which it is used: as it is, and if there are two, swapped too.
        weight: its share of the sentences, relative to the other texts.
        from_step: optimizer step from which on it is drawn.
        tag: first token of its sources, such as "<crawl>"; None: no tag.
        noise: of its sources; None: no noise.
    """

    name: str
    text: TrainingText
    directions: tuple[Direction, ...]
    weight: float = 1.0
    from_step: int = 0
    tag: str | None = None
    noise: Noise | None = None


@dataclass(frozen=True)
class TrainingTexts:
    """All training text: one text, or several that are mixed."""

    corpora: Sequence[TrainingCorpus]

    @property
    def is_mixture(self) -> bool:
        """Whether texts are mixed by weight."""
        return any(corpus.name for corpus in self.corpora)

    def __len__(self) -> int:
        return sum(len(corpus.text) for corpus in self.corpora)

    def blocks(self) -> Iterator[Block]:
        """Yield all selected pairs, text by text."""
        for corpus in self.corpora:
            yield from corpus.text.blocks()

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions of all texts."""
        return tuple(dict.fromkeys(direction for corpus in self.corpora for direction in corpus.directions))

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the texts."""
        return tuple(dict.fromkeys(corpus.tag for corpus in self.corpora if corpus.tag is not None))

    @property
    def fingerprint(self) -> str:
        """Digest of the selected pairs; of a mixture, of its texts and their weights."""
        if not self.is_mixture:
            return self.corpora[0].text.fingerprint
        mixed = [(c.name, c.text.fingerprint, c.weight, c.from_step, c.tag) for c in self.corpora]
        return hashlib.blake2b(repr(mixed).encode(), digest_size=16).hexdigest()

    @property
    def report(self) -> CleaningReport:
        """What the cleaning rules dropped, in all texts."""
        reports = [corpus.text.report for corpus in self.corpora]
        if len(reports) == 1:
            return reports[0]
        return CleaningReport(
            sum(report.total for report in reports),
            {rule: sum(report.dropped[rule] for report in reports) for rule in RULES},
            {rule: [pair for report in reports for pair in report.examples[rule]] for rule in RULES},
        )

    def describe_cleaning(self) -> str:
        """Return what the cleaning rules dropped, text by text, for the user."""
        if not self.is_mixture:
            return str(self.report)
        return "\n".join(f"{corpus.name}: {corpus.text.report}" for corpus in self.corpora)

    def call_with_words(self, function: Callable[[WordCounts], Result], at_most: int) -> Result:
        """Return the result of a function of the words in a sample of about ``at_most`` pairs.

        A mixture is sampled in proportion to the weights. If a text is large, the function is called in a worker
        process, whose memory is freed with it.
        """
        weights = sum(corpus.weight for corpus in self.corpora)
        processes = max(corpus.text.processes for corpus in self.corpora)
        files = []
        with (
            TemporaryDirectory(dir=self.corpora[0].text.cache_dir) as folder,
            Workers.started(processes) as workers,
        ):
            for number, corpus in enumerate(self.corpora):
                share = Path(folder, f"{number}")
                share.mkdir()
                sample = max(1, round(at_most * corpus.weight / weights))
                files += corpus.text.write_words(sample, share, workers)
            return workers.call(partial(_call_with_words, function), files)

    def encode(self, tokenizer: Tokenizer) -> list[PreparedPairs]:
        """Return the token ids of each text, see `TrainingText.encode`."""
        return [corpus.text.encode(tokenizer) for corpus in self.corpora]


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
    with replacing(folder / "manifest.json") as file:
        file.write_text(json.dumps({"digest": _digest(json.dumps(content)), **content}, indent=1))


def _digest(*content: Any) -> str:
    return hashlib.blake2b(repr(content).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


# ---- word counts


@dataclass(frozen=True)
class _CountTask:
    number: int
    part: Part
    swapped: bool
    selection: Path
    threshold: int
    """Bound of the digests of the sampled pairs."""
    file: Path


def _count_part(task: _CountTask, advance: Advance) -> None:
    """Write the word counts of the pairs of a part with digests below the threshold."""
    counts = WordCounts()
    blocks = read_selected(Selection(task.selection), task.part, task.number, advance, swapped=task.swapped)
    for _, block, keys in blocks:
        counts.add(block.take(np.flatnonzero(keys <= np.uint64(task.threshold - 1)).tolist()))
    task.file.write_bytes(pickle.dumps(counts))


def _call_with_words(function: Callable[[WordCounts], Result], files: Sequence[Path]) -> Result:
    counts = WordCounts()
    for file in files:
        counts.update(pickle.loads(file.read_bytes()))
    return function(counts)
