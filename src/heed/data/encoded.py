"""Token ids of a split as flat, memory-mapped arrays with the offsets of the sentences."""

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
from heed.progress import Progress

if TYPE_CHECKING:
    from datasets import Dataset

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """A ragged array: sequence i is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Ids
    """The concatenated sequences; may be memory-mapped."""
    offsets: Offsets
    """Start of each sequence, and ``len(values)`` at the end: one entry more than there are sequences."""

    @classmethod
    def of(cls, sequences: Sequence[Sequence[int]]) -> "Ragged":
        """Return the given sequences as an array in memory."""
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
        """Length of each sequence."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class EncodedSplit:
    """Token ids of a split, without BOS and EOS; pair i is ``src[i]``, ``tgt[i]``."""

    src: Ragged
    tgt: Ragged

    def __len__(self) -> int:
        return len(self.src)


def encode(
    dataset: "Dataset", tokenizer: Tokenizer, cache_dir: Path | str, *, both_directions: bool = False
) -> EncodedSplit:
    """Return the token ids of a split, memory-mapped from a cache entry that is built once per text and tokenizer.

    Building needs memory for one block of sentences, and 8 bytes per sentence and side.

    Args:
        dataset: sentence pairs (columns "src" and "tgt").
        tokenizer: encodes both sides.
        cache_dir: folder of the cache.
        both_directions: append all pairs with source and target swapped.

    Raises:
        HeedError: if the cache entry cannot be written.
    """
    text = text_fingerprint(dataset) + (" both directions" if both_directions else "")
    key = hashlib.blake2b(f"{text} {tokenizer.hash}".encode(), digest_size=8).hexdigest()

    def write(folder: Path) -> None:
        folder.mkdir()
        with (folder / "src.npy").open("wb+") as src_file, (folder / "tgt.npy").open("wb+") as tgt_file:
            offsets = _write_ids(src_file, tgt_file, dataset, tokenizer, both_directions=both_directions)
        for side, values in zip(("src", "tgt"), offsets, strict=True):
            # Via memory: np.save to a file raises an OSError without errno when the disk is full.
            buffer = io.BytesIO()
            np.save(buffer, values)
            (folder / f"{side}.offsets.npy").write_bytes(buffer.getbuffer())

    folder = build_once(Path(cache_dir) / "encoded" / key, write)
    with (folder / "src.npy").open("rb") as src_file, (folder / "tgt.npy").open("rb") as tgt_file:
        return EncodedSplit(
            Ragged(_memory_map(src_file), np.load(folder / "src.offsets.npy")),
            Ragged(_memory_map(tgt_file), np.load(folder / "tgt.offsets.npy")),
        )


def encode_uncached(
    dataset: "Dataset", tokenizer: Tokenizer, cache_dir: Path | str, *, both_directions: bool = False
) -> EncodedSplit:
    """Return the token ids of a split, like `encode`, for a tokenizer that samples its segmentations.

    The ids are memory-mapped from unnamed temporary files, which the operating system deletes when the process ends.

    Raises:
        HeedError: if the temporary files cannot be written.
    """
    parent = Path(cache_dir) / "encoded"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=parent) as src_file, TemporaryFile(dir=parent) as tgt_file:
            offsets = _write_ids(src_file, tgt_file, dataset, tokenizer, both_directions=both_directions)
            return EncodedSplit(Ragged(_memory_map(src_file), offsets[0]), Ragged(_memory_map(tgt_file), offsets[1]))
    except OSError as error:
        raise HeedError(
            f"Cannot write the temporary files to {parent} ({error.strerror}) that tokenizer.sampling needs in every "
            "epoch: free some space, or set cache_dir=DIR to another folder."
        ) from error


def _write_ids(
    src_file: IO[bytes], tgt_file: IO[bytes], dataset: "Dataset", tokenizer: Tokenizer, *, both_directions: bool
) -> tuple[Offsets, Offsets]:
    """Write the ids of both sides as .npy files and return the offsets of the sentences in them."""
    src_writer, tgt_writer = _NpyWriter(src_file), _NpyWriter(tgt_file)
    with Progress("Encoding", total=len(dataset) * (1 + both_directions), unit="pairs") as bar:
        for src, tgt in blocks(dataset):
            src_writer.append(Ragged.of(tokenizer.encode_src(src)))
            tgt_writer.append(Ragged.of(tokenizer.encode_tgt(tgt)))
            bar.update(len(src))
        if both_directions:
            reverse = tokenizer.reversed()
            for tgt, src in blocks(dataset):
                src_writer.append(Ragged.of(reverse.encode_src(src)))
                tgt_writer.append(Ragged.of(reverse.encode_tgt(tgt)))
                bar.update(len(src))
    return src_writer.close(), tgt_writer.close()


def _memory_map(file: IO[bytes]) -> Ids:
    """Return the memory-mapped array of an open .npy file; it stays valid after the file is closed or unlinked."""
    file.seek(0)
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    # A plain array view, because slicing an np.memmap is slower.
    return np.asarray(np.memmap(file, dtype, "r", offset=file.tell(), shape=shape))


class _NpyWriter:
    """Writes an int32 .npy file in blocks. NumPy pads the header, so the length can be filled in at the end."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.lengths: list[npt.NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
        self._write_header(0)

    def append(self, sequences: Ragged) -> None:
        """Write more sequences."""
        self.file.write(sequences.values.tobytes())
        self.lengths.append(sequences.lengths)

    def close(self) -> Offsets:
        """Write the final length into the header and return the offsets of the sequences."""
        offsets = _offsets(np.concatenate(self.lengths))
        self.file.seek(0)
        self._write_header(int(offsets[-1]))
        self.file.flush()
        return offsets

    def _write_header(self, count: int) -> None:
        np.lib.format.write_array_header_1_0(self.file, {"descr": "<i4", "fortran_order": False, "shape": (count,)})


def _offsets(lengths: npt.NDArray[np.int64]) -> Offsets:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
