"""Peers of training: torch.nn.Transformer, torch.nn.LSTM or Hugging Face's Marian in an efficient training loop."""

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmark.peers import require
from heed.data.pairs.pairs import Pairs
from heed.data.steps.batch import Batch, collate
from heed.exchange.to_huggingface import empty_model
from heed.models.rnn_config import RNNConfig
from heed.models.transformer_config import TransformerConfig
from heed.symbols import PAD


class PlainLoop:
    """A training loop with gradient clipping and fused AdamW.

    Args:
        loss_of: the loss of ``model`` on a batch.
        bf16: run the forward pass under autocast.
    """

    def __init__(
        self, model: nn.Module, loss_of: Callable[[Batch], Tensor], *, bf16: bool, device: str = "cpu"
    ) -> None:
        self.model, self.loss_of = model, loss_of
        self.bf16, self.device = bf16, device
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def take(self, steps: Sequence[Pairs]) -> None:
        """Take one optimizer step for each element, with all its pairs as one batch."""
        for pairs in steps:
            self.step(collate(np.arange(len(pairs)), pairs))

    def step(self, batch: Batch) -> Tensor:
        """Take an optimizer step and return its loss."""
        self.optimizer.zero_grad()
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.bf16):
            loss = self.loss_of(batch)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()


def loss_of(model: nn.Module) -> Callable[[Batch], Tensor]:
    """Return the loss of a model that maps (src, src_mask, tgt_in) to logits, and train it."""
    model.train()

    def loss(batch: Batch) -> Tensor:
        # torch.nn.Transformer creates masks on the default device. Setting it slows every call of torch.
        with torch.device("cuda") if batch.src.is_cuda else nullcontext():
            logits = model(batch.src, batch.src_mask, batch.tgt_in)
        targets = batch.tgt_out.flatten().long()
        return F.cross_entropy(logits.float().flatten(0, 1), targets, ignore_index=PAD, label_smoothing=0.1)

    return loss


class Marian(nn.Module):
    """Hugging Face's Marian (post-norm)."""

    def __init__(self, vocabulary: int, config: TransformerConfig) -> None:
        super().__init__()
        require("transformers").logging.set_verbosity_error()
        self.marian = empty_model(replace(config, norm="post"), src_vocab=vocabulary, tgt_vocab=vocabulary, shared=True)

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        logits: Tensor = self.marian(
            input_ids=src, attention_mask=src_mask, decoder_input_ids=tgt_in, use_cache=False
        ).logits
        return logits


class Transformer(nn.Module):
    """torch.nn.Transformer with tied embeddings and sinusoidal positions.

    Args:
        dropout_as_ours: by default, torch.nn.Transformer also drops attention weights and activations, and heed does
            not. True: dropout as in heed's configuration, so that both do the same work.
    """

    positions: Tensor

    def __init__(self, vocabulary: int, config: TransformerConfig, *, dropout_as_ours: bool) -> None:
        super().__init__()
        width, longest = config.d_model, 512
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        angles = torch.arange(longest)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        self.register_buffer("positions", torch.stack((angles.sin(), angles.cos()), -1).flatten(1))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*enable_nested_tensor.*")  # raised for every pre-norm encoder
            self.transformer = nn.Transformer(
                width,
                config.num_heads,
                config.encoder_layers,
                config.decoder_layers,
                config.d_ff,
                config.dropout,
                batch_first=True,
                norm_first=True,
            )
        self.dropout = nn.Dropout(config.dropout)
        if dropout_as_ours:
            for module in self.transformer.modules():
                if isinstance(module, nn.MultiheadAttention):
                    module.dropout = config.attention_dropout
                elif isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
                    module.dropout = nn.Dropout(config.activation_dropout)

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        padding = ~src_mask
        future = torch.ones(tgt_in.shape[1], tgt_in.shape[1], dtype=torch.bool).triu(1)
        states = self.transformer(
            self._embed(src),
            self._embed(tgt_in),
            tgt_mask=future,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return F.linear(states, self.embedding.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        embedded: Tensor = self.dropout(x + self.positions[: ids.shape[1]])
        return embedded


class RNN(nn.Module):
    """Luong's model: packed nn.LSTM encoder, nn.LSTMCell decoder, general attention, input feeding."""

    def __init__(self, vocabulary: int, config: RNNConfig) -> None:
        super().__init__()
        width, d_embedding = config.d_model, config.d_embedding
        self.embedding = nn.Embedding(vocabulary, d_embedding, padding_idx=PAD)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.LSTM(d_embedding, width // 2, batch_first=True, bidirectional=True)
        self.cell = nn.LSTMCell(d_embedding + width, width)
        self.query = nn.Linear(width, width, bias=False)
        self.combine = nn.Linear(2 * width, width, bias=False)
        self.readout = nn.Linear(width, d_embedding, bias=False)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, src: Tensor, src_mask: Tensor, tgt_in: Tensor) -> Tensor:
        packed = pack_padded_sequence(
            self.dropout(self.embedding(src)), src_mask.sum(1), batch_first=True, enforce_sorted=False
        )
        out, (h_n, c_n) = self.encoder(packed)
        memory, _ = pad_packed_sequence(out, batch_first=True, total_length=src.shape[1])
        memory = self.dropout(memory)
        h, c = (torch.cat((part[0], part[1]), 1) for part in (h_n, c_n))
        feed = torch.zeros_like(h)
        padding = ~src_mask
        attentional = []
        for x in self.dropout(self.embedding(tgt_in)).unbind(1):
            h, c = self.cell(torch.cat((x, feed), 1), (h, c))
            scores = torch.bmm(memory, self.query(h)[:, :, None]).squeeze(2).masked_fill(padding, -torch.inf)
            context = torch.bmm(scores.softmax(1)[:, None], memory).squeeze(1)
            feed = self.dropout(torch.tanh(self.combine(torch.cat((context, h), 1))))
            attentional.append(feed)
        return F.linear(self.readout(torch.stack(attentional, 1)), self.embedding.weight, self.bias)
