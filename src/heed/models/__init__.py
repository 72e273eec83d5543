"""ids → logits: the families a model folder may name. Nothing else is ever imported on a folder's behalf."""

from heed.models.rnn import RNNConfig
from heed.models.seq2seq import ModelConfig
from heed.models.transformer import TransformerConfig

FAMILIES: dict[str, type[ModelConfig]] = {c.family: c for c in (TransformerConfig, RNNConfig)}
