"""The results of a `Translator`: translations and attention maps, and files of attention maps."""

import zipfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from heed.evaluation.alignment import Link
from heed.files import replacing
from heed.plot import attention
from heed.plot.attention_map import MapSet, draw_map, most_informative_head
from heed.plot.fonts import save_figure
from heed.symbols import BOS_PIECE

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
