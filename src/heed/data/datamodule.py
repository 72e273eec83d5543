"""Encoded text → what each device works on: its share of every optimizer step, and its part of each evaluation set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from heed.data.batch import Batch, collate
from heed.data.corpus import Corpus, tag
from heed.data.encoded import EncodedSplit, encode, encode_once
from heed.data.plan import Planner, padded_tokens, share
from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError
from heed.options import Share


@dataclass(frozen=True)
class StepShard:
    """This process's part of one optimizer step: 0..n micro-batches, under their numbers within the step."""

    epoch: int
    step: int
    """Within the epoch."""
    src_tokens: int
    tgt_tokens: int
    """Non-pad tokens of the whole step on each side, over all processes, EOS counted."""
    padded_tokens: int
    """Tokens and padding of the whole step, over all processes."""
    micro_batches: tuple[tuple[int, Batch], ...]
    last: bool
    """Nothing comes after it."""

    def to(self, device: torch.device | str) -> "StepShard":
        """The same share on another device."""
        return replace(self, micro_batches=tuple((i, batch.to(device)) for i, batch in self.micro_batches))


class StepStream(IterableDataset[StepShard]):
    """The endless (or ``max_epochs`` long) sequence of steps from a cursor on, the same on any number of devices."""

    def __init__(self, data: "TranslationData", rank: int, world_size: int) -> None:
        self.data, self.rank, self.world_size = data, rank, world_size

    def __iter__(self) -> Iterator[StepShard]:
        data = self.data
        epoch, start = data.cursor
        while data.max_epochs is None or epoch < data.max_epochs:
            train = data.encode_train(epoch)
            # EOS ends every sentence of either side.
            src_lengths, tgt_lengths = train.src.lengths + 1, train.tgt.lengths + 1
            steps = data.planner.steps(src_lengths, tgt_lengths, epoch=epoch, start=start)
            last_epoch = data.max_epochs is not None and epoch == data.max_epochs - 1
            planned = next(steps, None)
            number = start
            while planned is not None:
                following = next(steps, None)
                yield StepShard(
                    epoch=epoch,
                    step=number,
                    src_tokens=sum(int(src_lengths[index].sum()) for index in planned.micro_batches),
                    tgt_tokens=planned.tgt_tokens,
                    padded_tokens=sum(padded_tokens(src_lengths[index], tgt_lengths[index]) for index in planned.micro_batches),
                    micro_batches=tuple(
                        (i, collate(index, train.src, train.tgt))
                        for i, index in share(planned, self.rank, self.world_size)
                    ),
                    last=last_epoch and following is None,
                )
                planned, number = following, number + 1
            epoch, start = epoch + 1, 0


class EvaluationStream(IterableDataset[Batch]):
    """This process's batches of an evaluation set, possibly none.

    It has no length on purpose: Lightning refuses a loader of length zero, and would skip the end of the evaluation,
    where all processes exchange their translations, on a process without batches.
    """

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)


class TranslationData(L.LightningDataModule):
    """Serves training steps by plan and evaluation sets by length. Its state is a cursor: (epoch, step).

    With ``sampling`` the training text, and nothing else, is segmented anew in every epoch (`Tokenizer.sampling`), as
    decided by the planner's seed and the epoch alone; lengths are then true, and a plan is of this epoch's.

    Lightning sees one long epoch: a plan's number of steps varies from epoch to epoch, which its own epochs do not
    allow, and a stream from a cursor resumes exactly, on any number of devices.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokenizer: Tokenizer,
        planner: Planner,
        *,
        sampling: Share,
        with_tests: bool,
        cache_dir: Path | str,
    ) -> None:
        super().__init__()
        _see_that_tags_fit(corpus, tokenizer)
        self.corpus = corpus
        self.tokenizer = tokenizer
        self.sampling = sampling
        self.cache_dir = cache_dir
        self.planner = planner
        self.datasets = {"train": corpus.train, "valid": corpus.valid, **(corpus.tests if with_tests else {})}
        """By split: train, valid, then the test sets by name."""
        both = {"train": corpus.both_directions}
        self.splits = {
            name: encode(split, tokenizer, cache_dir, both_directions=both.get(name, False))
            for name, split in self.datasets.items()
        }
        """The same as ids; train as the latest epoch saw it."""
        self.evaluated = [name for name in self.splits if name != "train"]
        for name in self.evaluated:
            self._refuse_too_long(name)
        self._drawn: int | None = None
        self.cursor = (0, 0)
        """The next step to be taken; the training module moves it on."""

    def encode_train(self, epoch: int) -> EncodedSplit:
        """The training pairs as ids, as they are in this epoch."""
        if self.sampling and epoch != self._drawn:
            drawing = self.tokenizer.sampling(self.sampling, seed=(self.planner.seed, epoch))
            both = self.corpus.both_directions
            self.splits["train"] = encode_once(self.datasets["train"], drawing, self.cache_dir, both_directions=both)
            self._drawn = epoch
        return self.splits["train"]

    @property
    def max_epochs(self) -> int | None:
        limit = self.trainer.max_epochs if self.trainer else None
        return None if limit in (None, -1) else limit

    @property
    def train_tgt_tokens(self) -> int:
        """Target tokens of one epoch, EOS counted."""
        return int(self.splits["train"].tgt.lengths.sum()) + len(self.splits["train"])

    @property
    def step_tokens(self) -> float:
        """Tokens of a step on both sides, EOS counted: about so many."""
        src = self.splits["train"].src
        return self.planner.batch_tokens * (1 + (src.lengths.sum() + len(src.lengths)) / self.train_tgt_tokens)

    def train_dataloader(self) -> DataLoader[StepShard]:
        return DataLoader(StepStream(self, *self._place()), batch_size=None)

    def val_dataloader(self) -> DataLoader[Batch]:
        return self._evaluation("valid")

    def test_dataloader(self) -> list[DataLoader[Batch]]:
        return [self._evaluation(name) for name in self.evaluated]

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.cursor[0], "step": self.cursor[1]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.cursor = (state_dict["epoch"], state_dict["step"])

    def _refuse_too_long(self, name: str) -> None:
        """Refuse an evaluation set with a sentence that would take minutes or all memory, before anything is trained.

        The time and memory of attention grow with the square of the length. Cleaning bounds it for training pairs;
        evaluation sets are never changed.
        """
        limit, split = self.corpus.max_eval_tokens, self.splits[name]
        longest = np.maximum(split.src.lengths, split.tgt.lengths)
        if limit is not None and longest.max() > limit:
            row = int(longest.argmax())
            split_name = "data.valid" if name == "valid" else f"The test set {name!r}"
            raise HeedError(
                f"{split_name}, sentence pair {row + 1:,}: {split.src.lengths[row]:,} source and "
                f"{split.tgt.lengths[row]:,} target tokens, more than data.max_eval_tokens={limit:,} "
                f"({self.datasets[name][row]['src'][:40]!r} …). Split it into sentences, or raise that limit if time "
                "and memory allow."
            )

    def _evaluation(self, name: str) -> DataLoader[Batch]:
        """Return this process's share of an evaluation set: each sentence pair is on exactly one process.

        Pairs of similar length are batched together.
        """
        split = self.splits[name]
        src, tgt = split.src.lengths + 1, split.tgt.lengths + 1
        order = np.lexsort((-tgt, -src))
        rank, world_size = self._place()
        most = max(1, len(order) // world_size)  # rows: every process gets a batch, where there are pairs enough
        batches, start = [], 0
        for stop in range(1, len(order) + 1):
            # Longest first: the first row has the longest source, but not always the longest target.
            rows = order[start : stop + 1]
            full = stop - start == most or padded_tokens(src[rows], tgt[rows]) > self.planner.device_tokens
            if stop == len(order) or full:
                batches.append(order[start:stop])
                start = stop
        mine = [collate(index, split.src, split.tgt) for index in batches[rank::world_size]]
        return DataLoader(EvaluationStream(mine), batch_size=None)

    def _place(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)


def _see_that_tags_fit(corpus: Corpus, tokenizer: Tokenizer) -> None:
    """A finished model's tokenizer (init_from) may be of one direction, of both, or of other languages."""
    one_of_both = not corpus.both_directions and tokenizer.tags[:1] == (tag(corpus.tgt_lang),)
    if tokenizer.tags != corpus.tags and not one_of_both:
        theirs, ours = (" or ".join(tags) or "no tag" for tags in (tokenizer.tags, corpus.tags))
        raise HeedError(
            f"This tokenizer opens a source with {theirs}, and {corpus.src_lang} → {corpus.tgt_lang} needs {ours}: "
            "give data.both_directions, data.reverse and the languages with which its model was trained."
        )
