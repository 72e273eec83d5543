"""Models: token ids to logits. `FAMILIES` lists the only model families that a model folder may name."""

from heed.models.rnn import RNN
from heed.models.rnn_config import RNNConfig
from heed.models.seq2seq import ModelConfig, TrainableSeq2Seq
from heed.models.transformer import Transformer
from heed.models.transformer_config import TransformerConfig

MODELS: dict[type[ModelConfig], type[TrainableSeq2Seq]] = {TransformerConfig: Transformer, RNNConfig: RNN}
FAMILIES: dict[str, type[ModelConfig]] = {config.family: config for config in MODELS}
"""The configuration class of each family of models."""


def build_model(config: ModelConfig, *, src_vocab: int, tgt_vocab: int, joint: bool) -> TrainableSeq2Seq:
    """Return a newly initialised model.

    Args:
        src_vocab, tgt_vocab: the sizes of the vocabularies.
        joint: both sides share one vocabulary, so that their embeddings can be tied.
    """
    return MODELS[type(config)](config, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)
