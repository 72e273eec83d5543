"""The training stream, each process's shard of every optimizer step from a cursor on; and the evaluation sets."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from heed.data.order.order import EpochOrder, MixtureOrder, Order, frame_counts
from heed.data.pairs.augmentation import GROWTH_PAIRS, Sampler
from heed.data.pairs.pairs import Limits, Pairs, TrainingPairs, check_lengths, encode, id_lists, pair_lengths
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.steps.batch import Batch, collate
from heed.data.steps.steps import Planner, Pool, shard
from heed.data.text.corpus import Corpus, TrainingSet
from heed.options import UnitInterval


@dataclass(frozen=True)
class StepShard:
    """This process's part of one optimizer step: zero or more micro-batches."""

    epoch: int  # 0 in a mixture, which is one endless epoch
    step: int  # index in its epoch
    src_tokens: int  # of the whole step over all processes, including EOS, without padding
    tgt_tokens: int  # likewise
    padded_tokens: int  # the sum of both with padding
    micro_batches: tuple[tuple[int, Batch], ...]  # this process's, with their index within the step
    last: bool  # whether the training ends with it
    texts: tuple[tuple[int, int], ...] = ()  # sentences and target tokens of each text; empty without a mixture
    passes: int = 0  # over the text before this step, in a mixture by its target tokens

    def to(self, device: torch.device | str) -> "StepShard":
        """Return the shard on another device."""
        return replace(self, micro_batches=tuple((i, batch.to(device)) for i, batch in self.micro_batches))

    def pin_memory(self) -> "StepShard":
        """Return the shard in page-locked memory, see `Batch.pin_memory`."""
        return replace(self, micro_batches=tuple((i, batch.pin_memory()) for i, batch in self.micro_batches))


class TrainingStream:
    """The training steps of a run, from a cursor (epoch, step) on. They are the same on any number of devices.

    Args:
        planner: cuts epochs into optimizer steps and micro-batches.
        bpe_dropout: rate of BPE-dropout in the training text, in [0, 1). The segmentation is a function of the
            planner's seed, the epoch and the pair. 0: no dropout.
        limits: of the model, see `ModelConfig.length_limits`.

    Raises:
        HeedError: if a weight of a mixture is too small, or a pair is too long.
    """

    def __init__(
        self,
        train: TrainingSet,
        tokenizer: Tokenizer,
        planner: Planner,
        *,
        bpe_dropout: UnitInterval,
        limits: Limits = MappingProxyType({}),
    ) -> None:
        if train.is_mixture:
            frame_counts(train.directed)  # checks the weights
        self.train, self.planner = train, planner
        self.pairs = TrainingPairs([encode(text, tokenizer) for text in train.directed])
        self.longest: tuple[int, int] = tuple(np.max([text.longest[:2] for text in self.pairs.texts], axis=0).tolist())
        """Tokens of the longest source and of the longest target, with EOS and without BPE-dropout."""
        limits = {**limits, f"batching.device_tokens={planner.max_pair}": (math.inf, math.inf, planner.max_pair)}
        self._check_lengths(limits)
        noises = [
            (text.noise, text.direction.src_lang, pairs.tags) if text.noise else None
            for text, pairs in zip(train.directed, self.pairs.texts, strict=True)
        ]
        limit = tuple((np.min([*limits.values()], axis=0) - (1, 1, 2)).tolist())  # without EOS
        self.sampler = Sampler(tokenizer, bpe_dropout, noises, limit) if bpe_dropout or any(noises) else None
        sampled = min(GROWTH_PAIRS, len(self.pairs))  # evenly, because texts and directions grow differently
        sample = self.pairs.read(np.arange(sampled) * len(self.pairs) // sampled)
        self.growth = self.sampler.growth(sample) if self.sampler else 1.0
        """Target tokens with BPE-dropout divided by those without it."""
        self.cursor = (0, 0)
        """(epoch, step) of the next step."""

    @property
    def tgt_tokens(self) -> float:
        """Target tokens of one epoch, including EOS."""
        return self.pairs.tgt_tokens * self.growth

    @property
    def step_tokens(self) -> float:
        """Average source and target tokens of a step, including EOS."""
        return self.planner.batch_tokens * (1 + self.pairs.src_tokens / self.pairs.tgt_tokens)

    def finished(self, shard: StepShard) -> None:
        """Move the cursor behind a step that was trained on."""
        self.cursor = (shard.epoch, shard.step + 1)

    def state_dict(self) -> dict[str, Any]:
        """Return the cursor, as in a checkpoint."""
        return {"epoch": self.cursor[0], "step": self.cursor[1]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the cursor to the position of a checkpoint."""
        self.cursor = (state_dict["epoch"], state_dict["step"])

    def shards(self, rank: int, world_size: int, *, max_epochs: float = math.inf) -> Iterator[StepShard]:
        """Yield the shard of each step that belongs to a process, from the cursor to the end of the training.

        The cursor is read when the iteration starts.
        """
        start, planner, texts = self.cursor, self.planner, len(self.train.texts)
        steps_per_epoch = self.tgt_tokens / planner.batch_tokens
        for pool, pairs in self._draw(self._pools(*start, max_epochs)):
            text_of = self.pairs.text_of(pairs.rows) // (1 + self.train.both_directions)
            src, tgt = pairs.src_lengths + 1, pairs.tgt_lengths + 1  # with EOS
            steps = planner.cut(pool, pairs)
            for number, step in enumerate(steps, start=pool.first_step):
                if (pool.epoch, number) < start:
                    continue
                rows = np.concatenate(step)
                sentences = np.bincount(text_of[rows], minlength=texts).tolist()
                tokens = np.bincount(text_of[rows], tgt[rows], minlength=texts).astype(int).tolist()
                yield StepShard(
                    epoch=pool.epoch,
                    step=number,
                    src_tokens=int(src[rows].sum()),
                    tgt_tokens=int(tgt[rows].sum()),
                    padded_tokens=sum(planner.padded_tokens(src[index], tgt[index]) for index in step),
                    micro_batches=tuple(
                        (i, collate(index, pairs, text_of=text_of[index], texts=texts))
                        for i, index in shard(step, rank, world_size)
                    ),
                    last=pool.is_last and step is steps[-1],
                    texts=tuple(zip(sentences, tokens, strict=True)) if self.train.is_mixture else (),
                    passes=pool.epoch + (int(number / steps_per_epoch) if self.train.is_mixture else 0),
                )

    def _draw(self, pools: Iterator[tuple[Pool, Pairs]]) -> Iterator[tuple[Pool, Pairs]]:
        """Add noise and BPE-dropout to the pairs of each pool."""
        if self.sampler is None:
            return pools
        # A mixture has one endless epoch that repeats its texts.
        return self.sampler.draw(
            (
                pool,
                str((self.planner.seed, pool.epoch + pool.first // len(self.pairs))),
                pairs,
                self.pairs.text_of(pairs.rows),
            )
            for pool, pairs in pools
        )

    def _pools(self, epoch: int, step: int, max_epochs: float) -> Iterator[tuple[Pool, Pairs]]:
        """Yield the pools and their pairs, from the pool that contains a step to the end of the training."""
        for number, order, end in self._epochs(epoch, max_epochs):
            start = step if number == epoch else 0
            for pool in self.planner.pools(order, start=start, growth=self.growth):
                if pool.first >= end:
                    return
                yield pool._replace(epoch=number, is_last=pool.stop >= end), order.read(pool.first, pool.stop)

    def _epochs(self, first: int, max_epochs: float) -> Iterator[tuple[int, Order, float]]:
        """Yield the number and the order of each epoch, and the position in it at which the training ends."""
        seed = self.planner.seed
        for number in count(first):
            if number >= max_epochs:
                return
            if self.train.is_mixture:  # one endless epoch; ``max_epochs`` counts its tokens
                step_tokens = self.planner.batch_tokens / self.growth
                mixture = MixtureOrder(self.pairs, self.train.directed, seed=seed, step_tokens=step_tokens)
                yield number, mixture, mixture.end(max_epochs)
            else:
                order = EpochOrder(self.pairs, seed=(seed, number))
                yield number, order, order.length if number + 1 == max_epochs else math.inf

    def _check_lengths(self, limits: Limits) -> None:
        """Raise a HeedError if a pair is too long, without noise and BPE-dropout."""
        for text, pairs in zip(self.train.directed, self.pairs.texts, strict=True):
            if any((pairs.longest > limit).any() for limit in limits.values()):
                where = f"data.train.{text.name}".rstrip(".")
                otherwise = "drop it (data.cleaning.max_chars)"
                check_lengths(pairs.lengths(), limits, where, text.clean.lines(), otherwise)

    def close(self) -> None:
        """End the process that draws noise and BPE-dropout, if there is one."""
        if self.sampler:
            self.sampler.close()


# ---- evaluation


class EvaluationSets:
    """All sets that are scored.

    Args:
        with_tests: load the test sets too.
        limits: of the model, see `ModelConfig.length_limits`.

    Raises:
        HeedError: if a sentence is too long.
    """

    def __init__(self, corpus: Corpus, tokenizer: Tokenizer, *, with_tests: bool, limits: Limits) -> None:
        sets = {**corpus.valid, **(corpus.tests if with_tests else {})}
        self.texts = {name: part.text for name, part in sets.items()}
        """The sentences of all sets, by name."""
        self.directions = {name: part.direction for name, part in sets.items()}
        """The direction of each set."""
        self.validated = list(corpus.valid)
        """Names of the validation sets."""
        self.evaluated = list(sets)
        """Names of the sets that are scored at the end."""
        self.encoded = {
            name: Pairs(
                np.arange(len(text)),
                id_lists(tokenizer.towards(direction.tgt_lang).encode_src(text.src)),
                id_lists(tokenizer.encode_tgt(text.tgt)),
            )
            for name, (text, direction) in sets.items()
        }
        """Token ids of ``texts``, with tags."""
        # Evaluation sets are not cleaned, and time and memory of attention grow with the square of the length.
        if (most := corpus.max_eval_tokens) is not None:  # without EOS
            limits = {f"data.max_eval_tokens={most:,}": (most + 1, most + 1, math.inf), **limits}
        for name, pairs in self.encoded.items():
            where = f"data.{name.replace('-', '.', 1)}" if name in self.validated else f"The test set {name!r}"
            lengths = pair_lengths(pairs.src_lengths + 1, pairs.tgt_lengths + 1)
            check_lengths(lengths, limits, where, pairs.rows, "split it into sentences")

    def batches(self, name: str, planner: Planner, rank: int, world_size: int) -> list[Batch]:
        """Return the batches of a set that belong to a process, each of pairs of similar length.

        Each pair is on exactly one process.
        """
        pairs = self.encoded[name]
        src, tgt = pairs.src_lengths + 1, pairs.tgt_lengths + 1
        order = np.lexsort((-tgt, -src))
        max_rows = max(1, len(order) // world_size)  # every process gets a batch if there are enough pairs
        starts = [0]
        for row in range(1, len(order)):
            rows = order[starts[-1] : row + 1]
            if len(rows) > max_rows or planner.padded_tokens(src[rows], tgt[rows]) > planner.device_tokens:
                starts.append(row)
        return [collate(rows, pairs) for rows in np.split(order, starts[1:])[rank::world_size]]
