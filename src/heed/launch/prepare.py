"""``heed prepare``: prepare the text of a run, so that its training starts at once."""

import sys
from collections.abc import Sequence

from heed.data.pairs.pairs import encode
from heed.launch.compose import compose, flags_last
from heed.launch.errors import explained
from heed.launch.plan import check_options, read_corpus
from heed.launch.program import HEED_TRAIN


def prepare(words: Sequence[str]) -> str:
    """Prepare the text of ``heed train WORDS``, and return a report.

    Raises:
        HeedError: if an option is wrong or the data cannot be read.
    """
    sys.argv = [HEED_TRAIN, *words]  # messages name the program whose options these are
    with explained(words):
        words = flags_last(words)
        options, parts = check_options(compose(words).options)
    corpus, tokenizer = read_corpus(options, parts)
    lines = []
    for text in corpus.train.texts:
        pairs = encode(text, tokenizer)
        src, tgt = pairs.chunk_tokens.sum(axis=0).tolist()
        lines += [
            f"Prepared: {text.name}{': ' if text.name else ''}{len(pairs):,} pairs with {src:,} source and "
            f"{tgt:,} target tokens",
            f"Folder:   {pairs.folder}",
            f"Digest:   {pairs.digest}",
        ]
    return "\n".join([*lines, f"Text:     {corpus.digest}"])
