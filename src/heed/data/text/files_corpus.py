"""``data=files``: the user's files, as one training text or a mixture."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval

from heed.data.text.corpus import Corpus, CorpusOptions, EvaluationSet, Text, parse_noise
from heed.data.text.formats.entries import Entry, FileEntry, find_sources, parse_entries
from heed.data.text.formats.files import without_compression
from heed.data.text.formats.sources import Fields
from heed.data.text.source import Sentences
from heed.errors import HeedError
from heed.languages import Direction, find_language
from heed.options import AtLeast1, Positive, from_plain, validated

NAME_BYTES = 200
"""Maximum bytes of the name of a test set. File systems allow 255, and suffixes are added to it."""
NOT_IN_NAMES = r'/\\:*?"<>|\0\ud800-\udfff'
"""Characters that the file systems of Linux or Windows, or UTF-8, do not allow in names, for a regular expression."""
NO_LANGUAGES = ("src", "tgt", "trg", "txt")  # suffixes that look like language codes
Field = str | AtLeast1  # the name of a field, or the number of a column from 1


@validated("data.")
@dataclass(kw_only=True)
class FilesCorpus(CorpusOptions):
    """A corpus of parallel files. conf/data/files.yaml explains each option.

    Text is UTF-8 with one sentence per line: only "\\n" ends a line, and "\\r" before it is dropped.
    """

    train: Sequence[FileEntry] | Mapping[str, Mapping[str, Any]]
    temperature: Annotated[float, Interval(ge=1)] | None
    valid: Sequence[FileEntry] | Mapping[str, Sequence[FileEntry]]
    test: Sequence[FileEntry] | Mapping[str | int, Sequence[FileEntry]] | None
    src_field: Field
    tgt_field: Field
    score_field: Field | None
    min_score: float | None
    src_lang: str | None
    tgt_lang: str | None

    def __post_init__(self) -> None:
        super().__post_init__()
        fields = {name: getattr(self, name) for name in ("src_field", "tgt_field", "score_field")}
        if isinstance(self.train, Mapping):
            self.texts = _parse_mixture(self.train, fields)
        else:
            self.texts = {"": TrainingFiles(files=self.train, **fields)}
        if self.temperature is not None and "" in self.texts:
            raise HeedError(
                "data.temperature decides the weights of a mixture: leave it out, or name the texts in data.train: "
                "{news: {files: [[a.en,a.de]]}, crawl: {files: [b.tsv]}}."
            )
        if self.temperature is not None and any(text.weight for text in self.texts.values()):
            raise HeedError("data.temperature decides the weights of a mixture without weights: leave out one of them.")
        self.valid_entries = _parse_valid(self.valid)
        self.test_entries = {} if self.test is None else _parse_tests(self.test)
        self.given_direction = next(iter(self.valid_entries))
        if self.given_direction and (self.src_lang or self.tgt_lang):
            raise HeedError("data.valid names its directions: leave out data.src_lang and data.tgt_lang.")
        self.languages = self.given_direction or (self.src_lang, self.tgt_lang)
        for name, text in self.texts.items():
            text.check(f"data.train.{name}." if name else "data.")
        if self.min_score is not None and all(text.score_field is None for text in self.texts.values()):
            raise HeedError("data.min_score needs data.score_field, the field or column of the scores.")

    def load(self) -> Corpus:
        """Read all files and clean the training pairs, or raise a HeedError that names the invalid file and line."""
        valid = {direction: self._read(entries, direction) for direction, entries in self.valid_entries.items()}
        own = self.given_direction or self._guess_direction(valid[None])
        sets = [EvaluationSet(text, direction or own) for direction, text in valid.items()]
        test_directions = {name: self._direction_of_test(name, own) for name in self.test_entries}
        self._check_suffixes(own, test_directions)
        train = [text.build(name, own, self.languages, self.min_score) for name, text in self.texts.items()]
        tests = {
            name: EvaluationSet(self._read(self.test_entries[name], direction), direction)
            for name, direction in test_directions.items()
        }
        return self.build("files", train, sets, tests, temperature=self.temperature or 1.0)

    def _read(self, entries: Sequence[Entry], direction: Direction | None) -> Sentences:
        """Read an evaluation set. Its score field, if any, is ignored."""
        fields = Fields(str(self.src_field), str(self.tgt_field), languages=direction or self.languages)
        return Sentences.read(source for entry in entries for source in find_sources(entry, fields))

    def _direction_of_test(self, name: str, own: Direction) -> Direction:
        """Return the direction of a test set: the one at the end of its name, or the only direction."""
        known = {own, *self.valid_entries, *(text.languages for text in self.texts.values())} - {None}
        if self.both_directions:
            known |= {direction.reversed() for direction in known if direction}
        found = re.search(r"(?:^|[-.])([^-.]+)-([^-.]+)$", name)
        if found and (direction := Direction(*found.groups())) in known:
            return direction
        if len(self.valid_entries) > 1:
            raise HeedError(
                f"data.test: the name of the test set {name} must end with its direction, such as {name}-{own} "
                f"(directions: {', '.join(sorted(map(str, known)))})."
            )
        return own

    def _check_suffixes(self, own: Direction, test_directions: Mapping[str, Direction]) -> None:
        """Raise a HeedError if the suffixes of a pair of files contradict the pair's direction."""
        first = next(iter(self.texts.values()))
        is_given = first.languages or any(self.languages)
        origin = "" if is_given else f" (from [{','.join(first.entries[0])}] in data.train)"
        sets = [("train", text.languages or own, text.entries) for text in self.texts.values()]
        sets += [("valid", direction or own, entries) for direction, entries in self.valid_entries.items()]
        sets += [("test", direction, self.test_entries[name]) for name, direction in test_directions.items()]
        pairs = [(key, direction, entry) for key, direction, entries in sets for entry in entries if len(entry) == 2]
        for key, direction, entry in pairs:
            src, tgt = _languages_of_names(entry)
            named = [find_language(code or "", direction) for code in (src, tgt)]
            if src and tgt and (named[0] == direction.tgt_lang or named[1] == direction.src_lang):
                raise HeedError(
                    f"data.{key}: [{','.join(entry)}] is {src}-{tgt} by its suffixes, but its direction is "
                    f"{direction}{origin}: swap the two files."
                )

    def _guess_direction(self, valid: Sentences) -> Direction:
        """Return the languages of the first training text: given, or guessed from names or from the script."""
        first = next(iter(self.texts.values()))
        if first.languages:
            return first.languages
        fields = (f".{self.src_field}", f".{self.tgt_field}")
        named = _languages_of_names(first.entries[0] if len(first.entries[0]) == 2 else fields)
        sides = zip(self.languages, named, (valid.src, valid.tgt), strict=True)
        return Direction(*(given or guess or _language_of_script(sentences) for given, guess, sentences in sides))


@dataclass(kw_only=True)
class TrainingFiles:
    """The files of a training text, and how they are used (`heed.data.text.corpus.Text`). None: the corpus's option."""

    files: Sequence[FileEntry]
    src_field: Field
    tgt_field: Field
    score_field: Field | None
    direction: str | None = None  # such as "en-fr"
    weight: Positive | None = None
    tag: str | None = None
    noise: Mapping[str, Any] | None = None
    min_score: float | None = None

    def __post_init__(self) -> None:
        self.entries = parse_entries("train", self.files)
        where = "data.train: direction="
        self.languages = None if self.direction is None else Direction.parse(self.direction, where=where)
        self.own_noise = parse_noise(self.noise)
        if self.tag is not None and not re.fullmatch(r"<(?!2|0x|/|(s|pad|unk)>)[^<>\s]+>", self.tag):
            raise HeedError(
                f"data.train: tag={self.tag} must be a word in angle brackets, such as <crawl>, but no special token: "
                "not <s>, <unk> or <pad>, and not starting with 2, 0x or /."
            )

    def check(self, where: str) -> None:
        """Raise a HeedError if both sides have the same field, or ``min_score`` is set without a score field."""
        if str(self.src_field) == str(self.tgt_field):
            raise HeedError(
                f"{where}src_field and {where}tgt_field are both {self.src_field}: give one field for the source and "
                "another for the target."
            )
        if self.min_score is not None and self.score_field is None:
            raise HeedError(f"{where}min_score needs {where}score_field, the field or column of the scores.")

    def build(
        self, name: str, direction: Direction, languages: tuple[str | None, str | None], min_score: float | None
    ) -> Text:
        """Return the text, with the corpus's options for those that it does not set."""
        score = None if self.score_field is None else str(self.score_field)
        fields = Fields(str(self.src_field), str(self.tgt_field), score, self.languages or languages)
        return Text(
            [source for entry in self.entries for source in find_sources(entry, fields)],
            self.languages or direction,
            name,
            self.weight,
            self.tag,
            self.own_noise,
            min_score if self.min_score is None else self.min_score,
        )


def _parse_mixture(train: Mapping[str, Mapping[str, Any]], fields: Mapping[str, Any]) -> dict[str, TrainingFiles]:
    """Return the options of each text of a mixture, with these fields for those that it does not set."""
    if "" in map(str, train):
        raise HeedError("data.train: a text of a mixture needs a name: {news: {files: [[a.en,a.de]]}}.")
    mixture = {}
    for name, given in train.items():
        options = {**fields, **{key: value for key, value in given.items() if value is not None}}
        mixture[str(name)] = from_plain(TrainingFiles, options, where=f"data.train.{name}.")
    if not mixture:
        raise HeedError("data.train is empty: give a list of pairs such as '[[a.en,a.de]]', or named texts.")
    if len({text.weight is None for text in mixture.values()}) > 1:
        raise HeedError("data.train: give every text a weight, or none of them.")
    return mixture


def _parse_valid(valid: Sequence[FileEntry] | Mapping[str, Sequence[FileEntry]]) -> dict[Direction | None, list[Entry]]:
    """Return the entries of the validation sets by direction; the key None stands for an unnamed direction."""
    if not isinstance(valid, Mapping):
        return {None: parse_entries("valid", valid)}
    if not valid:
        raise HeedError("data.valid is empty: give a list of pairs such as '[[a.en,a.de]]', or one for each direction.")
    return {
        Direction.parse(str(name), where="data.valid."): parse_entries(f"valid.{name}", entries)
        for name, entries in valid.items()
    }


def _parse_tests(test: Sequence[FileEntry] | Mapping[str | int, Sequence[FileEntry]]) -> dict[str, list[Entry]]:
    """Return the entries of the test sets by name."""
    if isinstance(test, Mapping):
        tests = {str(name): parse_entries(f"test.{name}", entries) for name, entries in test.items()}
    else:
        tests = name_test_sets(parse_entries("test", test))
    for name in tests:
        if re.match(r"(train|valid)$|valid-", name):
            raise HeedError(f"data.test: a test set cannot be called {name}, the name of another split: rename it.")
        if not re.fullmatch(rf"[^{NOT_IN_NAMES}]+", name) or name.startswith(".") or len(name.encode()) > NAME_BYTES:
            raise HeedError(
                f"data.test: {name!r} cannot name a test set, because its translations are written to files with "
                f"this name: choose a name of at most {NAME_BYTES} bytes that does not start with a dot and has none "
                'of / \\ : * ? " < > |.'
            )
    return tests


def name_test_sets(entries: list[Entry]) -> dict[str, list[Entry]]:
    """Name test sets: "test" if there is one, otherwise the stems of their (source) files, numbered to be unique."""
    if len(entries) == 1:
        return {"test": entries}
    named: dict[str, list[Entry]] = {}
    for entry in entries:
        stem = re.sub(r"\.\w+$", "", without_compression(Path(entry[0]).name))
        # results.json is UTF-8, but file names need not be. A set's name also becomes part of file names.
        stem = re.sub(rf"[{NOT_IN_NAMES}\[\]]", "_", stem).encode()[: NAME_BYTES // 2].decode(errors="ignore") or "test"
        name, number = stem, 2
        while name in {"train", "valid", *named}:
            name, number = f"{stem}-{number}", number + 1
        named[name] = [entry]
    return named


# ---- languages


def _languages_of_names(names: Iterable[str]) -> tuple[str | None, str | None]:
    """Return the suffixes of two names, None where a suffix is not a language code, or both are the same."""
    found = [re.search(r"\.([a-z]{2,3}([-_][A-Za-z]+)*)$", without_compression(name)) for name in names]
    src, tgt = (code[1] if code and code[1] not in NO_LANGUAGES else None for code in found)
    return (src, tgt) if src != tgt else (None, None)


def _language_of_script(sentences: Sequence[str]) -> str:
    """Return "ja", "ko" or "zh" by script, because these need their own BLEU tokenizers; otherwise "und"."""
    scripts = [unicodedata.name(letter, "").split(" ")[0] for letter in "".join(sentences[:200]) if letter.isalpha()]
    for language, script in (("ja", "HIRAGANA"), ("ko", "HANGUL"), ("zh", "CJK")):
        if scripts.count(script) > 0.2 * len(scripts):
            return language
    return "und"  # undetermined, in ISO 639-2: BLEU uses its default tokenizer, 13a
