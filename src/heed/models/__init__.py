"""Models: token ids to logits. `FAMILIES` lists the only model families that a model folder may name."""

from heed.models.rnn import RNN
from heed.models.rnn_config import RNNConfig
from heed.models.seq2seq import ModelConfig, TrainableSeq2Seq
from heed.models.transformer import Transformer
from heed.models.transformer_config import TransformerConfig

FAMILIES: dict[str, type[ModelConfig]] = {config.family: config for config in (TransformerConfig, RNNConfig)}
"""The configuration class of each family of models."""

MODELS: dict[str, type[TrainableSeq2Seq]] = {TransformerConfig.family: Transformer, RNNConfig.family: RNN}
"""The class of each family of models."""


def build_model(config: ModelConfig, *, src_vocab: int, tgt_vocab: int, joint: bool) -> TrainableSeq2Seq:
    """Return a newly initialised model.

    Args:
        src_vocab, tgt_vocab: the sizes of the vocabularies.
        joint: both sides share one vocabulary, so that their embeddings can be tied.
    """
    return MODELS[config.family](config, src_vocab=src_vocab, tgt_vocab=tgt_vocab, joint=joint)
