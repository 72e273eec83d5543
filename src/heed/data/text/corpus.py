"""A corpus: the training text, the validation sets and the test sets of a run."""

import hashlib
import json
from dataclasses import dataclass
from typing import NamedTuple

from heed.data.text.digests import text_digest
from heed.data.text.text import ParallelText
from heed.data.text.training_texts import TrainingTexts
from heed.directions import Direction


class EvaluationSet(NamedTuple):
    """A validation or test set."""

    text: ParallelText
    direction: Direction

    def reversed(self) -> "EvaluationSet":
        """Return the set with source and target swapped.

        Gold alignments are swapped too. Antecedents and roles are dropped, because they are positions in the old
        source.
        """
        metas = [json.loads(meta) for meta in self.text.meta or ()]
        for meta in metas:
            meta["alignment"] = sorted([tgt, src] for src, tgt in meta["alignment"])
            meta.update({key: empty for key, empty in (("antecedent", None), ("roles", {})) if key in meta})
        swapped = self.text.meta and [json.dumps(meta, ensure_ascii=False) for meta in metas]
        return EvaluationSet(ParallelText(self.text.tgt, self.text.src, swapped), self.direction.reversed())

    def first(self, pairs: int | None) -> "EvaluationSet":
        """Return the set of the first ``pairs`` pairs; None: all."""
        src, tgt, meta = self.text.src, self.text.tgt, self.text.meta
        return self._replace(text=ParallelText(src[:pairs], tgt[:pairs], meta and meta[:pairs]))

    def sentences(self, lang: str) -> list[str]:
        """Return the sentences in a language, an empty list if it is neither source nor target."""
        return {self.direction.tgt_lang: self.text.tgt, self.direction.src_lang: self.text.src}.get(lang, [])


@dataclass(frozen=True)
class Corpus:
    """Parallel text. ``train`` is cleaned; ``valid`` and ``tests`` are as published."""

    name: str
    train: TrainingTexts
    valid: dict[str, EvaluationSet]  # "valid", or one for each of several directions, such as "valid-en-de"
    tests: dict[str, EvaluationSet]
    max_eval_tokens: int | None  # of either side of a validation or test sentence; None: no limit

    @property
    def directions(self) -> tuple[Direction, ...]:
        """All directions of validation and training; the first validation set's direction comes first."""
        return tuple(dict.fromkeys((*(part.direction for part in self.valid.values()), *self.train.directions)))

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the training, validation and test text, by option name."""
        valid, tests = (text_digest(*(part.text for part in sets.values())) for sets in (self.valid, self.tests))
        return {"data.train": self.train.digest, "data.valid": valid, "data.test": tests}

    @property
    def digest(self) -> str:
        """Digest of all text after cleaning, the same on every machine."""
        held_out = text_digest(*(part.text for part in (*self.valid.values(), *self.tests.values())))
        return hashlib.blake2b(f"{self.train.digest} {held_out}".encode(), digest_size=16).hexdigest()

    @property
    def tags(self) -> tuple[str, ...]:
        """The language tags, starting with the first direction's; empty with a single target language."""
        tags = tuple(dict.fromkeys(direction.tag for direction in self.directions))
        return tags if len(tags) > 1 else ()
