"""LightningDataModule: gives the training stream and the evaluation sets to the Trainer."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import MappingProxyType
from typing import Any, TypeVar

import lightning as L
from torch.utils.data import DataLoader, IterableDataset

from heed.data.pairs.pairs import Limits
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.steps.batch import Batch
from heed.data.steps.steps import Planner
from heed.data.steps.stream import EvaluationSets, StepShard, TrainingStream
from heed.data.text.corpus import Corpus
from heed.data.text.workers import ahead
from heed.errors import HeedError
from heed.options import UnitInterval
from heed.progress import print_line

STEPS_AHEAD = 3  # training steps that are prepared in advance


class TranslationData(L.LightningDataModule):
    """The training stream and the evaluation sets of a run.

    Training resumes exactly at the cursor of the stream, on any number of devices. Lightning sees a single long epoch,
    because it does not support epochs with different numbers of steps.

    Args:
        planner: cuts epochs into optimizer steps and micro-batches.
        bpe_dropout: see `TrainingStream`.
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
        _check_tags(corpus, tokenizer)
        self.corpus, self.resume = corpus, resume
        self.tokenizer = tokenizer.towards(corpus.directions[0].tgt_lang)
        self._digests = corpus.digests
        self.stream = TrainingStream(corpus.train, tokenizer, planner, bpe_dropout=bpe_dropout, limits=limits)
        self.sets = EvaluationSets(corpus, self.tokenizer, with_tests=with_tests, limits=limits)
        self.reading = ReadAhead(self._shards, depth=STEPS_AHEAD)
        """The training steps. It also measures how long training waits for them."""

    @property
    def planner(self) -> Planner:
        """Cuts steps into micro-batches."""
        return self.stream.planner

    def train_dataloader(self) -> DataLoader[StepShard]:
        return DataLoader(self.reading, batch_size=None)

    def val_dataloader(self) -> list[DataLoader[Batch]]:
        return list(map(self._evaluation_dataloader, self.sets.validated))

    def test_dataloader(self) -> list[DataLoader[Batch]]:
        return list(map(self._evaluation_dataloader, self.sets.evaluated))

    def teardown(self, stage: str) -> None:
        self.reading.close()
        self.stream.close()

    def state_dict(self) -> dict[str, Any]:
        return {**self.stream.state_dict(), "digests": self._digests}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the cursor to the position of a checkpoint.

        With ``resume``, raise a HeedError if a text differs from the checkpoint's.
        """
        self.stream.load_state_dict(state_dict)
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

    def _shards(self) -> Iterator[StepShard]:
        limit = self.trainer.max_epochs if self.trainer else None
        shards = self.stream.shards(*self._rank_and_world_size(), max_epochs=math.inf if limit in (None, -1) else limit)
        is_on_cuda = self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"
        return map(StepShard.pin_memory, shards) if is_on_cuda else shards

    def _evaluation_dataloader(self, name: str) -> DataLoader[Batch]:
        batches = self.sets.batches(name, self.planner, *self._rank_and_world_size())
        # Lightning skips loaders of length zero, but a process without batches must reach the end of the evaluation,
        # where all processes exchange their translations. This loader has no length.
        return DataLoader(ReadAhead(batches.__iter__, depth=0), batch_size=None)

    def _rank_and_world_size(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)


def _check_tags(corpus: Corpus, tokenizer: Tokenizer) -> None:
    """Raise a HeedError if the tokenizer lacks a tag of the corpus.

    The tokenizer of a finished model (``init_from``) may have been trained for other directions and texts.
    """
    for text in corpus.train.texts:
        tokenizer.source_tags(text.direction.tgt_lang, text.tag)
    needed = {direction.tag for direction in corpus.directions} if tokenizer.tags else set(corpus.tags)
    if not needed <= set(tokenizer.tags):
        theirs, ours = (" or ".join(tags) or "no tag" for tags in (tokenizer.tags, corpus.tags))
        directions = " and ".join(map(str, corpus.directions))
        raise HeedError(
            f"This tokenizer starts a source with {theirs}, but {directions} needs {ours}: "
            "set data.both_directions, data.reverse and the languages to the values that its model was trained with."
        )


# ---- reading ahead

Item = TypeVar("Item")


class ReadAhead(IterableDataset[Item]):
    """Yields the items that ``read`` returns, none of them None. A thread prepares up to ``depth`` items in advance.

    An exception in the thread is raised in place of its item. The thread ends after the last item, when the iteration
    is abandoned, and at `close`.

    A worker process of `DataLoader` would delay the first step by importing torch, and could not start the process of
    `heed.data.pairs.augmentation`.
    """

    def __init__(self, read: Callable[[], Iterator[Item]], *, depth: int) -> None:
        self.read, self.depth = read, depth
        self.wait_seconds = 0.0  # seconds that the consumer has waited for items of the latest iteration
        self._thread: ThreadPoolExecutor | None = None

    def __iter__(self) -> Iterator[Item]:
        self.wait_seconds = 0.0
        self._thread = thread = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
        try:
            items = self.read()
            for reading in ahead((thread.submit(next, items, None) for _ in count()), self.depth):
                start = time.perf_counter()
                item = reading.result()
                self.wait_seconds += time.perf_counter() - start
                if item is None:
                    return
                yield item
        finally:
            thread.shutdown(cancel_futures=True)

    def close(self) -> None:
        """End the thread, if there is one. The iteration must not continue."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
