"""Small corpora and tokenizers that several tests of data/ use. Also imported by the tests' subprocesses."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hydra.errors import InstantiationException
from hydra.utils import instantiate

from heed.data.order.order import EpochOrder
from heed.data.pairs.pairs import StoredPairs, TrainingPairs, chunk_size, count_chunk_tokens, unflatten
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.pairs.tokenizer_training import TokenizerTrainer
from heed.data.steps.steps import Planner, Step
from heed.data.text.clean_pairs import Preparation
from heed.data.text.cleaning import Cleaning, Rules
from heed.data.text.corpus import Corpus, Text, TrainingSet
from heed.data.text.hub_corpus import HubCorpus
from heed.data.text.source import Sentences, source_digests
from heed.errors import HeedError
from heed.languages import Direction
from heed.launch.compose import compose_with_hydra

ROOT = Path(__file__).parents[2]

ENGLISH = ["A dog runs.", "Two\u00a0cats sit\u2028here.", "Next\u0085line №5.", "Nobody knows."]
GERMAN = ["Ein Hund rennt.", "Zwei Katzen sitzen hier.", "Zeile Nr. 5.", "Niemand weiß es."]

TOKENIZER: dict[str, Any] = {
    "kind": "bpe",
    "joint": True,
    "vocab_size": "auto",
    "byte_fallback": True,
    "vocabulary": "inherit",
    "character_coverage": 0.99999,
    "normalization": "identity",
    "max_sentences": 1_000_000,
    "bpe_dropout": 0.0,
    "placeholders": False,
}

NOUNS = ("dog", "cat", "bird", "horse", "street", "river", "bank", "garden")
GERMAN_NOUNS = ("Hund", "Kater", "Vogel", "Hengst", "Weg", "Fluss", "Damm", "Garten")
VERBS = {"sees": "sieht", "likes": "mag", "follows": "begleitet", "finds": "findet"}


def toy_language(size: int = 400) -> Sentences:
    """Pairs of a toy English and German; each pair differs from its neighbours."""
    src, tgt = [], []
    for n in range(size):
        subject, object_, (verb, german_verb) = n % 8, n // 8 % 8, list(VERBS.items())[n // 3 % 4]
        src.append(f"The {NOUNS[subject]} {verb} the {NOUNS[object_]} of {n % 97}.")
        tgt.append(f"Der {GERMAN_NOUNS[subject]} {german_verb} den {GERMAN_NOUNS[object_]} von {n % 97}.")
    return Sentences(src, tgt)


def numbered_dogs(size: int) -> Sentences:
    """Pairs of five lengths that a number tells apart."""
    return Sentences(
        [f"the dog number {n} sleeps {'very ' * (n % 5)}well" for n in range(size)],
        [f"der Hund Nummer {n} schläft {'sehr ' * (n % 5)}gut" for n in range(size)],
    )


NO_RULES: dict[str, Any] = {
    "drop_empty": False,
    "drop_placeholders": False,
    "max_chars": None,
    "max_ratio": None,
    "drop_leaked": False,
    "drop_duplicates": False,
}


def training_text(
    text: Sentences,
    cache: Path,
    *,
    rules: dict[str, Any] = NO_RULES,
    held_out: Sequence[Sentences] = (),
    at_most: int | None = None,
    processes: int = 1,
    direction: Direction = Direction("en", "de"),  # noqa: B008  # immutable
) -> Text:
    """Select the training pairs of a text in memory, without cleaning rules."""
    return Text([text], direction).cleaned(
        Rules(Cleaning(**rules), None, [source_digests(src for text in held_out for src in text.src)], False, at_most),
        preparation=Preparation(num_proc=processes, wait_minutes=1),
        cache_dir=cache,
    )


def train_tokenizer(text: Sentences, cache: Path, *, tags: tuple[str, ...] = (), **changes: Any) -> Tokenizer:
    return TokenizerTrainer(**(TOKENIZER | changes)).train(only_text(training_text(text, cache)), cache, tags=tags)


def only_text(text: Text, *, both_directions: bool = False) -> TrainingSet:
    """Return a training text that is not mixed with others."""
    return TrainingSet([text], both_directions=both_directions)


def sentence_pairs(text: Sentences | Text | TrainingSet) -> list[tuple[str, str]]:
    """Return the pairs, in the order of the text."""
    texts = text.texts if isinstance(text, TrainingSet) else [text]
    blocks: list[Sentences] = []
    for part in texts:
        blocks += [part] if isinstance(part, Sentences) else map(part.read, part.clean.blocks)
    return [pair for block in blocks for pair in zip(block.src, block.tgt, strict=True)]


Lengths = npt.NDArray[np.int64]


def epoch_order(src: Lengths, tgt: Lengths, *, seed: int, epoch: int) -> EpochOrder:
    """Return the order of an epoch of pairs with these lengths, including EOS."""
    sides = (unflatten(np.zeros(int(lengths.sum()), np.uint16), lengths) for lengths in (src - 1, tgt - 1))
    store = stored_pairs([sides], chunk=chunk_size(len(src)))
    return EpochOrder(TrainingPairs([store]), seed=(seed, epoch))


def stored_pairs(batches: Iterable[Iterable[pa.ListArray]], *, chunk: int) -> StoredPairs:
    """Return pairs in memory, given as source and target ids, as stored ones."""
    records = [pa.record_batch(list(sides), ["src", "tgt"]) for sides in batches]
    tokens = np.concatenate([count_chunk_tokens(batch, chunk) for batch in records])
    return StoredPairs(records, chunk, tokens, (0, 0, 0), "", Path())


def plan_steps(planner: Planner, src: Lengths, tgt: Lengths, *, epoch: int) -> Iterator[Step]:
    """Plan an epoch of pairs with these lengths, including EOS. Micro-batches hold indices of the pairs."""
    return (step for _, step in numbered_steps(planner, src, tgt, epoch=epoch, start=0))


def numbered_steps(
    planner: Planner, src: Lengths, tgt: Lengths, *, epoch: int, start: int
) -> Iterator[tuple[int, Step]]:
    """Plan an epoch from a step on. Numbers are left out where a pair is longer than several steps."""
    order = epoch_order(src, tgt, seed=planner.seed, epoch=epoch)
    for pool in planner.pools(order, start=start):
        pairs = order.read(pool.first, pool.stop)
        for number, step in enumerate(planner.cut(pool._replace(epoch=epoch), pairs), pool.first_step):
            if number >= start:
                yield number, [pairs.rows[index] for index in step]


def write_lines(folder: Path, **texts: list[str]) -> None:
    """Write each text to a file, one sentence per line; ``train_en=[…]`` is written to train.en."""
    for name, lines in texts.items():
        (folder / name.replace("_", ".")).write_bytes("".join(f"{line}\n" for line in lines).encode())


def write_corpus(folder: Path) -> None:
    """Write four training pairs, a validation pair and a test pair as text files."""
    write_lines(folder, train_en=ENGLISH, train_de=GERMAN)
    write_lines(
        folder, val_en=["Held out."], val_de=["Zurückgehalten."], test_en=["The last."], test_de=["Das Letzte."]
    )


def compose_data(name: str, *overrides: str) -> Any:
    """Build the corpus of conf/data/NAME.yaml as the command line does."""
    cfg = compose_with_hydra([f"data={name}", "cache_dir=nowhere", *overrides])
    return instantiate(cfg.data, _convert_="all")


def load_files(folder: Path, **changes: str) -> Corpus:
    """Load the files of `write_corpus` with ``data=files``; ``{}`` in an option stands for ``folder``."""
    entries = {
        "train": "[[{}/train.en,{}/train.de]]",
        "valid": "[[{}/val.en,{}/val.de]]",
        "test": "[[{}/test.en,{}/test.de]]",
        "cache_dir": "{}/cache",
    } | changes
    corpus: Corpus = compose_data(
        "files", *(f"data.{key}={value.replace('{}', str(folder))}" for key, value in entries.items())
    ).load()
    return corpus


def files_error(folder: Path, changes: dict[str, str]) -> str:
    """Return the message of the HeedError that `load_files` raises, also if Hydra wraps it."""
    with pytest.raises((HeedError, InstantiationException)) as caught:
        load_files(folder, **changes)
    error = caught.value if isinstance(caught.value, HeedError) else caught.value.__cause__
    assert isinstance(error, HeedError), caught.value
    return str(error)


def hub_corpus(**changes: str) -> HubCorpus:
    """Build ``data=multi30k``."""
    corpus: HubCorpus = compose_data("multi30k", *(f"data.{key}={value}" for key, value in changes.items()))
    return corpus
