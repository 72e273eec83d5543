"""``data=synthetic``: the built-in corpus, from files that heed ships or from files of the same grammar."""

from dataclasses import dataclass
from itertools import islice

from pydantic import TypeAdapter, ValidationError

from heed.data.text.corpus import Corpus, CorpusOptions, EvaluationSet, Text
from heed.data.text.formats.files import one_line, read_lines
from heed.data.text.source import Sentences
from heed.errors import HeedError
from heed.files import built_in_corpus, expand_home
from heed.languages import Direction
from heed.options import AtLeast0, AtLeast1, validated

WRITE = "In a checkout of heed, `python -m scripts.grammar --out DIR {}` writes another corpus: train on data.root=DIR"


@dataclass(frozen=True)
class Pair:
    """A line of a file. Positions are indices into `heed.evaluation.words.split_punctuation` of a sentence."""

    src: str
    tgt: str
    tag: str  # the phenomenon, such as "pronoun"
    alignment: list[tuple[int, int]]  # (source position, target position) of aligned words
    antecedent: dict[str, int] | None  # source positions of "pronoun", and of its "right" and "wrong" antecedent
    roles: dict[str, int]  # source positions of "verb", "agent", "patient" and "recipient", as far as they occur


PAIR = TypeAdapter(Pair)


@validated("data.")
@dataclass(kw_only=True)
class SyntheticCorpus(CorpusOptions):
    """The built-in English-German corpus, with gold alignments and phenomenon tags in "meta".

    conf/data/synthetic.yaml explains each option.
    """

    root: str | None
    seed: AtLeast0
    train: AtLeast1
    valid: AtLeast1
    test: AtLeast1
    long: AtLeast1
    src_lang: str
    tgt_lang: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if {self.src_lang, self.tgt_lang} != {"en", "de"}:
            raise HeedError(
                f"data=synthetic is a corpus of English and German: data.src_lang={self.src_lang} "
                f"data.tgt_lang={self.tgt_lang} must be en and de, or de and en."
            )
        if self.seed != 1:
            raise HeedError(f"data.seed={self.seed}: heed ships seed 1. {WRITE.format(f'--seed {self.seed}')}.")
        self.reverse = self.reverse != (self.src_lang == "de")  # the sources of the files are English

    def load(self) -> Corpus:
        """Read the files, or raise a HeedError if one is invalid or has too few pairs."""
        direction = Direction("en", "de")
        train, *held_out = (self._read(name) for name in ("train", "valid", "test", "long"))
        valid, test, long = (EvaluationSet(text, direction) for text in held_out)
        return self.build("synthetic", [Text([train], direction)], [valid], {"test": test, "long": long})

    def _read(self, name: str) -> Sentences:
        size = getattr(self, name)
        text = read_split(name, size, root=self.root)
        if len(text) < size:
            raise HeedError(
                f"data.{name}={size} is more than the {len(text):,} pairs of {self.root or 'data=synthetic'}. "
                f"{WRITE.format(f'--{name} {size}')} data.{name}={size}."
            )
        return text


def read_split(name: str, pairs: int | None = None, *, root: str | None = None) -> Sentences:
    """Return the first pairs of a split of the built-in corpus, with their annotations.

    Args:
        name: "train", "valid", "test" or "long".
        pairs: at most this many; None: all.
        root: a folder that ``scripts/grammar`` wrote; None: the files that heed ships.

    Raises:
        HeedError: if a line is invalid, or the file cannot be read.
    """
    file = (built_in_corpus() if root is None else expand_home(root)) / f"{name}.jsonl.gz"
    src, tgt, metas = list[str](), list[str](), list[str]()
    for number, line in enumerate(islice(read_lines(file, lambda _: None), pairs), 1):
        try:
            pair = PAIR.validate_json(line)
        except ValidationError as error:
            raise HeedError(f"{file}, line {number:,}: not a pair of scripts/grammar: write the file again.") from error
        src.append(one_line(pair.src))
        tgt.append(one_line(pair.tgt))
        metas.append(PAIR.dump_json(pair, exclude={"src", "tgt"}).decode())
    return Sentences(src, tgt, metas)
