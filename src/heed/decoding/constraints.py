"""Constraints of a search: values that say which pieces may follow, passed in as edits of attention are.

A constraint belongs to one sentence. It never changes: `Constraint.after` returns what is left of it when a piece has
been chosen. A search asks `RowConstraints`, the constraints of all its rows, and knows nothing else of them.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from heed.errors import HeedError
from heed.symbols import EOS, WORD_START_BYTE

IMPOSSIBLE = 10**9  # pieces
Forbidden = Bool[Tensor, " V"]
"""True for the pieces of a vocabulary that may not follow."""


class Constraint(ABC):
    """What the rest of a translation must fulfil."""

    @property
    def needs(self) -> int:
        """The fewest pieces that fulfil it. A translation ends only when nothing is needed."""
        return 0

    @property
    def distance(self) -> int:
        """The pieces that are missing, where others may come first. Beam search keeps prefixes of each distance."""
        return 0

    @property
    def next_pieces(self) -> Sequence[int]:
        """The pieces that lessen the distance: beam search considers them, however improbable they are."""
        return ()

    @abstractmethod
    def forbidden(self, room: int, vocab: int) -> Forbidden | None:
        """Return which of the ``vocab`` pieces may not follow; None if all may.

        Args:
            room: the number of pieces that fit between the next piece and EOS. A piece must not leave more to fulfil.
        """

    @abstractmethod
    def after(self, piece: int) -> "Constraint | None":
        """Return what is left when ``piece`` follows; None if nothing is."""


@dataclass(frozen=True)
class RowConstraints:
    """The constraints of each row of a search, in order of their priority."""

    rows: Sequence[Sequence[Constraint]]
    limits: Sequence[int]
    """The maximal number of tokens of each row, EOS included."""

    def forbid(self, log_probs: Float[Tensor, "R V"], length: int) -> Float[Tensor, "R V"]:
        """Return the log-probabilities of the ``length``-th token of each row, with -inf for what may not follow."""
        vocab = log_probs.shape[1]
        none = torch.zeros(vocab, dtype=torch.bool)
        masks = [
            _forbidden(constraints, limit - length - 1, vocab)
            for constraints, limit in zip(self.rows, self.limits, strict=True)
        ]
        return log_probs.masked_fill(
            torch.stack([none if mask is None else mask for mask in masks]).to(log_probs.device), -torch.inf
        )

    def after(self, rows: Sequence[int], pieces: Sequence[int]) -> "RowConstraints | None":
        """Return the rules when ``pieces`` follow the former ``rows``; None if no constraint is left."""
        left = [
            () if piece == EOS else tuple(filter(None, (each.after(piece) for each in self.rows[row])))
            for row, piece in zip(rows, pieces, strict=True)
        ]
        return RowConstraints(left, [self.limits[row] for row in rows]) if any(left) else None

    @property
    def is_shared(self) -> bool:
        """Whether any row has a distance."""
        return any(each.distance for row in self.rows for each in row)

    def share_beam(
        self, log_prob: Float[Tensor, "N C"], choice: Int[Tensor, "N beam"], vocab: int
    ) -> Int[Tensor, "N beam"]:
        """Return the extensions that a beam keeps, so that each distance has a part of it.

        Dynamic beam allocation (Post & Vilar 2018, §3.2): beside the most probable extensions, a sentence has those
        that lessen the distance, and the best one of each prefix. They are chosen in turn from each distance, the most
        probable first. The most probable extension of all always stays.

        Args:
            log_prob: of each extension: piece v of a sentence's k-th prefix is at k × ``vocab`` + v.
            choice: the most probable extensions of each sentence, best first.
        """
        prefixes = len(self.rows) // len(choice)
        rows = (self.rows[first : first + prefixes] for first in range(0, len(self.rows), prefixes))
        shared = [
            _share_beam(scores, best, own, vocab)
            for scores, best, own in zip(log_prob.cpu(), choice.tolist(), rows, strict=True)
        ]
        return torch.tensor(shared, device=choice.device)

    def keep(self, rows: Sequence[int]) -> "RowConstraints":
        """Return the rules of these rows."""
        return RowConstraints([self.rows[row] for row in rows], [self.limits[row] for row in rows])


def _forbidden(constraints: Sequence[Constraint], room: int, vocab: int) -> Forbidden | None:
    """Return which pieces may not follow. A constraint that leaves none to those before it is not applied."""
    needs = sum(each.needs for each in constraints)
    found: Forbidden | None = None
    for constraint in constraints:
        if (mask := constraint.forbidden(room - needs + constraint.needs, vocab)) is not None:
            both = mask if found is None else found | mask
            found = found if both.all() else both
    if needs:
        found = torch.zeros(vocab, dtype=torch.bool) if found is None else found.clone()
        found[EOS] = True
    return found


def _share_beam(
    scores: Float[Tensor, " C"], best: list[int], rows: Sequence[Sequence[Constraint]], vocab: int
) -> list[int]:
    """Return the extensions that the beam of one sentence keeps, see `RowConstraints.share_beam`."""
    if not any(each.distance for row in rows for each in row):
        return best
    likely = scores[: len(rows) * vocab].view(len(rows), vocab).argmax(1).tolist()
    wanted = ((place, piece) for place, row in enumerate(rows) for each in row for piece in each.next_pieces)
    found = list(dict.fromkeys([*best, *(place * vocab + piece for place, piece in (*enumerate(likely), *wanted))]))
    score = dict(zip(found, scores[found].tolist(), strict=True))
    ranked = sorted((each for each in found if score[each] > -torch.inf), key=lambda each: (-score[each], each))
    banks: defaultdict[int, list[int]] = defaultdict(list)
    for extension in ranked[1:]:
        place, piece = divmod(extension, vocab)
        left = (each.after(piece) for each in rows[place])
        banks[sum(each.distance for each in left if each)].append(extension)
    in_turn = (each for turn in zip_longest(*(banks[distance] for distance in sorted(banks))) for each in turn)
    kept = [*ranked[:1], *(each for each in in_turn if each is not None)][: len(best)]
    impossible = [each for each in best if score[each] == -torch.inf]
    return [*sorted(kept, key=ranked.index), *impossible[: len(best) - len(kept)]]


def raised_limit(limit: int, constraints: Sequence[Constraint], extra: int, maximum: int | None) -> int:
    """Return the maximal number of tokens of a sentence: at least what its constraints need, ``extra`` tokens and EOS.

    Raises:
        HeedError: if a model with at most ``maximum`` target tokens cannot fulfil them.
    """
    needs = sum(each.needs for each in constraints) + 1
    if maximum is not None and needs > maximum:
        raise HeedError(
            f"The constraints of this sentence need {needs:,} subwords, and the model writes at most {maximum:,}: "
            "shorten the prefix, or leave out terms."
        )
    raised = max(limit, needs + extra) if constraints else limit
    return raised if maximum is None else min(raised, maximum)


# ---- n-grams


@dataclass(frozen=True)
class NoRepeatedNGrams(Constraint):
    """No sequence of ``size`` pieces occurs twice (Paulus et al. 2018, §2.5)."""

    size: int
    pieces: tuple[int, ...] = ()
    """The translation so far."""

    def forbidden(self, room: int, vocab: int) -> Forbidden | None:
        last = len(self.pieces) - self.size + 1  # where the n-gram begins that the next piece ends
        starts = [place for place in range(last) if self.pieces[place : place + self.size - 1] == self.pieces[last:]]
        if not starts:
            return None
        mask = torch.zeros(vocab, dtype=torch.bool)
        mask[[self.pieces[place + self.size - 1] for place in starts]] = True
        return mask

    def after(self, piece: int) -> "NoRepeatedNGrams":
        return NoRepeatedNGrams(self.size, (*self.pieces, piece))


# ---- prefixes


class Vocabulary:
    """The pieces of a vocabulary as bytes, to compare them with text.

    Args:
        pieces: the bytes of each piece in UTF-8; empty for a piece without text, such as EOS.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces
        by_text: defaultdict[bytes, list[int]] = defaultdict(list)
        for piece, text in enumerate(pieces):
            by_text[text].append(piece)
        self._by_text = {text: by_text[text] for text in sorted(by_text) if text}
        self._sorted = list(self._by_text)
        self._longest = max(map(len, self._sorted), default=0)

    def longest(self, text: bytes) -> int | None:
        """Return the longest piece with which a text begins; None if there is none."""
        lengths = range(min(len(text), self._longest), 0, -1)
        return next((self._by_text[text[:length]][0] for length in lengths if text[:length] in self._by_text), None)

    def agreeing(self, text: bytes) -> Iterator[int]:
        """Yield the pieces that agree with the beginning of ``text`` as far as both go."""
        for length in range(1, min(len(text), self._longest) + 1):
            yield from self._by_text.get(text[:length], ())
        for longer in self._sorted[bisect_right(self._sorted, text) :]:
            if not longer.startswith(text):
                break
            yield from self._by_text[longer]


@dataclass(frozen=True)
class Prefix(Constraint):
    """The translation begins with a text. Its end may lie inside a piece, and any segmentation will do."""

    text: "PrefixText"
    start: int = 0
    """The number of bytes that are there."""

    @property
    def needs(self) -> int:
        return self.text.fewest[self.start]

    def forbidden(self, room: int, vocab: int) -> Forbidden:
        mask = torch.ones(vocab, dtype=torch.bool)
        mask[[piece for piece, needs in self.text.following[self.start] if needs <= room]] = False
        return mask

    def after(self, piece: int) -> "Prefix | None":
        end = self.start + len(self.text.vocabulary.pieces[piece])
        return Prefix(self.text, end) if end < len(self.text.text) else None


class PrefixText:
    """The text of a `Prefix`, in bytes as in its vocabulary, which can write it.

    If it ends with `WORD_START_BYTE`, its last word is complete: another one begins, or the translation ends.
    """

    def __init__(self, vocabulary: Vocabulary, text: bytes, unknown: Sequence[str] = ()) -> None:
        self.vocabulary, self.text = vocabulary, text
        self.unknown = unknown
        """The parts of the text that are unknown in the vocabulary, one for each UNK."""
        self.following: list[list[tuple[int, int]]] = [[] for _ in text]
        """For each place of the text, the pieces that may follow there, and how many more they need."""
        self.fewest = [0] * (len(text) + 1)
        """For each place of the text, the fewest pieces that complete it."""
        for start in reversed(range(len(text))):
            for piece in vocabulary.agreeing(text[start:]):
                end = min(start + len(vocabulary.pieces[piece]), len(text))
                self.following[start].append((piece, self.fewest[end]))
            if text[start:] == WORD_START_BYTE:
                self.following[start].append((EOS, -1))
                continue
            # No piece begins inside a character, unless it is a byte.
            self.fewest[start] = 1 + min((needs for _, needs in self.following[start]), default=IMPOSSIBLE)
