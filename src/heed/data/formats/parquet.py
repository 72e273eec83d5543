"""Parquet files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heed.data.formats.fields import BlockBuilder, Fields, explain
from heed.data.formats.identity import file_identity
from heed.data.text import BLOCK, Advance, Block, Part
from heed.errors import HeedError, first_line


@dataclass(frozen=True)
class ParquetFile:
    """A parquet file."""

    file: Path
    fields: Fields

    def identity(self) -> tuple[Any, ...]:
        return "parquet", file_identity(self.file), self.fields

    def parts(self) -> Sequence[Part]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        file_identity(self.file)
        try:
            # An open file, because Arrow opens only UTF-8 paths.
            with self.file.open("rb") as stream, pq.ParquetFile(stream) as table:
                groups = [table.metadata.row_group(number) for number in range(table.num_row_groups)]
                sizes = [(group.num_rows, group.total_byte_size) for group in groups]
        except (pa.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
            raise HeedError(f"{self.file} cannot be read as parquet: {first_line(error)} (a damaged file?).") from error
        first, parts = 0, []
        for number, (rows, size) in enumerate(sizes):
            parts.append(ParquetPart(self.file, self.fields, [number], first, size))
            first += rows
        return parts or [ParquetPart(self.file, self.fields, [], 0, 0)]


@dataclass(frozen=True)
class ParquetPart:
    """A row group of a parquet file, or an empty file.

    Args:
        groups: its number.
        first: rows before it.
        size: bytes.
    """

    file: Path
    fields: Fields
    groups: Sequence[int]
    first: int
    size: int

    @property
    def name(self) -> str:
        return f"{self.file} from row {self.first + 1:,}" if self.first else str(self.file)

    def read(self, advance: Advance) -> Iterator[Block]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        number = self.first
        try:
            # Checksums are verified if the file contains them.
            with self.file.open("rb") as stream, pq.ParquetFile(stream, page_checksum_verification=True) as table:
                roots = {name.split(".")[0] for name in self.fields.names}
                columns = [name for name in table.schema_arrow.names if name in roots]
                for batch in table.iter_batches(BLOCK, row_groups=self.groups, columns=columns):
                    block = BlockBuilder(self.fields)
                    for record in batch.to_pylist():
                        number += 1
                        block.add(record)
                    yield block.block()
        except KeyError as error:  # from the fields; Arrow raises several other classes
            raise HeedError(f"{self.file}, row {number:,}: {explain(error)}") from error
        except (pa.ArrowException, OSError, ValueError, NotImplementedError, TypeError, MemoryError) as error:
            raise HeedError(
                f"{self.file} cannot be read as parquet: {explain(error)} (a damaged file? Rows read so far: "
                f"{number:,})."
            ) from error
        advance(self.size)
