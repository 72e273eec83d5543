"""Write attention maps as NumPy arrays."""

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from heed.files import replacing
from heed.inference.outputs import Attended


@contextmanager
def attention_archive(path: Path, *, compress: bool) -> Iterator[Callable[[str, Attended], None]]:
    """Create an .npz file; yield a function ``add(name, pair)`` that writes the maps of one sentence pair to it.

    The arrays of a pair are ``NAME.src`` and ``NAME.tgt`` (pieces), and those of ``NAME.cross``, ``NAME.encoder_self``
    and ``NAME.decoder_self`` that the model has. Unlike with `numpy.savez`, only one pair is in memory at a time.
    """
    compression = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with replacing(path, into_devices=True) as file, zipfile.ZipFile(file, "w", compression) as archive:

        def add(name: str, pair: Attended) -> None:
            arrays: dict[str, Any] = {
                "src": np.array(pair.src_pieces),
                "tgt": np.array(pair.tgt_pieces),
                "cross": pair.cross,
                "encoder_self": pair.encoder_self,
                "decoder_self": pair.decoder_self,
            }
            for kind, array in arrays.items():
                if array is not None:
                    with archive.open(f"{name}.{kind}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)

        yield add
