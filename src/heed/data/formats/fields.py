"""Fields of records: which hold source, target and score."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heed.data.formats.lines import one_line
from heed.data.text import Block


@dataclass(frozen=True)
class Fields:
    """The fields of a file with both sides.

    Args:
        src, tgt: names of the fields, or in a TSV or CSV file without header their numbers from 1 ("1", "2").
            "translation.de" is a field of a nested mapping.
        score: field of the score; None: there is none.
        languages: language codes of source and target, which choose the sides of a TMX file.
    """

    src: str
    tgt: str
    score: str | None = None
    languages: tuple[str | None, str | None] = (None, None)

    @property
    def names(self) -> tuple[str, ...]:
        """All fields that are read."""
        return (self.src, self.tgt) if self.score is None else (self.src, self.tgt, self.score)


class BlockBuilder:
    """Collects records as a block.

    Args:
        fields: the fields of the records.
    """

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.src: list[str] = []
        self.tgt: list[str] = []
        self.scores: list[float] | None = None if fields.score is None else []

    def add(self, record: Any) -> None:
        """Add a nested mapping.

        Raises:
            KeyError: with a message for users, if a field is missing or of another kind.
            ValueError: if a text has a lone surrogate.
        """
        self.add_values(*(get_field(record, name) for name in self.fields.names))

    def add_values(self, src: Any, tgt: Any, score: Any = None) -> None:
        """Add a source, a target and a score.

        Raises:
            KeyError, ValueError: as `add`.
        """
        pair = [_check_text(value, name) for value, name in zip((src, tgt), self.fields.names, strict=False)]
        if self.scores is not None:
            self.scores.append(_check_score(score, str(self.fields.score)))
        self.src.append(pair[0])
        self.tgt.append(pair[1])

    def block(self) -> Block:
        """Return the records so far."""
        return Block(self.src, self.tgt, self.scores)


def get_field(record: Any, field: str) -> Any:
    """Return the value at a dotted path in nested mappings.

    Raises:
        KeyError: with a message for users, if there is no such field.
    """
    value = record
    for key in field.split("."):
        if not isinstance(value, Mapping) or key not in value:
            found = f"{', '.join(map(str, value)):.200}" if isinstance(value, Mapping) else f"{value!r:.40}"
            raise KeyError(
                f"no field {field!r} (found: {found}); set data.src_field and data.tgt_field to the two sides' fields."
            )
        value = value[key]
    return value


def _check_text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise KeyError(f"field {field!r} is {value!r:.40}, which is not text.")
    value.encode()  # a lone surrogate, which JSON can contain, raises UnicodeEncodeError, a ValueError
    return one_line(value)


def _check_score(value: Any, field: str) -> float:
    """Return a score. A missing one is NaN, which is below every threshold."""
    if value is None or value == "":
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise KeyError(f"field {field!r} is {value!r:.40}, which is not a number.") from None


def explain(error: Exception) -> str:
    """Return the message of an error that a record raised."""
    if isinstance(error, RecursionError):
        return "the JSON value is nested too deeply."
    return str(error.args[0]) if isinstance(error, KeyError) else " ".join(str(error).split())
