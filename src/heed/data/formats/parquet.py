"""Parquet files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from heed.data.formats.fields import RecordFile, read_records
from heed.data.formats.files import find_compression
from heed.data.text import BLOCK, Advance, Block, Part
from heed.errors import HeedError


@dataclass(frozen=True)
class ParquetFile(RecordFile):
    """A parquet file. Each of its row groups is a part."""

    def parts(self) -> Sequence[Part]:
        find_compression(self.file)
        first, parts = 0, []
        with self._open() as table:
            for number in range(table.num_row_groups):
                group = table.metadata.row_group(number)
                name = f"{self.file} from row {first + 1:,}" if first else str(self.file)
                parts.append(Part(name, group.total_byte_size, partial(self._read, number, first)))
                first += group.num_rows
        return parts or [Part(str(self.file), 0, _read_nothing)]

    def _read(self, group: int, first: int, advance: Advance) -> Iterator[Block]:
        with self._open() as table:
            roots = {name.split(".")[0] for name in self.fields.names}
            columns = [name for name in table.schema_arrow.names if name in roots]
            batches = table.iter_batches(BLOCK, row_groups=[group], columns=columns)
            rows = enumerate((row for batch in batches for row in batch.to_pylist()), first + 1)
            yield from read_records(rows, self.fields.values, self.fields, where=f"{self.file}, row")
            advance(table.metadata.row_group(group).total_byte_size)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        """Yield the open file, and turn the errors of Arrow, which has several classes, into a HeedError."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            # An open file, because Arrow opens only UTF-8 paths. Checksums are verified if the file contains them.
            with self.file.open("rb") as stream, pq.ParquetFile(stream, page_checksum_verification=True) as table:
                yield table
        except HeedError:
            raise
        except (pa.ArrowException, OSError, ValueError, NotImplementedError, TypeError, MemoryError) as error:
            reason = " ".join(str(error).split())
            raise HeedError(f"{self.file} cannot be read as parquet: {reason} (a damaged file?).") from error


def _read_nothing(_: Advance) -> Iterator[Block]:
    return iter(())
