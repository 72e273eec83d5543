"""``data=synthetic``: the built-in corpus."""

import json
from dataclasses import dataclass
from pathlib import Path

from heed.cache import build_once, cache_key
from heed.data.text.corpus import Corpus, EvaluationSet
from heed.data.text.corpus_options import CorpusOptions
from heed.data.text.source import Sentences
from heed.data.text.text import Text
from heed.directions import Direction
from heed.errors import HeedError
from heed.options import AtLeast0, AtLeast1, validated

SPLITS = "splits.json"  # file of the cache with all splits


@validated("data.")
@dataclass(kw_only=True)
class SyntheticCorpus(CorpusOptions):
    """The built-in English-German corpus, with gold alignments and phenomenon tags in "meta".

    conf/data/synthetic.yaml explains each option.
    """

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
        self.reverse = self.reverse != (self.src_lang == "de")  # the grammar generates English sources

    def load(self) -> Corpus:
        """Generate the corpus. It is a function of the seed and the sizes, on every machine."""
        splits, direction = self._splits(), Direction("en", "de")
        valid, test, long = (EvaluationSet(splits[name], direction) for name in ("valid", "test", "long"))
        return self.build("synthetic", [Text([splits["train"]], direction)], [valid], {"test": test, "long": long})

    def _splits(self) -> dict[str, Sentences]:
        """Return the splits, generated once per seed, sizes and version of the grammar."""
        from heed import synthetic

        def build(folder: Path) -> None:
            rows = {
                name: [(pair.src, pair.tgt, json.dumps(pair.meta(), ensure_ascii=False)) for pair in examples]
                for name, examples in synthetic.generate(seed=self.seed, **sizes).items()
            }
            (folder / SPLITS).write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")

        sizes = {"train": self.train, "valid": self.valid, "test": self.test, "long": self.long}
        files = sorted(Path(synthetic.__file__).parent.iterdir())
        grammar = cache_key(*(file.read_bytes() for file in files if file.suffix in (".py", ".toml")))
        name = "-".join(map(str, (grammar, self.seed, *sizes.values())))
        folder = Path(self.cache_dir) / "synthetic" / name
        folder = build_once(folder, build, wait_minutes=self.preparation.wait_minutes)
        splits = json.loads((folder / SPLITS).read_text(encoding="utf-8"))
        return {name: Sentences(*map(list, zip(*rows, strict=True))) for name, rows in splits.items()}
