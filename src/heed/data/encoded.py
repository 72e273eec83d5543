"""Id sequences of any number in flat memory: one long array and where each sentence starts."""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from heed.data.cache import blocks, build_once, text_fingerprint
from heed.data.tokenizer import Tokenizer

if TYPE_CHECKING:
    from datasets import Dataset

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Ragged:
    """Sequences of different lengths; sequence i is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Ids
    """All ids, one sequence after the other; may be memory-mapped."""
    offsets: npt.NDArray[np.int64]
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
    """The ids of a split, memory-mapped from a cache that is built once per text and tokenizer.

    One block of sentences is in memory at a time, and 8 bytes per sentence and side. With ``both_directions`` all pairs
    are followed by all of them the other way round.
    """
    text = text_fingerprint(dataset) + (" both directions" if both_directions else "")
    key = hashlib.blake2b(f"{text} {tokenizer.hash}".encode(), digest_size=8).hexdigest()

    def write(folder: Path) -> None:
        folder.mkdir()
        _write(folder, dataset, tokenizer, both_directions=both_directions)

    return _load(build_once(Path(cache_dir) / "encoded" / key, write))


def encode_once(
    dataset: "Dataset", tokenizer: Tokenizer, cache_dir: Path | str, *, both_directions: bool = False
) -> EncodedSplit:
    """What `encode` gives, for a tokenizer that draws its segmentations: on disk too, but gone with the process."""
    parent = Path(cache_dir) / "encoded"
    parent.mkdir(parents=True, exist_ok=True)
    # A memory map outlives the name of its file.
    with TemporaryDirectory(dir=parent, prefix="drawn-", ignore_cleanup_errors=True) as folder:
        _write(Path(folder), dataset, tokenizer, both_directions=both_directions)
        return _load(Path(folder))


def _write(folder: Path, dataset: "Dataset", tokenizer: Tokenizer, *, both_directions: bool) -> None:
    with (folder / "src.npy").open("wb+") as src_file, (folder / "tgt.npy").open("wb+") as tgt_file:
        src_writer, tgt_writer = _Writer(src_file), _Writer(tgt_file)
        for src, tgt in blocks(dataset):
            src_writer.append(Ragged.of(tokenizer.encode_src(src)))
            tgt_writer.append(Ragged.of(tokenizer.encode_tgt(tgt)))
        if both_directions:
            other = tokenizer.reversed()
            for tgt, src in blocks(dataset):
                src_writer.append(Ragged.of(other.encode_src(src)))
                tgt_writer.append(Ragged.of(other.encode_tgt(tgt)))
        for writer, side in ((src_writer, "src"), (tgt_writer, "tgt")):
            np.save(folder / f"{side}.offsets.npy", writer.close())


def _load(folder: Path) -> EncodedSplit:
    def side(name: str) -> Ragged:
        # A plain view of the memory map: np.memmap pays a microsecond of bookkeeping for every slice.
        values = np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))
        return Ragged(values, np.load(folder / f"{name}.offsets.npy"))

    return EncodedSplit(side("src"), side("tgt"))


class _Writer:
    """A .npy file of int32 that grows: NumPy pads the header so that its length can be corrected at the end."""

    def __init__(self, file: io.BufferedRandom) -> None:
        self.file = file
        self.lengths: list[npt.NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
        self._header(0)

    def append(self, sequences: Ragged) -> None:
        self.file.write(sequences.values.tobytes())
        self.lengths.append(sequences.lengths)

    def close(self) -> npt.NDArray[np.int64]:
        """Correct the header; the offsets of what was written."""
        offsets = _offsets(np.concatenate(self.lengths))
        self.file.seek(0)
        self._header(int(offsets[-1]))
        return offsets

    def _header(self, count: int) -> None:
        np.lib.format.write_array_header_1_0(self.file, {"descr": "<i4", "fortran_order": False, "shape": (count,)})


def _offsets(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
