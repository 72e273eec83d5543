"""The options at the root of the configuration."""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore

from heed.launch.program import CONF as CONF  # so that importing it registers the schema


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
    license: str | None
    cache_dir: str
    batching: Any
    data: Any
    tokenizer: Any
    model: Any
    module: Any
    optimizer: Any
    schedule: Any
    search: Any
    trainer: Any
    callbacks: Any
    sweep: Any = None
    logger: dict[str, Any] = field(default_factory=dict)  # logger=none and logger=[] give nothing


ConfigStore.instance().store(name="schema", node=Schema)
