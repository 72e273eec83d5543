"""Private interfaces of libraries, in one place, sorted by library.

Each function names the library and version it was written for; tests/test_compat.py fails when the library changes.
"""

from collections.abc import Sequence
from typing import Any

# ---- sacrebleu


def sacrebleu_sentence_statistics(metric: Any, hypotheses: Sequence[str], references: Sequence[str]) -> list[list[int]]:
    """Return the counts of each sentence that a BLEU or CHRF metric sums. sacrebleu 2.6: Metric."""
    statistics: list[list[int]] = metric._extract_corpus_statistics(hypotheses, [references])
    return statistics
