"""Prepare the data of a run without training: read, clean, train the tokenizer, encode."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.inference import model_folder
from heed.launch.compose import compose
from heed.launch.configuration import build_parts
from heed.launch.errors import explain_error
from heed.progress import print_line


def prepare(overrides: Sequence[str]) -> str:
    """Prepare what ``heed train OVERRIDES`` would, so that a training starts at once.

    Returns:
        What was prepared, for the user.

    Raises:
        HeedError: if an option is wrong or the data cannot be read.
    """
    try:
        cfg = compose(overrides)
        config: Any = OmegaConf.to_container(cfg, resolve=True)
        parts = build_parts(cfg)
    except Exception as error:
        if (message := explain_error(error, overrides=overrides)) is None:
            raise
        raise HeedError(message) from error
    corpus = parts["data"].load()
    print_line(corpus.train.describe_cleaning())
    cache = config["cache_dir"]
    tokenizer: Tokenizer = (
        Tokenizer.load(model_folder.find(Path(config["init_from"])))
        if config["init_from"]
        else parts["tokenizer"].train(corpus.train, cache, tags=corpus.all_tags)
    )
    lines = []
    for part, pairs in zip(corpus.train.texts, corpus.train.encode(tokenizer), strict=True):
        src, tgt = pairs.chunk_tokens.sum(axis=0).tolist()
        lines += [
            f"Prepared: {part.text.name}{': ' if part.text.name else ''}{len(pairs):,} pairs with {src:,} source and "
            f"{tgt:,} target tokens",
            f"Folder:   {pairs.folder}",
            f"Digest:   {pairs.digest}",
        ]
    return "\n".join([*lines, f"Text:     {corpus.fingerprint}"])
