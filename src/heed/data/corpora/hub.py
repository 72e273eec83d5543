"""``data=multi30k``, ``data=tatoeba`` and other published corpora: from the Hugging Face hub or a folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from heed.data.corpora.options import CorpusOptions
from heed.data.corpus import Corpus, EvaluationSet
from heed.data.directions import Direction
from heed.data.formats.hub import DatasetSource, load_split
from heed.data.formats.text_files import TextFiles
from heed.data.text import ParallelText, Source, Text
from heed.errors import HeedError
from heed.options import validated


@validated("data.")
@dataclass(kw_only=True)
class HubCorpus(CorpusOptions):
    """A published corpus: from the Hugging Face hub, or from a folder of text files.

    Args:
        name: name of the corpus in results.
        repository: hub repository (or the path of a local copy), with the columns ``src_lang`` and ``tgt_lang`` or with
            a column "translation" that has these fields; None if there is none.
        config: configuration of the repository ("de-en"); None: the only one.
        revision: commit of the repository; None: the newest.
        splits: the repository's names of "train", "valid" and "test". test None: there is no test set.
        root: a folder to read instead of the hub, with files ``{stem}.{src_lang}`` and ``{stem}.{tgt_lang}``; None: the
            hub.
        stems: file names of "train", "valid" and "test" in ``root``, without suffix; of several test sets a mapping
            from their names, and those after the first are scored if their files are there.
        src_lang, tgt_lang: language codes: columns of the repository or suffixes of the files.
        Others: see `CorpusOptions`.

    Raises:
        HeedError: if both languages are the same.
    """

    name: str
    repository: str | None
    config: str | None
    revision: str | None
    splits: Mapping[str, str | None]
    root: str | None
    stems: Mapping[str, str | Mapping[str, str]]
    src_lang: str
    tgt_lang: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.src_lang == self.tgt_lang:
            raise HeedError(f"data.src_lang and data.tgt_lang are both {self.src_lang}: give two different languages.")

    def load(self) -> Corpus:
        """Read all splits and clean the training pairs.

        Raises:
            HeedError: if the hub cannot be reached, or if a file of the folder is missing or invalid.
        """
        direction = Direction(self.src_lang, self.tgt_lang)
        valid = {"valid": self._source("valid")}
        tests = {} if self.splits["test"] is None else self._tests()
        sets = [
            {name: EvaluationSet(ParallelText.read([source]), direction) for name, source in sources.items()}
            for sources in (valid, tests)
        ]
        return self.build(self.name, [Text([self._source("train")], direction)], *sets)

    def _tests(self) -> dict[str, Source]:
        """Return the test sets: the first, and of a folder also the others whose files are there."""
        stems = self.stems["test"]
        if self.root is None or isinstance(stems, str):
            return {"test": self._source("test")}
        files = {name: self._files(stem) for name, stem in stems.items()}
        first = next(iter(files))
        return {
            name: pair for name, pair in files.items() if name == first or (pair.src.exists() and pair.tgt.exists())
        }

    def _files(self, stem: str) -> TextFiles:
        root = Path(str(self.root)).expanduser()
        return TextFiles(root / f"{stem}.{self.src_lang}", root / f"{stem}.{self.tgt_lang}")

    def _source(self, split: str) -> Source:
        stem = self.stems[split]
        stem = stem if isinstance(stem, str) else next(iter(stem.values()))
        if self.root is not None:
            return self._files(stem)
        src, tgt = self.src_lang, self.tgt_lang
        use_folder = f"set data.root=DIR to a folder with {stem}.{src}, {stem}.{tgt} and so on."
        if self.repository is None:
            raise HeedError(
                f"{self.name} is in no hub repository that keeps its test set apart from training: {use_folder}"
            )
        dataset = load_split(
            self.repository, str(self.splits[split]), config=self.config, revision=self.revision, otherwise=use_folder
        )
        return DatasetSource(dataset, self.repository, (src, tgt))
