"""``data=files``: the user's files, as one training text or a mixture."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from annotated_types import Interval

from heed.data.corpora.options import CorpusOptions, parse_noise
from heed.data.corpus import Corpus, EvaluationSet, name_validation_sets
from heed.data.directions import Direction
from heed.data.formats.entries import (
    Entry,
    FileEntry,
    find_sources,
    guess_language_from_script,
    guess_languages_from_names,
    name_test_sets,
    parse_entries,
)
from heed.data.formats.fields import Fields
from heed.data.text import ParallelText, Source, Text
from heed.errors import HeedError
from heed.options import AtLeast0, AtLeast1, Positive, find_problems, raise_problems, validated


@validated("data.")
@dataclass(kw_only=True)
class FilesCorpus(CorpusOptions):
    """A corpus of parallel files.

    An entry of ``train``, ``valid`` and ``test`` is a pair [source file, target file] of UTF-8 text with one sentence
    per line (only "\\n" ends a line; "\\r" before it is dropped), or one file with both sides: .tsv, .csv, .jsonl,
    .parquet or .tmx. Files may be compressed (gzip, xz, bzip2, zstd). Names may be patterns ("part-*.tsv.gz"), and a
    folder stands for the files in it.

    Args:
        train, valid: lists of entries, which are concatenated. ``train`` may also be a mixture: a mapping from names to
            `TextOptions`, and ``valid`` a mapping from directions ("en-de") to lists. Its first direction is that of
            the texts and test sets that do not name theirs.
        temperature: of a mixture without weights: a text of n pairs gets the weight n^(1 / temperature), so that a
            higher temperature draws small texts more often (Arivazhagan et al. 2019, §4.2). None: 1.
        test: a mapping from names of test sets to lists of entries, or one list. A list of one entry is the test set
            "test"; each entry of a longer list is a test set named after its (source) file. None: there is no test set.
            A name that is a direction or ends with one ("news-en-de") is a set of this direction.
        src_field, tgt_field: fields of a file with both sides: columns of a table by their names in the first line or
            by their numbers from 1; "translation.de" is a field of a nested mapping.
        score_field: field of a score of each pair, such as those of bicleaner or LASER; None: there is none.
        min_score: train only on pairs with at least this score.
        src_lang, tgt_lang: language codes. None: guess from the suffixes of the first training files (a.en, a.de) or
            from the field names; otherwise recognise Chinese, Japanese and Korean by their script; otherwise "und".
        Others: see `CorpusOptions`.

    Raises:
        HeedError: naming the entry that is invalid.
    """

    train: Sequence[FileEntry] | Mapping[str, Mapping[str, Any]]
    temperature: Annotated[float, Interval(ge=1)] | None
    valid: Sequence[FileEntry] | Mapping[str, Sequence[FileEntry]]
    test: Sequence[FileEntry] | Mapping[str | int, Sequence[FileEntry]] | None
    src_field: str | AtLeast1
    tgt_field: str | AtLeast1
    score_field: str | AtLeast1 | None
    min_score: float | None
    src_lang: str | None
    tgt_lang: str | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.train, Mapping):
            self.texts = _parse_mixture(self.train)
        else:
            self.texts = {"": TextOptions(files=self.train)}
        if self.temperature is not None and "" in self.texts:
            raise HeedError(
                "data.temperature decides the weights of a mixture: leave it out, or name the texts in data.train: "
                "{news: {files: [[a.en,a.de]]}, crawl: {files: [b.tsv]}}."
            )
        if self.temperature is not None and any(text.weight for text in self.texts.values()):
            raise HeedError("data.temperature decides the weights of a mixture without weights: leave out one of them.")
        self.valid_entries = _parse_valid(self.valid)
        self.test_entries = _parse_tests(self.test)
        if None not in self.valid_entries and (self.src_lang or self.tgt_lang):
            raise HeedError("data.valid names its directions: leave out data.src_lang and data.tgt_lang.")
        score = None if self.score_field is None else str(self.score_field)
        self.fields = Fields(str(self.src_field), str(self.tgt_field), score, (self.src_lang, self.tgt_lang))
        _check_fields(self.texts, self.fields, self.min_score)

    def load(self) -> Corpus:
        """Read all files and clean the training pairs.

        Raises:
            HeedError: naming the invalid file, and its line if possible.
        """
        valid = {direction: self._read(entries, direction) for direction, entries in self.valid_entries.items()}
        own = next(iter(self.valid_entries)) or self._guess_direction(valid[None])
        self._check_suffixes(own)
        train = [
            Text(
                _find_all(text.entries, text.fields(self._fields_of(text.direction))),
                text.direction or own,
                name,
                text.weight,
                text.from_step,
                text.tag,
                text.noise,
                self.min_score if text.min_score is None else text.min_score,
            )
            for name, text in self.texts.items()
        ]
        tests = {}
        for name, entries in self.test_entries.items():
            direction = self._direction_of_test(name, own)
            tests[name] = EvaluationSet(self._read(entries, direction), direction)
        sets = [EvaluationSet(text, direction or own) for direction, text in valid.items()]
        return self.build("files", train, name_validation_sets(sets), tests, temperature=self.temperature or 1.0)

    def _read(self, entries: Sequence[Entry], direction: Direction | None) -> ParallelText:
        """Read an evaluation set. It has no scores, which are for training."""
        return ParallelText.read(_find_all(entries, replace(self._fields_of(direction), score=None)))

    def _fields_of(self, direction: Direction | None) -> Fields:
        """Return the fields of files of a direction; None: of that of the corpus, as far as it is given."""
        return replace(self.fields, languages=direction or next(iter(self.valid_entries)) or self.fields.languages)

    def _direction_of_test(self, name: str, own: Direction) -> Direction:
        """Return the direction of a test set: the one that its name ends with, or the only one.

        Raises:
            HeedError: if the name does not end with one of several directions.
        """
        known = {own, *self.valid_entries, *(text.direction for text in self.texts.values())} - {None}
        if self.both_directions:
            known |= {direction.reversed() for direction in known if direction}
        named = [direction for direction in known if re.search(rf"(^|[-.]){re.escape(str(direction))}$", name)]
        if not named and len(self.valid_entries) > 1:
            raise HeedError(
                f"data.test: the name of the test set {name} must end with its direction, such as {name}-{own}: there "
                f"are {', '.join(sorted(map(str, known)))}."
            )
        return max(filter(None, named), key=lambda direction: len(str(direction)), default=own)

    def _check_suffixes(self, own: Direction) -> None:
        """Check that the suffixes of no pair of files say that its sides are swapped.

        Raises:
            HeedError: naming the pair, and the training files from whose suffixes its direction was guessed.
        """
        first = next(iter(self.texts.values()))
        is_guessed = None in self.valid_entries and not (first.direction or any(self.fields.languages))
        origin = f", that of [{','.join(first.entries[0])}] in data.train" if is_guessed else ""
        sets = [("train", text.entries, text.direction or own) for text in self.texts.values()]
        sets += [("valid", entries, direction or own) for direction, entries in self.valid_entries.items()]
        sets += [("test", entries, self._direction_of_test(name, own)) for name, entries in self.test_entries.items()]
        for key, entries, direction in sets:
            for entry in entries:
                src, tgt = guess_languages_from_names(entry, self.fields) if len(entry) == 2 else (None, None)
                if src and tgt and (src == direction.tgt_lang or tgt == direction.src_lang):
                    raise HeedError(
                        f"data.{key}: [{','.join(entry)}] is {src}-{tgt} by its suffixes, but its direction is "
                        f"{direction}{origin}: swap the two files."
                    )

    def _guess_direction(self, valid: ParallelText) -> Direction:
        """Return the languages of the first training text: given, or guessed from names or from the script."""
        first = next(iter(self.texts.values()))
        if first.direction:
            return first.direction
        guesses = guess_languages_from_names(first.entries[0], self.fields)
        languages = [
            given or guess or guess_language_from_script((valid.src, valid.tgt)[side])
            for side, (given, guess) in enumerate(zip(self.fields.languages, guesses, strict=True))
        ]
        return Direction(*languages)


class TextOptions:
    """The options of a text of a mixture.

    Args:
        files: list of entries, as ``train``.
        direction: its languages, such as "en-fr". None: those of the corpus.
        weight: its share of the sentences, relative to the other texts. None: by its size and ``data.temperature``.
        from_step: optimizer step from which on it is drawn.
        tag: first token of its sources, such as "<crawl>", which tells the model what kind of text it is (Caswell et
            al. 2019). None: no tag.
        noise: the arguments of its `heed.data.noise.Noise`. None: ``data.noise``.
        src_field, tgt_field, score_field, min_score: None: those of the corpus.
    """

    def __init__(
        self,
        *,
        files: Sequence[FileEntry],
        direction: str | None = None,
        weight: Positive | None = None,
        from_step: AtLeast0 = 0,
        tag: str | None = None,
        noise: Mapping[str, Any] | None = None,
        src_field: str | AtLeast1 | None = None,
        tgt_field: str | AtLeast1 | None = None,
        score_field: str | AtLeast1 | None = None,
        min_score: float | None = None,
    ) -> None:
        self.entries = parse_entries("train", files)
        self.direction = None if direction is None else Direction.parse(direction, where="data.train: direction=")
        self.noise = parse_noise(noise)
        self.weight, self.from_step, self.tag = weight, from_step, tag
        self.src_field, self.tgt_field, self.score_field, self.min_score = src_field, tgt_field, score_field, min_score
        if tag is not None and not re.fullmatch(r"<(?!2|0x|/|(s|pad|unk)>)[^<>\s]+>", tag):
            raise HeedError(
                f"data.train: tag={tag} must be a word in angle brackets, such as <crawl>, but no special token: not "
                "<s>, <unk> or <pad>, and not starting with 2, 0x or /."
            )

    def fields(self, default: Fields) -> Fields:
        """Return the fields of its files; those that it does not name are the default ones."""
        return replace(
            default,
            src=str(self.src_field or default.src),
            tgt=str(self.tgt_field or default.tgt),
            score=default.score if self.score_field is None else str(self.score_field),
        )


def _check_fields(texts: Mapping[str, TextOptions], default: Fields, min_score: float | None) -> None:
    """Raise a HeedError if a text has one field for both sides, or a threshold and no scores.

    Args:
        texts: by name.
        default: the fields that a text does not name.
        min_score: the threshold of the texts that have none.
    """
    for name, text in texts.items():
        where, fields = f"data.train.{name}." if name else "data.", text.fields(default)
        if fields.src == fields.tgt:
            raise HeedError(
                f"{where}src_field and {where}tgt_field are both {fields.src}: give the field of the source and that "
                "of the target."
            )
        if text.min_score is not None and fields.score is None:
            raise HeedError(f"{where}min_score needs {where}score_field, the field or column of the scores.")
    if min_score is not None and not any(text.fields(default).score for text in texts.values()):
        raise HeedError("data.min_score needs data.score_field, the field or column of the scores.")


def _parse_mixture(train: Mapping[str, Mapping[str, Any]]) -> dict[str, TextOptions]:
    """Return the options of each text of a mixture."""
    mixture: dict[str, TextOptions] = {}
    for name, given in train.items():
        where = f"data.train.{name}."
        if not str(name):
            raise HeedError("data.train: a text of a mixture needs a name: {news: {files: [[a.en,a.de]]}}.")
        if not isinstance(given, Mapping):
            raise HeedError(f"data.train.{name}={given} must be a mapping such as {{files: [[a.en,a.de]], weight: 2}}.")
        raise_problems(find_problems(TextOptions, given, where=where))
        mixture[str(name)] = TextOptions(**given)
    if not mixture:
        raise HeedError("data.train is empty: give a list of pairs such as '[[a.en,a.de]]', or named texts.")
    if len({text.weight is None for text in mixture.values()}) > 1:
        raise HeedError("data.train: give every text a weight, or none of them.")
    return mixture


def _parse_valid(
    valid: Sequence[FileEntry] | Mapping[str, Sequence[FileEntry]],
) -> dict[Direction | None, list[Entry]]:
    """Return the entries of the validation sets by direction; None for a set that does not name it."""
    if not isinstance(valid, Mapping):
        return {None: parse_entries("valid", valid)}
    if not valid:
        raise HeedError("data.valid is empty: give a list of pairs such as '[[a.en,a.de]]', or one for each direction.")
    return {
        Direction.parse(str(name), where="data.valid."): parse_entries(f"valid.{name}", entries)
        for name, entries in valid.items()
    }


def _parse_tests(
    test: Sequence[FileEntry] | Mapping[str | int, Sequence[FileEntry]] | None,
) -> dict[str, list[Entry]]:
    """Return the entries of the test sets by name."""
    if test is None:
        return {}
    if isinstance(test, Mapping):
        tests = {str(name): parse_entries(f"test.{name}", entries) for name, entries in test.items()}
    else:
        tests = name_test_sets(parse_entries("test", test))
    for name in tests:
        if re.match(r"(train|valid)$|valid-", name):
            raise HeedError(f"data.test: a test set cannot be called {name}, the name of another split: rename it.")
        if not re.fullmatch(r"[^/\0\ud800-\udfff]{1,100}", name) or name.startswith("."):
            raise HeedError(
                f"data.test: {name!r} cannot name a test set, because its translations are written to files with "
                "this name: choose a name of at most 100 characters without / that does not start with a dot."
            )
    return tests


def _find_all(entries: Sequence[Entry], fields: Fields) -> list[Source]:
    return [source for entry in entries for source in find_sources(entry, fields)]
