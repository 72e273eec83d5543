"""Alignments in Pharaoh format: one line for each sentence pair, ``i-j`` for each link."""

import re
from collections.abc import Sequence

from heed.errors import HeedError
from heed.evaluation.alignment.error_rate import Gold


def parse_pharaoh(
    lines: Sequence[str], lengths: Sequence[tuple[int, int]], *, name: str, first_index: int, drop_outside: bool
) -> list[Gold]:
    """Parse alignments in Pharaoh format.

    ``i-j`` is a sure link between source word i and target word j; ``i?j`` or ``ipj`` is a possible link. The talp
    format is the same, but often counts words from 1.

    Args:
        lines: One line for each sentence pair.
        lengths: (source words, target words) of each sentence pair.
        name: The name of the file in error messages.
        first_index: The index of the first word in the file, 0 or 1.
        drop_outside: Ignore links to words beyond the end of a sentence instead of raising an error.

    Raises:
        HeedError: A line is malformed, links a word that does not exist, or is missing.
    """
    if len(lines) != len(lengths):
        raise HeedError(
            f"{name} has {len(lines):,} lines for {len(lengths):,} sentence pairs: give one line of links for each."
        )
    golds = []
    for number, (line, (src_length, tgt_length)) in enumerate(zip(lines, lengths, strict=True), start=1):
        sure, possible = set(), set()
        for text in line.split():
            if not (match := re.fullmatch(r"(\d{1,9})([-?p])(\d{1,9})", text)):
                raise HeedError(
                    f"Line {number} of {name}: {text!r} is not a link. Write i-j for a sure link and i?j or ipj for a "
                    "possible link between source word i and target word j."
                )
            link = int(match[1]) - first_index, int(match[3]) - first_index
            if not (0 <= link[0] < src_length and 0 <= link[1] < tgt_length):
                if drop_outside:
                    continue
                raise HeedError(
                    f"Line {number} of {name}: {text} is out of range. The source has {src_length} words and the "
                    f"target {tgt_length}, counted from {first_index}."
                )
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        golds.append(Gold(frozenset(sure), frozenset(possible)))
    return golds


def format_pharaoh(gold: Gold) -> str:
    """Format the links of one sentence pair as a line, words counted from 0, sorted by source, then target word."""
    return " ".join(f"{src}{'-' if (src, tgt) in gold.sure else '?'}{tgt}" for src, tgt in sorted(gold.possible))
