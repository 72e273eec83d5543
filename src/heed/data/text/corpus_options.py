"""What all kinds of corpora share: their options, and how their texts and sets become a corpus."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from heed.data.text.clean_pairs import Preparation
from heed.data.text.cleaning import Cleaning, Rules
from heed.data.text.corpus import Corpus, EvaluationSet, Text, TrainingSet
from heed.data.text.digests import source_digests
from heed.data.text.noise import Noise
from heed.errors import HeedError
from heed.languages import Language, is_same_language
from heed.options import AtLeast1, from_plain


@dataclass(kw_only=True)
class CorpusOptions:
    """The options that all kinds of corpora share. conf/data/common/default.yaml explains them."""

    reverse: bool
    both_directions: bool
    noise: Mapping[str, Any] | None
    max_train: AtLeast1 | None
    max_eval: AtLeast1 | None
    max_eval_tokens: AtLeast1 | None
    cleaning: Cleaning
    preparation: Preparation
    cache_dir: str

    def __post_init__(self) -> None:
        self.default_noise = parse_noise(self.noise)

    def build(
        self,
        name: str,
        train: Sequence[Text],
        valid: Sequence[EvaluationSet],
        tests: Mapping[str, EvaluationSet],
        *,
        temperature: float = 1.0,
    ) -> Corpus:
        """Clean and select the training text, apply ``reverse``, and return the corpus.

        ``train`` are the texts of a mixture, or one text with the name ""; ``valid`` is one set, or one per direction.
        """
        if self.reverse:
            train = [replace(text, direction=text.direction.reversed()) for text in train]
            valid = [part.reversed() for part in valid]
            tests = {name: part.reversed() for name, part in tests.items()}
        codes: dict[Language, str] = {}
        directions = [text.direction for text in train] + [part.direction for part in (*valid, *tests.values())]
        for code in chain.from_iterable(directions):
            if (first := codes.setdefault(Language.parse(code), code)) != code:
                raise HeedError(f"The texts have two codes of one language, {first} and {code}: use one of them.")
        if self.both_directions and (same := [t.direction for t in train if is_same_language(*t.direction)]):
            raise HeedError(
                f"data.both_directions=true needs two different languages, but both are {same[0].src_lang!r}: set "
                "data.src_lang and data.tgt_lang."
            )
        # Compare with whole sets, so that the training text does not depend on `max_eval`.
        texts = self._clean(train, [*valid, *tests.values()])
        corpus = Corpus(
            name,
            TrainingSet(texts, temperature, self.both_directions),
            {"valid" if len(valid) == 1 else f"valid-{part.direction}": part.first(self.max_eval) for part in valid},
            {name: part.first(self.max_eval) for name, part in tests.items()},
            self.max_eval_tokens,
        )
        _check_targets(corpus)
        return corpus

    def _clean(self, texts: Sequence[Text], held_out: Sequence[EvaluationSet]) -> list[Text]:
        """Clean the texts and select their training pairs.

        A pair in several texts is kept in the one with the largest ``weight``, or the first of them.
        """
        cleaned: dict[str, Text] = {}
        for text in sorted(texts, key=lambda text: -(text.weight or 0)):
            directions = [text.direction, text.direction.reversed()][: 1 + self.both_directions]
            leaked = [
                source_digests(sentence for part in held_out for sentence in part.sentences(direction.src_lang))
                for direction in (directions if self.cleaning.drop_leaked else ())
            ]
            found = replace(text, noise=text.noise or self.default_noise).cleaned(
                Rules(self.cleaning, text.min_score, leaked, swapped=self.reverse, at_most=self.max_train),
                preparation=self.preparation,
                cache_dir=Path(self.cache_dir),
                # Equal pairs of different languages ("OK" in German and in French) are not duplicates.
                heavier=[other for other in cleaned.values() if other.direction == text.direction],
            )
            if not len(found.clean):
                where = f" in data.train.{text.name}" if text.name else ""
                report = found.clean.report
                is_leaked = report.dropped.get("leaked", 0) > 0.5 * report.total
                advice = "\nIt is the text of the validation or test sets: give other files for these." * is_leaked
                raise HeedError(
                    f"Cleaning left nothing to train on{where} (the rules are data.cleaning.*).\n{report}{advice}"
                )
            cleaned[text.name] = found
        return [cleaned[text.name] for text in texts]


def parse_noise(given: Mapping[str, Any] | None) -> Noise | None:
    """Return the noise with these arguments, None without any; raise a HeedError if one is unknown or out of range."""
    return None if given is None else from_plain(Noise, given, where="data.noise.")


def _check_targets(corpus: Corpus) -> None:
    """Raise a HeedError if an evaluation set has a target language that no training text has."""
    trained = {direction.tgt_lang for direction in corpus.train.directions}
    for name, part in {**corpus.valid, **corpus.tests}.items():
        if part.direction.tgt_lang not in trained:
            option = f"data.{name.replace('-', '.', 1)}" if name in corpus.valid else f"data.test.{name}"
            raise HeedError(
                f"{option} has the direction {part.direction}, but no training text has the target language "
                f"{part.direction.tgt_lang}: add one with `direction: {part.direction}`, or leave the set out."
            )
