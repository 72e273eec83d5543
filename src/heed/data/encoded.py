"""Id sequences of any number in flat memory: one long array and where each sentence starts."""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heed.data.cache import blocks, build_once, text_fingerprint
from heed.data.tokenizer import Tokenizer
from heed.errors import HeedError

if TYPE_CHECKING:
    from datasets import Dataset

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """Sequences of different lengths; sequence i is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Ids
    """All ids, one sequence after the other; may be memory-mapped."""
    offsets: Offsets
    """One more than there are sequences, from 0 to ``len(values)``."""

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> "Ragged":
        """The given sequences, in memory."""
        lengths = np.fromiter((len(sequence) for sequence in sequences), dtype=np.int64, count=len(sequences))
        values = np.fromiter((token for sequence in sequences for token in sequence), np.int32, count=lengths.sum())
        return cls(values, _offsets(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ids:
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Ids per sequence."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class EncodedSplit:
    """A split as ids, without BOS and EOS; pair i is ``src[i]``, ``tgt[i]``."""

    src: Ragged
    tgt: Ragged

    def __len__(self) -> int:
        return len(self.src)


def encode(
    dataset: "Dataset", tokenizer: Tokenizer, cache_dir: Path | str, *, both_directions: bool = False
) -> EncodedSplit:
    """Return the ids of a split, memory-mapped from a cache that is built once per text and tokenizer.

    One block of sentences is in memory at a time, and 8 bytes per sentence and side. With ``both_directions`` all pairs
    are followed by all of them the other way round.
    """
    text = text_fingerprint(dataset) + (" both directions" if both_directions else "")
    key = hashlib.blake2b(f"{text} {tokenizer.hash}".encode(), digest_size=8).hexdigest()

    def write(folder: Path) -> None:
        folder.mkdir()
        with (folder / "src.npy").open("wb+") as src_file, (folder / "tgt.npy").open("wb+") as tgt_file:
            offsets = _write(src_file, tgt_file, dataset, tokenizer, both_directions=both_directions)
        for side, values in zip(("src", "tgt"), offsets, strict=True):
            # Written to a file directly, np.save reports a full disk without its error number.
            buffer = io.BytesIO()
            np.save(buffer, values)
            (folder / f"{side}.offsets.npy").write_bytes(buffer.getbuffer())

    folder = build_once(Path(cache_dir) / "encoded" / key, write)
    with (folder / "src.npy").open("rb") as src_file, (folder / "tgt.npy").open("rb") as tgt_file:
        return EncodedSplit(
            Ragged(_mapped(src_file), np.load(folder / "src.offsets.npy")),
            Ragged(_mapped(tgt_file), np.load(folder / "tgt.offsets.npy")),
        )


def encode_once(
    dataset: "Dataset", tokenizer: Tokenizer, cache_dir: Path | str, *, both_directions: bool = False
) -> EncodedSplit:
    """Return what `encode` returns, for a tokenizer that samples its segmentations.

    The ids are on disk too, in files without a name, which are gone with the process however it ends.
    """
    parent = Path(cache_dir) / "encoded"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=parent) as src_file, TemporaryFile(dir=parent) as tgt_file:
            offsets = _write(src_file, tgt_file, dataset, tokenizer, both_directions=both_directions)
            return EncodedSplit(Ragged(_mapped(src_file), offsets[0]), Ragged(_mapped(tgt_file), offsets[1]))
    except OSError as error:
        raise HeedError(
            f"No temporary files can be written to {parent} ({error.strerror}), as tokenizer.sampling needs in every "
            "epoch: make room, or set cache_dir=DIR to another folder."
        ) from error


def _write(
    src_file: IO[bytes], tgt_file: IO[bytes], dataset: "Dataset", tokenizer: Tokenizer, *, both_directions: bool
) -> tuple[Offsets, Offsets]:
    """Write the ids of both sides as .npy files; return where the sentences start in them."""
    src_writer, tgt_writer = _Writer(src_file), _Writer(tgt_file)
    for src, tgt in blocks(dataset):
        src_writer.append(Ragged.of(tokenizer.encode_src(src)))
        tgt_writer.append(Ragged.of(tokenizer.encode_tgt(tgt)))
    if both_directions:
        other = tokenizer.reversed()
        for tgt, src in blocks(dataset):
            src_writer.append(Ragged.of(other.encode_src(src)))
            tgt_writer.append(Ragged.of(other.encode_tgt(tgt)))
    return src_writer.close(), tgt_writer.close()


def _mapped(file: IO[bytes]) -> Ids:
    """The array of an open .npy file, memory-mapped; the map outlives the file's name and this handle."""
    file.seek(0)
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    # A plain view of the memory map: np.memmap pays a microsecond of bookkeeping for every slice.
    return np.asarray(np.memmap(file, dtype, "r", offset=file.tell(), shape=shape))


class _Writer:
    """A .npy file of int32 that grows: NumPy pads the header so that its length can be corrected at the end."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.lengths: list[npt.NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
        self._header(0)

    def append(self, sequences: Ragged) -> None:
        self.file.write(sequences.values.tobytes())
        self.lengths.append(sequences.lengths)

    def close(self) -> Offsets:
        """Correct the header; return the offsets of what was written."""
        offsets = _offsets(np.concatenate(self.lengths))
        self.file.seek(0)
        self._header(int(offsets[-1]))
        self.file.flush()
        return offsets

    def _header(self, count: int) -> None:
        np.lib.format.write_array_header_1_0(self.file, {"descr": "<i4", "fortran_order": False, "shape": (count,)})


def _offsets(lengths: npt.NDArray[np.int64]) -> Offsets:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
