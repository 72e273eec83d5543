"""The validation and test sets of a run, as token ids and as batches."""

import math

import numpy as np

from heed.data.pairs.pairs import Limits, Pairs, check_lengths, id_lists, pair_lengths
from heed.data.pairs.tokenizer import Tokenizer
from heed.data.steps.batch import Batch, collate
from heed.data.steps.steps import Planner
from heed.data.text.corpus import Corpus


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
