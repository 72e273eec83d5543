"""The results of a `Translator`: translations and attention maps; words aligned by maps, and files of maps."""

import zipfile
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import escape
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float

from heed.errors import HeedError, argument
from heed.evaluation.alignment import MAP_ROWS, Extraction, Link, candidate_maps
from heed.evaluation.words import AttentionMap, piece_bytes, split_words
from heed.files import replacing
from heed.plot import attention
from heed.plot.attention_map import MapSet, draw_map, most_informative_head
from heed.plot.fonts import save_figure
from heed.symbols import BOS_PIECE, EOS_PIECE, WORD_START

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class Attended:
    """A sentence pair with the model's attention weights over its pieces, without padding.

    Each row of a map is a distribution over its columns; with ``reach=local_p``, a distribution times Luong's Gaussian,
    which sums to at most 1. Both piece lists end with EOS, unless the translation was cut at the length limit of the
    search.
    """

    source: str
    target: str
    src_pieces: list[str]
    tgt_pieces: list[str]
    cross: Float[np.ndarray, "Ld H T S"] | None
    """Cross-attention. Row t belongs to the decoder state that predicts ``tgt_pieces[t]``."""
    encoder_self: Float[np.ndarray, "Le Hs S S"] | None
    """Encoder self-attention. Rows and columns are ``src_pieces``."""
    decoder_self: Float[np.ndarray, "Ld Hs T T"] | None
    """Decoder self-attention. Rows and columns are `read_pieces`. Row t predicts ``tgt_pieces[t]``."""
    tgt_ids: Sequence[int] = ()
    """The token ids of ``tgt_pieces``; empty if no translator made the pair."""

    def __repr__(self) -> str:
        shapes = ", ".join(f"{maps.kind} {' × '.join(map(str, maps.weights.shape))}" for maps in self.map_sets)
        return f"<Attended {self.source!r} → {self.target!r}: {shapes or 'no maps'}>"

    def _repr_html_(self) -> str | None:
        """Return the most informative map of the first kind of attention as a picture, for notebooks."""
        if not self.map_sets:
            return None
        maps, file = self.map_sets[0], BytesIO()
        figure = draw_map(maps, *most_informative_head(maps.weights), heading=[self.source, self.target])
        save_figure(figure, file)
        data = b64encode(file.getvalue()).decode()
        return f'<img alt="{escape(repr(self))}" style="zoom: 0.5" src="data:image/png;base64,{data}">'

    @property
    def read_pieces(self) -> list[str]:
        """The decoder's input: BOS, then the target without its last piece."""
        return [BOS_PIECE, *self.tgt_pieces[:-1]]

    @property
    def map_sets(self) -> list[MapSet]:
        """The maps of each kind of attention in the model, with the pieces of their axes."""
        kinds = (
            ("cross", self.cross, self.tgt_pieces, self.src_pieces),
            ("encoder_self", self.encoder_self, self.src_pieces, self.src_pieces),
            ("decoder_self", self.decoder_self, self.read_pieces, self.read_pieces),
        )
        return [MapSet(kind, weights, rows, columns) for kind, weights, rows, columns in kinds if weights is not None]

    def plot(self, **options: Any) -> "Axes":
        """Draw one map on matplotlib axes, see `heed.plot.attention` for the options."""
        return attention(self, **options)


@dataclass(frozen=True)
class Translation:
    """A translation with its scores and, on request, its alignment."""

    text: str
    score: float
    """The value by which the search ranks; larger is better."""
    log_prob: float
    """log p(text | source) in nats, summed over subwords and end of sentence."""
    finished: bool
    """Whether the model ended the sentence, instead of the search's length limit."""
    symptoms: tuple[str, ...] = ()
    """Which of `TRANSLATION_SYMPTOMS` it shows."""
    alignment: list[Link] | None = None
    """Links (source word, target word), as by `Translator.align`; None unless ``alignments=True``."""
    pieces: tuple[tuple[str, float], ...] = ()
    """The subwords and log p of each, with EOS if finished; "▁" starts a word. Empty for a copied line, and with an
    engine that does not say."""
    parts: int = 1
    """How many texts were translated singly, because the line was cut at protected text that the model cannot copy."""

    @property
    def words(self) -> list[tuple[str, float]]:
        """The words, and log p of each: the sum over its subwords, with those of the spaces before it.

        With EOS they sum to ``log_prob``. `Translator.score_words` gives the probability of whole words instead.
        """
        return join_words(self.pieces)


def join_words(pieces: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the words, and the sum over the pieces of each, with those of the spaces before it. EOS is no word."""
    found: list[tuple[bytes, float]] = [(b"", 0.0)]
    for piece, log_prob in pieces:
        if piece.startswith(WORD_START) and found[-1][0]:
            found.append((b"", 0.0))
        if piece != EOS_PIECE:
            text, total = found.pop()
            found.append((text + piece_bytes(piece), total + log_prob))
    if len(found) > 1 and not found[-1][0]:
        (text, total), (_, spaces) = found[-2:]
        found[-2:] = [(text, total + spaces)]
    return [(text.decode(errors="replace"), log_prob) for text, log_prob in found if text]


def join_translations(parts: Sequence[str], targets: Sequence[str], translations: Sequence[Translation]) -> Translation:
    """Join the translations of the parts of a line. Scores are summed; alignments use word positions in the line.

    Args:
        parts, targets: the parts and what stands for them in the translation. Their concatenations are the lines.
    """
    alignment: list[Link] | None = None
    if all(translation.alignment is not None for translation in translations):
        first_words = zip(_first_words(parts), _first_words(targets), translations, strict=True)
        alignment = sorted(
            {(src + i, tgt + j) for src, tgt, translation in first_words for i, j in translation.alignment or ()}
        )
    return replace(
        translations[0],
        text="".join(targets),
        score=sum(translation.score for translation in translations),
        log_prob=sum(translation.log_prob for translation in translations),
        finished=all(translation.finished for translation in translations),
        symptoms=tuple(dict.fromkeys(chain.from_iterable(each.symptoms for each in translations))),
        alignment=alignment,
        pieces=tuple(chain.from_iterable(each.pieces for each in translations)),
    )


def _first_words(parts: Sequence[str]) -> list[int]:
    """Return the index of each part's first word in the concatenation of the parts."""
    starts, prefix = [], ""
    for part in parts:
        # Without a space in between, the last word before the part and its first word are one word.
        is_joined = prefix[-1:].strip(" \t") and part[:1].strip(" \t")
        starts.append(len(split_words(prefix)) - bool(is_joined))
        prefix += part
    return starts


def word_maps(pair: Attended) -> AttentionMap:
    """Return every cross-attention map over words that an `Extraction` can select: "2 L H T S".

    Words are separated by white space. Raise a HeedError if the model has no cross-attention.
    """
    words = split_words(pair.source), split_words(pair.target)
    return candidate_maps(_cross_attention(pair), pair.src_pieces, pair.tgt_pieces, *words)


def choose_extraction(
    saved: Mapping[str, Any] | None,
    pair: Attended,
    *,
    layer: int | None = None,
    head: int | None = None,
    row: Literal["output", "input"] | None = None,
) -> Extraction:
    """Return the attention map to read alignments from.

    Args:
        saved: the ``alignment`` section of a model folder's config: the map chosen on validation data. None: the mean
            over heads of the second last layer, output row (Garg et al. 2019).
        pair: attention maps of the model for any sentence pair.
        layer, head, row: override the saved map, see `Translator.align`.

    Raises:
        HeedError: if the model has no such layer, head or row, or no cross-attention.
    """
    layers, heads = _cross_attention(pair).shape[:2]
    chosen = Extraction(**saved or {"layer": max(1, layers - 1), "head": None, "row": "output"})
    if layer is not None and layer != chosen.layer:
        chosen = replace(chosen, layer=layer, head=None)  # the saved head belongs to the saved layer
    if head is not None:
        chosen = replace(chosen, head=head or None)
    if row is not None:
        chosen = replace(chosen, row=row)
    if chosen.row not in MAP_ROWS:
        raise HeedError(f"{argument('row', row)} is unknown: choose output or input.")
    if not (1 <= chosen.layer <= layers and 1 <= (chosen.head or 1) <= heads):
        raise HeedError(
            f"{argument('layer', chosen.layer)} {argument('head', chosen.head or 0)}: this model's decoder has layers "
            f"1 to {layers} with heads 1 to {heads}. Choose one of these, or correct the alignment section of its "
            "config.yaml."
        )
    return chosen


def _cross_attention(pair: Attended) -> np.ndarray:
    if pair.cross is None:
        raise HeedError("This model has no cross-attention, so it gives no alignments.")
    return pair.cross


@contextmanager
def attention_archive(path: Path, *, compress: bool) -> Iterator[Callable[[str, Attended], None]]:
    """Create an .npz file; yield a function ``add(name, pair)`` that writes the maps of one sentence pair to it.

    The arrays of a pair are ``NAME.src`` and ``NAME.tgt`` (pieces), and ``NAME.cross``, ``NAME.encoder_self`` and
    ``NAME.decoder_self`` if the model has them. Unlike with `numpy.savez`, only one pair is in memory at a time.
    """
    compression = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with replacing(path, into_devices=True) as file, zipfile.ZipFile(file, "w", compression) as archive:

        def add(name: str, pair: Attended) -> None:
            arrays: dict[str, Any] = {"src": np.array(pair.src_pieces), "tgt": np.array(pair.tgt_pieces)}
            arrays |= {maps.kind: maps.weights for maps in pair.map_sets}
            for kind, array in arrays.items():
                with archive.open(f"{name}.{kind}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)

        yield add
