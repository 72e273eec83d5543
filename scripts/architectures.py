"""Configurations of both architectures for experiments and tests. Change fields by `dataclasses.replace`."""

from heed.layers.attention import CrossAttentionConfig, SelfAttentionConfig
from heed.layers.positions import PositionsConfig
from heed.models.rnn_config import AttentionConfig, RNNConfig
from heed.models.transformer_config import TransformerConfig

TRANSFORMER = TransformerConfig(
    d_model=128, num_heads=4, d_ff=256, encoder_layers=3, decoder_layers=3, dropout=0.0, attention_dropout=0.0,
    activation_dropout=0.0, layer_dropout=0.0, norm="pre", norm_kind="layer", residual=True, activation="relu",
    tie_embeddings=True, self_attention=SelfAttentionConfig(kind="qkv", score="scaled_dot"),
    cross_attention=CrossAttentionConfig(score="scaled_dot"),
    positions=PositionsConfig(kind="sinusoidal", merge="add", max_length=None),
)  # fmt: skip
ATTENTION = AttentionConfig(
    score="general", reach="global", window=None, order="luong", input_feeding=True, coverage=False, max_source=None
)
RNN = RNNConfig(
    cell="lstm", d_embedding=128, d_model=256, layers=1, residual=False, bidirectional=True, reverse_source=False,
    dropout=0.0, tie_embeddings=True, attention=ATTENTION,
)  # fmt: skip
