"""Parquet files."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from heed.data.text.formats.fields import RecordFile
from heed.data.text.source import BLOCK, Advance, Block
from heed.errors import HeedError


@dataclass(frozen=True)
class ParquetFile(RecordFile):
    """A parquet file."""

    def blocks(self, advance: Advance) -> Iterator[Block]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            # Arrow opens only UTF-8 paths, so Python opens the file. Checksums are verified if the file has them.
            with self.file.open("rb") as stream, pq.ParquetFile(stream, page_checksum_verification=True) as table:
                yield from self.read_records("row", self._rows(table, advance), self.fields.values)
        except HeedError:
            raise
        except (pa.ArrowException, OSError, ValueError, NotImplementedError, TypeError, MemoryError) as error:
            reason = " ".join(str(error).split())
            raise HeedError(f"{self.file} cannot be read as parquet: {reason} (a damaged file?).") from error

    def _rows(self, table: Any, advance: Advance) -> Iterator[tuple[int, Any]]:
        roots = {name.split(".")[0] for name in self.fields.names}
        # With a wrong name, all columns are read, so that the message names them.
        columns = sorted(roots) if roots <= {*table.schema_arrow.names} else None
        size, rows, done = self.size, table.metadata.num_rows, 0
        for batch in table.iter_batches(BLOCK, columns=columns):
            yield from enumerate(batch.to_pylist(), done + 1)
            advance(size * (done + len(batch)) // rows - size * done // rows)
            done += len(batch)
