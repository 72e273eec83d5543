"""LightningDataModule: each process's shard of every optimizer step and of every evaluation set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from heed.data.batch import Batch, collate
from heed.data.corpus import Corpus, language_tag
from heed.data.encoded import EncodedSplit, encode, encode_uncached
from heed.data.micro_batches import Planner, padded_tokens, shard
from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.options import UnitInterval


@dataclass(frozen=True)
class StepShard:
    """This process's part of one optimizer step: zero or more micro-batches."""

    epoch: int
    step: int
    """Index of the step in its epoch."""
    src_tokens: int
    """Source tokens of the whole step over all processes, including EOS, without padding."""
    tgt_tokens: int
    """Target tokens of the whole step over all processes, including EOS, without padding."""
    padded_tokens: int
    """Source and target tokens of the whole step over all processes, including padding."""
    micro_batches: tuple[tuple[int, Batch], ...]
    """(index within the step, batch) of this process's micro-batches."""
    last: bool
    """Whether this is the last step of the training."""

    def to(self, device: torch.device | str) -> "StepShard":
        """Return the shard on another device."""
        return replace(self, micro_batches=tuple((i, batch.to(device)) for i, batch in self.micro_batches))


class StepStream(IterableDataset[StepShard]):
    """This process's shards of all steps from the data module's cursor on, endless unless ``max_epochs`` is set.

    The steps are the same on any number of devices.

    Args:
        data: the data module; its cursor is read when the iteration starts.
        rank, world_size: this process's rank and the number of processes.
    """

    def __init__(self, data: "TranslationData", rank: int, world_size: int) -> None:
        self.data, self.rank, self.world_size = data, rank, world_size

    def __iter__(self) -> Iterator[StepShard]:
        data = self.data
        epoch, start = data.cursor
        while data.max_epochs is None or epoch < data.max_epochs:
            train = data.encode_train(epoch)
            # + 1 for EOS.
            src_lengths, tgt_lengths = train.src.lengths + 1, train.tgt.lengths + 1
            steps = data.planner.steps(src_lengths, tgt_lengths, epoch=epoch, start=start)
            last_epoch = data.max_epochs is not None and epoch == data.max_epochs - 1
            step = next(steps, None)
            number = start
            while step is not None:
                following = next(steps, None)
                yield StepShard(
                    epoch=epoch,
                    step=number,
                    src_tokens=sum(int(src_lengths[index].sum()) for index in step.micro_batches),
                    tgt_tokens=step.tgt_tokens,
                    padded_tokens=sum(
                        padded_tokens(src_lengths[index], tgt_lengths[index]) for index in step.micro_batches
                    ),
                    micro_batches=tuple(
                        (i, collate(index, train.src, train.tgt))
                        for i, index in shard(step, self.rank, self.world_size)
                    ),
                    last=last_epoch and following is None,
                )
                step, number = following, number + 1
            epoch, start = epoch + 1, 0


class EvaluationStream(IterableDataset[Batch]):
    """This process's batches of an evaluation set, possibly none.

    It has no ``__len__``: for a loader of length zero Lightning would skip the end of the evaluation, in which all
    processes exchange their translations.
    """

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)


class TranslationData(L.LightningDataModule):
    """Data loaders for training steps and evaluation sets. Its state is a cursor (epoch, step) into the training steps.

    Lightning sees a single long epoch, because the number of steps differs between epochs, which Lightning does not
    support. A stream that starts at the cursor resumes exactly, on any number of devices.

    Args:
        corpus: the text.
        tokenizer: its tokenizer.
        planner: cuts epochs into optimizer steps and micro-batches.
        sampling: BPE-dropout rate of the training text, in [0, 1). The text is segmented anew in every epoch, as a
            function of the planner's seed and the epoch; the plan uses the lengths of that epoch. 0: no dropout.
        with_tests: whether to load the test sets too.
        cache_dir: folder for encoded text.

    Raises:
        HeedError: if the tokenizer's language tags do not match the corpus, or if an evaluation sentence is too long.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        planner: Planner,
        *,
        sampling: UnitInterval,
        with_tests: bool,
        cache_dir: Path | str,
    ) -> None:
        super().__init__()
        _check_tags(corpus, tokenizer)
        self.corpus = corpus
        self.tokenizer = tokenizer
        self.sampling = sampling
        self.cache_dir = cache_dir
        self.planner = planner
        self.datasets = {"train": corpus.train, "valid": corpus.valid, **(corpus.tests if with_tests else {})}
        """Text by split: train, valid, then the test sets by name."""
        both = {"train": corpus.both_directions}
        self.splits = {
            name: encode(split, tokenizer, cache_dir, both_directions=both.get(name, False))
            for name, split in self.datasets.items()
        }
        """Token ids by split; with ``sampling``, train holds the segmentation of the latest epoch."""
        self.evaluated = [name for name in self.splits if name != "train"]
        for name in self.evaluated:
            self._check_lengths(name)
        self._sampled_epoch: int | None = None
        self.cursor = (0, 0)
        """(epoch, step) of the next training step. The training module advances it."""

    def encode_train(self, epoch: int) -> EncodedSplit:
        """Return the token ids of the training pairs in this epoch."""
        if self.sampling and epoch != self._sampled_epoch:
            sampling = self.tokenizer.sampling(self.sampling, seed=(self.planner.seed, epoch))
            both = self.corpus.both_directions
            self.splits["train"] = encode_uncached(
                self.datasets["train"], sampling, self.cache_dir, both_directions=both
            )
            self._sampled_epoch = epoch
        return self.splits["train"]

    @property
    def max_epochs(self) -> int | None:
        """The trainer's ``max_epochs``; None: no limit."""
        limit = self.trainer.max_epochs if self.trainer else None
        return None if limit in (None, -1) else limit

    @property
    def train_tgt_tokens(self) -> int:
        """Target tokens of one epoch, including EOS."""
        return int(self.splits["train"].tgt.lengths.sum()) + len(self.splits["train"])

    @property
    def step_tokens(self) -> float:
        """Average source and target tokens of a step, including EOS."""
        src = self.splits["train"].src
        return self.planner.batch_tokens * (1 + (src.lengths.sum() + len(src.lengths)) / self.train_tgt_tokens)

    def train_dataloader(self) -> DataLoader[StepShard]:
        return DataLoader(StepStream(self, *self._rank_and_world_size()), batch_size=None)

    def val_dataloader(self) -> DataLoader[Batch]:
        return self._evaluation_dataloader("valid")

    def test_dataloader(self) -> list[DataLoader[Batch]]:
        return [self._evaluation_dataloader(name) for name in self.evaluated]

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.cursor[0], "step": self.cursor[1]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.cursor = (state_dict["epoch"], state_dict["step"])

    def _check_lengths(self, name: str) -> None:
        """Raise a HeedError if a sentence of an evaluation set is longer than ``max_eval_tokens``.

        Time and memory of attention grow with the square of the length. Cleaning bounds the length of training pairs,
        but evaluation sets are never changed.
        """
        limit, split = self.corpus.max_eval_tokens, self.splits[name]
        longest = np.maximum(split.src.lengths, split.tgt.lengths)
        if limit is not None and longest.max() > limit:
            row = int(longest.argmax())
            split_name = "data.valid" if name == "valid" else f"The test set {name!r}"
            raise HeedError(
                f"{split_name}, sentence pair {row + 1:,}: {split.src.lengths[row]:,} source and "
                f"{split.tgt.lengths[row]:,} target tokens, more than data.max_eval_tokens={limit:,} "
                f"({self.datasets[name][row]['src'][:40]!r} …). Split it into sentences, or raise the limit if time "
                "and memory allow."
            )

    def _evaluation_dataloader(self, name: str) -> DataLoader[Batch]:
        """Return this process's shard of an evaluation set: each sentence pair is on exactly one process.

        Pairs of similar length are in the same batch.
        """
        split = self.splits[name]
        src, tgt = split.src.lengths + 1, split.tgt.lengths + 1
        order = np.lexsort((-tgt, -src))
        rank, world_size = self._rank_and_world_size()
        max_rows = max(1, len(order) // world_size)  # so that every process gets a batch if there are enough pairs
        batches, start = [], 0
        for stop in range(1, len(order) + 1):
            rows = order[start : stop + 1]
            full = stop - start == max_rows or padded_tokens(src[rows], tgt[rows]) > self.planner.device_tokens
            if stop == len(order) or full:
                batches.append(order[start:stop])
                start = stop
        own = [collate(index, split.src, split.tgt) for index in batches[rank::world_size]]
        return DataLoader(EvaluationStream(own), batch_size=None)

    def _rank_and_world_size(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)


def _check_tags(corpus: Corpus, tokenizer: Tokenizer) -> None:
    """Raise a HeedError if the tokenizer's language tags are not those of the corpus.

    The tokenizer of a finished model (``init_from``) may have been trained for other directions. A tokenizer for both
    directions is accepted for a corpus of its first direction.
    """
    first_of_both = not corpus.both_directions and tokenizer.tags[:1] == (language_tag(corpus.tgt_lang),)
    if tokenizer.tags != corpus.tags and not first_of_both:
        theirs, ours = (" or ".join(tags) or "no tag" for tags in (tokenizer.tags, corpus.tags))
        raise HeedError(
            f"This tokenizer starts a source with {theirs}, but {corpus.src_lang} → {corpus.tgt_lang} needs {ours}: "
            "set data.both_directions, data.reverse and the languages as when its model was trained."
        )
