"""From texts and sets to a corpus: the options that all kinds of corpora share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from heed.data.cleaning import Cleaning
from heed.data.corpus import Corpus, EvaluationSet, name_validation_sets
from heed.data.digests import source_digests
from heed.data.directions import Direction
from heed.data.noise import Noise
from heed.data.preparation.clean_text import Rules
from heed.data.preparation.training_text import Preparation, TrainingText
from heed.data.text import Source
from heed.data.training_texts import TrainingCorpus, TrainingTexts
from heed.errors import HeedError
from heed.options import find_problems, raise_problems


@dataclass(frozen=True)
class MixtureEntry:
    """A text of a mixture.

    Args:
        name: its name; "" if there is no other text.
        sources: its inputs.
        direction: its languages.
        weight: its share of the sentences, relative to the other texts; None: decided by its size.
        from_step: optimizer step from which on it is drawn.
        tag: first token of its sources; None: no tag.
        noise: of its sources; None: that of the corpus.
        min_score: drop pairs with a lower score; None: no limit.
    """

    name: str
    sources: Sequence[Source]
    direction: Direction
    weight: float | None = None
    from_step: int = 0
    tag: str | None = None
    noise: Noise | None = None
    min_score: float | None = None


@dataclass(frozen=True)
class CorpusBuilder:
    """The options that all kinds of corpora share, and the steps: reversal, cleaning and selection."""

    reverse: bool
    both_directions: bool
    max_train: int | None
    max_eval: int | None
    max_eval_tokens: int | None
    cleaning: Cleaning
    preparation: Preparation
    cache_dir: Path
    noise: Noise | None
    temperature: float = 1.0

    def build(
        self,
        name: str,
        train: Sequence[MixtureEntry],
        valid: dict[str, EvaluationSet],
        tests: dict[str, EvaluationSet],
    ) -> Corpus:
        """Return the corpus.

        Args:
            train: the texts of a mixture, or one with the name "".
            valid, tests: sets by name.
        """
        if self.reverse:
            train = [replace(entry, direction=entry.direction.reversed()) for entry in train]
            valid = name_validation_sets([part.reversed() for part in valid.values()])
            tests = {split: part.reversed() for split, part in tests.items()}
        if self.both_directions and (same := [e.direction for e in train if len(set(e.direction)) == 1]):
            raise HeedError(
                f"data.both_directions=true needs two different languages, but both are {same[0].src_lang!r}: set "
                "data.src_lang and data.tgt_lang."
            )
        held_out = [*valid.values(), *tests.values()]
        # The whole sets, so that the training text does not depend on `max_eval`.
        mixture = self._mix(train, held_out)
        valid, tests = ({split: part.first(self.max_eval) for split, part in sets.items()} for sets in (valid, tests))
        corpus = Corpus(name, mixture, valid, tests, self.max_eval_tokens)
        _check_targets(corpus)
        return corpus

    def _mix(self, entries: Sequence[MixtureEntry], held_out: Sequence[EvaluationSet]) -> TrainingTexts:
        """Return a mixture. Of duplicates across its texts, the heaviest text keeps its own."""
        selected: dict[str, TrainingText] = {}
        for entry in sorted(entries, key=lambda entry: -(entry.weight or 0)):
            # Equal pairs of other languages ("OK" is "OK" in German and in French) are no duplicates.
            heavier = [selected[e.name] for e in entries if e.name in selected and e.direction == entry.direction]
            selected[entry.name] = self._select(entry, held_out, heavier=heavier)
        corpora = []
        for entry in entries:
            text, direction = selected[entry.name], entry.direction
            directions = (direction, direction.reversed()) if self.both_directions else (direction,)
            weight = float(len(text)) ** (1 / self.temperature) if entry.weight is None else entry.weight
            noise = entry.noise or self.noise
            corpora.append(TrainingCorpus(entry.name, text, directions, weight, entry.from_step, entry.tag, noise))
        return TrainingTexts(corpora)

    def _select(
        self, entry: MixtureEntry, held_out: Sequence[EvaluationSet], *, heavier: Sequence[TrainingText]
    ) -> TrainingText:
        languages = entry.direction if self.both_directions else (entry.direction.src_lang,)
        texts = [[part.from_language(language) for part in held_out] for language in languages]
        text = TrainingText(
            entry.sources,
            held_out=[source_digests(filter(None, found)) for found in texts],
            rules=Rules(self.cleaning, entry.min_score, self.max_train),
            swapped=self.reverse,
            preparation=self.preparation,
            cache_dir=self.cache_dir,
            heavier=heavier,
        )
        if not len(text):
            where = f" in data.train.{entry.name}" if entry.name else ""
            raise HeedError(f"Cleaning left nothing to train on{where} (the rules are data.cleaning.*).\n{text.report}")
        return text


def parse_noise(given: Mapping[str, Any] | None) -> Noise | None:
    """Return the noise with these arguments; None for none.

    Raises:
        HeedError: if an argument is unknown or out of range.
    """
    if given is None:
        return None
    raise_problems(find_problems(Noise, given, where="data.noise."))
    return Noise(**given)


def _check_targets(corpus: Corpus) -> None:
    """Raise a HeedError if an evaluation set has a target language that no training text has."""
    trained = {direction.tgt_lang for direction in corpus.train.directions}
    for name, part in {**corpus.valid, **corpus.tests}.items():
        if part.direction.tgt_lang not in trained:
            option = f"data.{name.replace('-', '.', 1)}" if name in corpus.valid else f"data.test.{name}"
            raise HeedError(
                f"{option} is a set of {part.direction}, but no training text has the target language "
                f"{part.direction.tgt_lang}: add one, with `direction: {part.direction}`, or leave the set out."
            )
