"""LightningDataModule: each process's shard of every optimizer step and of every evaluation set."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from heed.data.order.mixture import MixtureOrder, frame_counts
from heed.data.order.order import EpochOrder, Order, TrainingPairs, View
from heed.data.pairs.augmentation import GROWTH_PAIRS, Limit, Sampler
from heed.data.pairs.encoding import encode
from heed.data.pairs.pairs import IntArray, Pairs, id_lists, pair_lengths
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.steps.batch import Batch, collate
from heed.data.steps.read_ahead import ReadAhead
from heed.data.steps.steps import Planner, Pool, shard
from heed.data.text.corpus import Corpus
from heed.errors import HeedError
from heed.options import UnitInterval
from heed.progress import print_line

STEPS_AHEAD = 3  # training steps that are prepared in advance
Limits = Mapping[str, Limit]  # limits of pairs with tags and EOS, by the option that sets them


@dataclass(frozen=True)
class StepShard:
    """This process's part of one optimizer step: zero or more micro-batches."""

    epoch: int
    step: int  # index in its epoch
    src_tokens: int  # of the whole step over all processes, including EOS, without padding
    tgt_tokens: int  # likewise
    padded_tokens: int  # the sum of both with padding
    micro_batches: tuple[tuple[int, Batch], ...]  # this process's, with their index within the step
    last: bool  # whether the training ends with it
    corpora: tuple[tuple[int, int], ...] = ()  # sentences and target tokens of each text; empty without a mixture

    def to(self, device: torch.device | str) -> "StepShard":
        """Return the shard on another device."""
        return replace(self, micro_batches=tuple((i, batch.to(device)) for i, batch in self.micro_batches))

    def pin_memory(self) -> "StepShard":
        """Return the shard in page-locked memory, see `Batch.pin_memory`."""
        return replace(self, micro_batches=tuple((i, batch.pin_memory()) for i, batch in self.micro_batches))


class EvaluationStream(IterableDataset[Batch]):
    """This process's batches of an evaluation set, possibly none.

    It has no ``__len__``, because Lightning skips loaders of length zero. A process without batches must still reach
    the end of the evaluation, where all processes exchange their translations.
    """

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)


class TranslationData(L.LightningDataModule):
    """Data loaders for training steps and evaluation sets. Its state is a cursor (epoch, step) into the training steps.

    Training resumes exactly at the cursor, on any number of devices. Lightning sees a single long epoch, because it
    does not support epochs with different numbers of steps.

    Args:
        planner: cuts epochs into optimizer steps and micro-batches.
        bpe_dropout: rate of BPE-dropout in the training text, in [0, 1). The segmentation is a function of the
            planner's seed, the epoch and the pair. 0: no dropout.
        with_tests: load the test sets too.
        limits: of the model, see `ModelConfig.length_limits`.
        resume: refuse a checkpoint that was trained on other text.

    Raises:
        HeedError: if the tokenizer's tags do not match the corpus, if a weight of a mixture is too small, or if an
            evaluation sentence or a training pair is too long.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        planner: Planner,
        *,
        bpe_dropout: UnitInterval,
        with_tests: bool,
        limits: Limits = MappingProxyType({}),
        resume: bool = False,
    ) -> None:
        super().__init__()
        self.resume = resume
        _check_tags(corpus, tokenizer)
        if corpus.train.is_mixture:
            frame_counts(corpus.train.weights, [part.text.name for part in corpus.train.texts])  # checks the weights
        self.corpus, self.planner = corpus, planner
        self.tokenizer = tokenizer.towards(corpus.directions[0].tgt_lang)
        self._digests = corpus.digests
        sets = {**corpus.valid, **(corpus.tests if with_tests else {})}
        self.texts = {name: part.text for name, part in sets.items()}  # validation and test sets by name
        self.directions = {name: part.direction for name, part in sets.items()}  # the direction of each of ``texts``
        self.validated = list(corpus.valid)
        self.evaluated = list(self.texts)
        self.encoded = {
            name: Pairs(
                np.arange(len(text)),
                id_lists(self.tokenizer.towards(direction.tgt_lang).encode_src(text.src)),
                id_lists(self.tokenizer.encode_tgt(text.tgt)),
            )
            for name, (text, direction) in sets.items()
        }
        """Token ids of ``texts``, with tags."""
        self.train = TrainingPairs([*_views(corpus, tokenizer)])
        self.longest: tuple[int, int] = tuple(np.max([view.longest[:2] for view in self.train.views], axis=0).tolist())
        """Tokens of the longest source and of the longest target in training, with EOS and without BPE-dropout."""
        of_training = {**limits, f"batching.device_tokens={planner.max_pair}": (math.inf, math.inf, planner.max_pair)}
        self._check_lengths(limits, of_training)
        tags = max(len(view.tags) for view in self.train.views)
        limit = tuple((np.min([*of_training.values()], axis=0) - (tags + 1, 1, tags + 2)).tolist())
        texts = [part.text for part in corpus.train.texts]
        noises = [(noise, view.src_lang) if (noise := texts[view.text].noise) else None for view in self.train.views]
        self.sampler = Sampler(tokenizer, bpe_dropout, noises, limit) if bpe_dropout or any(noises) else None
        sampled = min(GROWTH_PAIRS, len(self.train))  # evenly, because texts and directions grow differently
        sample = self.train.read(np.arange(sampled) * len(self.train) // sampled)
        self.growth = self.sampler.growth(sample) if self.sampler else 1.0
        """Target tokens with BPE-dropout divided by those without it."""
        self.reading: ReadAhead[StepShard] = ReadAhead((), depth=STEPS_AHEAD)
        """The training steps. It also measures how long training waits for them."""
        self.cursor = (0, 0)  # (epoch, step) of the next training step

    @property
    def train_tgt_tokens(self) -> float:
        """Target tokens of one epoch, including EOS."""
        return self.train.tgt_tokens * self.growth

    @property
    def step_tokens(self) -> float:
        """Average source and target tokens of a step, including EOS."""
        return self.planner.batch_tokens * (1 + self.train.src_tokens / self.train.tgt_tokens)

    def train_dataloader(self) -> DataLoader[StepShard]:
        is_on_cuda = self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"
        shards = self.step_shards(*self._rank_and_world_size())
        self.reading = ReadAhead(map(StepShard.pin_memory, shards) if is_on_cuda else shards, depth=STEPS_AHEAD)
        return DataLoader(self.reading, batch_size=None)

    def teardown(self, stage: str) -> None:
        self.reading.close()
        if self.sampler:
            self.sampler.close()

    def val_dataloader(self) -> list[DataLoader[Batch]]:
        return [self._evaluation_dataloader(name) for name in self.validated]

    def test_dataloader(self) -> list[DataLoader[Batch]]:
        return [self._evaluation_dataloader(name) for name in self.evaluated]

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.cursor[0], "step": self.cursor[1], "digests": self._digests}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the cursor to the position of a checkpoint.

        With ``resume``, raise a HeedError if a text differs from the checkpoint's.
        """
        self.cursor = (state_dict["epoch"], state_dict["step"])
        before = state_dict.get("digests", self._digests)
        changed = [option for option, digest in self._digests.items() if before[option] != digest]
        if self.resume and changed:
            raise HeedError(
                f"resume=true: the text of {' and '.join(changed)} has changed since the checkpoint: restore the text, "
                "or start a new run from the checkpoint with ckpt_path=."
            )
        if "data.train" in changed:
            print_line(
                "The training text or the weights of its mixture have changed since the checkpoint: this epoch may "
                "repeat or skip some sentences."
            )

    def step_shards(self, rank: int, world_size: int) -> Iterator[StepShard]:
        """Yield the shard of each step that belongs to a process, from the cursor until ``max_epochs``, if set.

        The steps are the same on any number of devices. The cursor is read when the iteration starts.
        """
        start, planner, train, corpora = self.cursor, self.planner, self.train, len(self.corpus.train.texts)
        pools = self._pools(*start)
        if self.sampler is not None:
            # A mixture has one endless epoch that repeats its texts.
            pools = self.sampler.draw(
                (pool, str((planner.seed, pool.epoch + pool.first // len(train))), pairs, train.view_of(pairs.rows))
                for pool, pairs in pools
            )
        for pool, untagged in pools:
            pairs, texts = train.tagged(untagged), train.text_of(untagged.rows)
            src, tgt = pairs.src_lengths + 1, pairs.tgt_lengths + 1  # with EOS
            steps = planner.cut(pool, pairs)
            for number, step in enumerate(steps, start=pool.first_step):
                if (pool.epoch, number) < start:
                    continue
                rows = np.concatenate(step)
                sentences = np.bincount(texts[rows], minlength=corpora).tolist()
                tokens = np.bincount(texts[rows], tgt[rows], minlength=corpora).astype(int).tolist()
                yield StepShard(
                    epoch=pool.epoch,
                    step=number,
                    src_tokens=int(src[rows].sum()),
                    tgt_tokens=int(tgt[rows].sum()),
                    padded_tokens=sum(planner.padded_tokens(src[index], tgt[index]) for index in step),
                    micro_batches=tuple(
                        (i, collate(index, pairs, corpus=texts[index], corpora=corpora))
                        for i, index in shard(step, rank, world_size)
                    ),
                    last=pool.is_last and step is steps[-1],
                    corpora=tuple(zip(sentences, tokens, strict=True)) if self.corpus.train.is_mixture else (),
                )

    def _pools(self, epoch: int, start: int) -> Iterator[tuple[Pool, Pairs]]:
        """Yield the pools and their pairs, from the pool that contains step ``start`` to the end of the training."""
        text, seed = self.corpus.train, self.planner.seed
        limit = self.trainer.max_epochs if self.trainer else None
        epochs = math.inf if limit in (None, -1) else limit
        while epoch < epochs:
            order: Order
            if text.is_mixture:  # one endless epoch; ``max_epochs`` counts its tokens
                step_tokens, texts = self.planner.batch_tokens / self.growth, [part.text for part in text.texts]
                order = mixture = MixtureOrder(self.train, texts, text.weights, seed=seed, step_tokens=step_tokens)
                is_limited = not math.isinf(epochs)
                end = mixture.position_of(math.ceil(mixture.steps(epochs) * step_tokens)) if is_limited else math.inf
            else:
                order = EpochOrder(self.train, seed=(seed, epoch))
                end = order.length if epoch + 1 == epochs else math.inf
            for pool in self.planner.pools(order, start=start, growth=self.growth):
                if pool.first >= end:
                    return
                yield pool._replace(epoch=epoch, is_last=pool.stop >= end), order.read(pool.first, pool.stop)
            epoch, start = epoch + 1, 0

    def _check_lengths(self, limits: Limits, of_training: Limits) -> None:
        """Raise a HeedError if a pair is too long, in training without noise and BPE-dropout.

        Time and memory of attention grow with the square of the length, and evaluation sets are not cleaned.
        """
        for view in self.train.views:
            if any((view.longest > limit).any() for limit in of_training.values()):
                part = self.corpus.train.texts[view.text]
                where, otherwise = f"data.train.{part.text.name}".rstrip("."), "drop it (data.cleaning.max_chars)"
                _check_limits(view.lengths(), of_training, where, part.clean.lines(), otherwise)
        if (most := self.corpus.max_eval_tokens) is not None:  # without EOS
            limits = {f"data.max_eval_tokens={most:,}": (most + 1, most + 1, math.inf), **limits}
        for name, pairs in self.encoded.items():
            where = f"data.{name.replace('-', '.', 1)}" if name in self.validated else f"The test set {name!r}"
            lengths = pair_lengths(pairs.src_lengths + 1, pairs.tgt_lengths + 1)
            _check_limits(lengths, limits, where, pairs.rows, "split it into sentences")

    def _evaluation_dataloader(self, name: str) -> DataLoader[Batch]:
        """Return this process's batches of an evaluation set, each of pairs of similar length.

        Each pair is on exactly one process.
        """
        split = self.encoded[name]
        src, tgt = split.src_lengths + 1, split.tgt_lengths + 1
        order = np.lexsort((-tgt, -src))
        rank, world_size = self._rank_and_world_size()
        max_rows = max(1, len(order) // world_size)  # every process gets a batch if there are enough pairs
        starts = [0]
        for row in range(1, len(order)):
            rows = order[starts[-1] : row + 1]
            if len(rows) > max_rows or self.planner.padded_tokens(src[rows], tgt[rows]) > self.planner.device_tokens:
                starts.append(row)
        own = np.split(order, starts[1:])[rank::world_size]
        return DataLoader(EvaluationStream([collate(rows, split) for rows in own]), batch_size=None)

    def _rank_and_world_size(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)


def _check_limits(lengths: IntArray, limits: Limits, where: str, lines: IntArray, otherwise: str) -> None:
    """Raise a HeedError that names the first pair whose lengths, with EOS, exceed a limit."""
    for option, limit in limits.items():
        for row in np.flatnonzero((lengths > limit).any(axis=1)).tolist():
            src, tgt, _ = lengths[row] - 1
            raise HeedError(
                f"{where}, sentence pair {lines[row] + 1:,}: {src:,} source and {tgt:,} target tokens and EOS, more "
                f"than {option}: set it to {lengths[lengths > limit].max()} or more, or {otherwise}."
            )


def _views(corpus: Corpus, tokenizer: Tokenizer) -> Iterator[View]:
    """Yield a view of each training text in each of its directions, with the ids of its tags."""
    for number, part in enumerate(corpus.train.texts):
        store = encode(part, tokenizer)
        own = () if part.text.tag is None else (tokenizer.text_tags[part.text.tag],)
        for swapped, direction in zip((False, True), part.directions, strict=False):
            yield View(store, swapped, tokenizer.towards(direction.tgt_lang).tag_ids + own, number, direction.src_lang)


def _check_tags(corpus: Corpus, tokenizer: Tokenizer) -> None:
    """Raise a HeedError if the tokenizer lacks a tag of the corpus.

    The tokenizer of a finished model (``init_from``) may have been trained for other directions and texts.
    """
    if unknown := [tag for tag in corpus.train.tags if tag not in tokenizer.text_tags]:
        raise HeedError(
            f"This tokenizer has no tag {unknown[0]} for a text: choose a tag that its model was trained with "
            f"({', '.join(tokenizer.text_tags) or 'it has none'}), or leave out the tag in data.train."
        )
    needed = {direction.tag for direction in corpus.directions} if tokenizer.tags else set(corpus.tags)
    if not needed <= set(tokenizer.tags):
        theirs, ours = (" or ".join(tags) or "no tag" for tags in (tokenizer.tags, corpus.tags))
        directions = " and ".join(map(str, corpus.directions))
        raise HeedError(
            f"This tokenizer starts a source with {theirs}, but {directions} needs {ours}: "
            "set data.both_directions, data.reverse and the languages to the values that its model was trained with."
        )
