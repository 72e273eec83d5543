"""``data=multi30k``, ``data=tatoeba`` and other published corpora: from the Hugging Face hub or a folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heed.data.cleaning import Cleaning
from heed.data.corpora.builder import CorpusBuilder, MixtureEntry, parse_noise
from heed.data.corpus import Corpus, EvaluationSet
from heed.data.directions import Direction
from heed.data.formats.hub import DatasetSource, load_split
from heed.data.formats.text_files import TextFiles
from heed.data.preparation.training_text import Preparation
from heed.data.text import ParallelText, Source
from heed.errors import HeedError
from heed.options import AtLeast1, validated


@validated("data.")
class HubCorpus:
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
        stems: file names of "train", "valid" and "test" in ``root``, without suffix.
        src_lang, tgt_lang: language codes: columns of the repository or suffixes of the files.
        reverse, both_directions, noise, max_train, max_eval, max_eval_tokens, cleaning, preparation, cache_dir: as
            in `FilesCorpus`.

    Raises:
        HeedError: if both languages are the same.
    """

    def __init__(
        self,
        *,
        name: str,
        repository: str | None,
        config: str | None,
        revision: str | None,
        splits: Mapping[str, str | None],
        root: str | None,
        stems: Mapping[str, str],
        src_lang: str,
        tgt_lang: str,
        reverse: bool,
        both_directions: bool,
        noise: Mapping[str, Any] | None,
        max_train: AtLeast1 | None,
        max_eval: AtLeast1 | None,
        max_eval_tokens: AtLeast1 | None,
        cleaning: Cleaning,
        preparation: Preparation,
        cache_dir: str,
    ) -> None:
        if src_lang == tgt_lang:
            raise HeedError(f"data.src_lang and data.tgt_lang are both {src_lang}: give two different languages.")
        self.name = name
        self.repository, self.config, self.revision, self.splits = repository, config, revision, splits
        self.root, self.stems = root, stems
        self.languages = src_lang, tgt_lang
        self.builder = CorpusBuilder(
            reverse,
            both_directions,
            max_train,
            max_eval,
            max_eval_tokens,
            cleaning,
            preparation,
            Path(cache_dir),
            parse_noise(noise),
        )

    def load(self) -> Corpus:
        """Read all splits and clean the training pairs.

        Raises:
            HeedError: if the hub cannot be reached, or if a file of the folder is missing or invalid.
        """
        direction = Direction(*self.languages)
        valid = {"valid": EvaluationSet(ParallelText.read([self._source("valid")]), direction)}
        has_test = self.splits["test"] is not None
        tests = {"test": EvaluationSet(ParallelText.read([self._source("test")]), direction)} if has_test else {}
        return self.builder.build(self.name, [MixtureEntry("", [self._source("train")], direction)], valid, tests)

    def _source(self, split: str) -> Source:
        src, tgt = self.languages
        if self.root is not None:
            root = Path(self.root).expanduser()
            return TextFiles(root / f"{self.stems[split]}.{src}", root / f"{self.stems[split]}.{tgt}")
        use_folder = (
            f"set data.root=DIR to a folder with {self.stems[split]}.{src}, {self.stems[split]}.{tgt} and so on."
        )
        if self.repository is None:
            raise HeedError(
                f"{self.name} is in no hub repository that keeps its test set apart from training: {use_folder}"
            )
        dataset = load_split(
            self.repository, str(self.splits[split]), config=self.config, revision=self.revision, otherwise=use_folder
        )
        return DatasetSource(dataset, self.repository, self.languages)
