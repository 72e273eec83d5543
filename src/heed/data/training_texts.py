"""The training text of a run: one text, or several that are mixed by weight."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from heed.data.cleaning import RULES, CleaningReport
from heed.data.directions import Direction
from heed.data.noise import Noise
from heed.data.pairs import StoredPairs
from heed.data.preparation.training_text import TrainingText, call_with_words
from heed.data.preparation.workers import Workers
from heed.data.text import Block, WordCounts
from heed.data.tokenizer import Tokenizer

Result = TypeVar("Result")


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

    def call_with_words(self, function: Callable[[WordCounts], Result], at_most: int, folder: Path) -> Result:
        """Return the result of a function of the words in a sample of about ``at_most`` pairs.

        A mixture is sampled in proportion to the weights. If a text is large, the function is called in a worker
        process, whose memory is freed with it. The words are written to the folder.
        """
        weights = sum(corpus.weight for corpus in self.corpora)
        processes = max(corpus.text.processes(corpus.text.clean.chars) for corpus in self.corpora)
        files = []
        with Workers.started(processes) as workers:
            for number, corpus in enumerate(self.corpora):
                share = folder / f"{number}"
                share.mkdir(parents=True, exist_ok=True)
                sample = max(1, round(at_most * corpus.weight / weights))
                files += corpus.text.write_words(sample, share, workers)
            return workers.call(partial(call_with_words, function), files)

    def encode(self, tokenizer: Tokenizer) -> list[StoredPairs]:
        """Return the token ids of each text, see `TrainingText.encode`."""
        return [corpus.text.encode(tokenizer) for corpus in self.corpora]
