"""``data=synthetic``: the built-in corpus."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heed.data.cache import build_once
from heed.data.cleaning import Cleaning
from heed.data.corpora.builder import CorpusBuilder, MixtureEntry, parse_noise
from heed.data.corpus import Corpus, EvaluationSet
from heed.data.digests import text_fingerprint
from heed.data.directions import Direction
from heed.data.preparation.training_text import Preparation
from heed.data.text import ParallelText, TextInMemory
from heed.errors import HeedError
from heed.options import AtLeast0, AtLeast1, validated

SPLITS = "splits.json"
"""File of the cache with all splits."""


@validated("data.")
class SyntheticCorpus:
    """The built-in English-German corpus, with gold alignments and phenomenon tags in "meta".

    Args:
        seed: random seed of `heed.synthetic.generate`.
        train, valid, test, long: pairs per split.
        src_lang, tgt_lang: "en" and "de", or "de" and "en".
        reverse: swap source and target.
        both_directions, noise, max_train, max_eval, max_eval_tokens, cleaning, preparation, cache_dir: as in
            `FilesCorpus`.
    """

    def __init__(
        self,
        *,
        seed: AtLeast0,
        train: AtLeast1,
        valid: AtLeast1,
        test: AtLeast1,
        long: AtLeast1,
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
        if {src_lang, tgt_lang} != {"en", "de"}:
            raise HeedError(
                f"data=synthetic is a corpus of English and German: data.src_lang={src_lang} data.tgt_lang={tgt_lang} "
                "must be en and de, or de and en."
            )
        self.sizes = {"train": train, "valid": valid, "test": test, "long": long}
        self.seed = seed
        reverse = reverse != (src_lang == "de")  # the grammar generates English sources
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
        """Generate the corpus: the same one on every machine for the same seed and sizes."""
        splits = self._splits()
        direction = Direction("en", "de")
        key = "synthetic", text_fingerprint(splits["train"])
        sets = {name: EvaluationSet(text, direction) for name, text in splits.items()}
        return self.builder.build(
            "synthetic",
            [MixtureEntry("", [TextInMemory(splits["train"], key)], direction)],
            {"valid": sets["valid"]},
            {name: sets[name] for name in ("test", "long")},
        )

    def _splits(self) -> dict[str, ParallelText]:
        """Generate the splits, or read them where an earlier run with this version of the grammar has written them."""
        from heed import synthetic

        def build(folder: Path) -> None:
            splits = synthetic.generate(seed=self.seed, **self.sizes)
            rows = {
                name: [
                    (example.src, example.tgt, json.dumps(example.meta(), ensure_ascii=False)) for example in examples
                ]
                for name, examples in splits.items()
            }
            (folder / SPLITS).write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")

        grammar = hashlib.blake2b(digest_size=16)
        for file in sorted(Path(synthetic.__file__).parent.glob("*.py")):
            grammar.update(file.read_bytes())
        sizes = "-".join(map(str, self.sizes.values()))
        name = f"{grammar.hexdigest()}-{self.seed}-{sizes}"
        folder = build_once(self.builder.cache_dir / "synthetic" / name, build)
        splits = json.loads((folder / SPLITS).read_text(encoding="utf-8"))
        return {name: ParallelText(*map(list, zip(*rows, strict=True))) for name, rows in splits.items()}
