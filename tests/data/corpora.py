"""Small corpora and tokenizers that several tests of data/ use. Also imported by the tests' subprocesses."""

from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from hydra.utils import instantiate

from heed.data.corpus import Corpus, HubCorpus
from heed.data.tokenizer import Tokenizer, TokenizerTrainer
from heed.errors import HeedError

ROOT = Path(__file__).parents[2]

ENGLISH = ["A dog runs.", "Two\u00a0cats sit\u2028here.", "Next\u0085line №5.", "Nobody knows."]
GERMAN = ["Ein Hund rennt.", "Zwei Katzen sitzen hier.", "Zeile Nr. 5.", "Niemand weiß es."]

TOKENIZER: dict[str, Any] = {
    "kind": "bpe",
    "joint": True,
    "vocab_size": "auto",
    "byte_fallback": True,
    "character_coverage": 0.99999,
    "normalization": "identity",
    "max_sentences": 1_000_000,
    "sampling": 0.0,
}

NOUNS = ("dog", "cat", "bird", "horse", "street", "river", "bank", "garden")
GERMAN_NOUNS = ("Hund", "Kater", "Vogel", "Hengst", "Weg", "Fluss", "Damm", "Garten")
VERBS = {"sees": "sieht", "likes": "mag", "follows": "begleitet", "finds": "findet"}


def toy_language(size: int = 400) -> Dataset:
    """Pairs of a toy English and German; each pair differs from its neighbours."""
    src, tgt = [], []
    for n in range(size):
        subject, object_, (verb, german_verb) = n % 8, n // 8 % 8, list(VERBS.items())[n // 3 % 4]
        src.append(f"The {NOUNS[subject]} {verb} the {NOUNS[object_]} of {n % 97}.")
        tgt.append(f"Der {GERMAN_NOUNS[subject]} {german_verb} den {GERMAN_NOUNS[object_]} von {n % 97}.")
    return Dataset.from_dict({"src": src, "tgt": tgt})


def numbered_dogs(size: int) -> Dataset:
    """Pairs of five lengths that a number tells apart."""
    return Dataset.from_dict(
        {
            "src": [f"the dog number {n} sleeps {'very ' * (n % 5)}well" for n in range(size)],
            "tgt": [f"der Hund Nummer {n} schläft {'sehr ' * (n % 5)}gut" for n in range(size)],
        }
    )


def train_tokenizer(dataset: Dataset, cache: Path, *, tags: tuple[str, ...] = (), **changes: Any) -> Tokenizer:
    return TokenizerTrainer(**(TOKENIZER | changes)).train(dataset, cache, tags=tags)


def sentence_pairs(dataset: Dataset) -> list[tuple[str, str]]:
    return list(zip(dataset["src"], dataset["tgt"], strict=True))


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
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return instantiate(compose(f"data/{name}", overrides=["+cache_dir=nowhere", *overrides]).data, _convert_="all")


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
