"""The options at the root of the configuration."""

from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore

from heed.launch.program import CONF as CONF  # where the configuration is, next to its schema


@dataclass
class Schema:
    """The options at the root, so that a typo there is an error. conf/train.yaml describes them."""

    name: str
    seed: int
    test: bool
    weights: str
    select: str
    resume: bool
    ckpt_path: str | None
    init_from: str | None
    label_smoothing: float
    r_drop: float
    embedding_lr_scale: float
    clip_norm: float
    max_skipped_steps: int
    cache_dir: str
    batching: Any
    data: Any
    tokenizer: Any
    model: Any
    optimizer: Any
    schedule: Any
    search: Any
    trainer: Any
    callbacks: Any
    logger: Any


ConfigStore.instance().store(name="schema", node=Schema)
