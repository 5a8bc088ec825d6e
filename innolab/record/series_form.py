"""Whether a series has the form in which series are written, asked of its footer before it is read.

Parquet packs well: 59 KB may hold 5 GB. A footer says what is in each column; a file that has more
in it than its footer says ends the process that reads it (`innolab.base.memory`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData

# Three weeks of trials at a sample a second, as 400 MB in memory.
_MOST_VALUES = 50_000_000
# A series has 23 columns, and a group of rows is a million of them.
_MOST_COLUMNS, _MOST_GROUPS = 200, 64
# That of 23 columns has 13 KB.
_MOST_FOOTER_BYTES = 1024**2
# A number has eight bytes, and its place in a dictionary four; and the heads of pages.
_VALUE_BYTES, _PAGE_BYTES = 16, 64 * 1024
_NUMBERS = {"DOUBLE", "INT64"}
_COMPRESSIONS = {"SNAPPY", "UNCOMPRESSED"}
_NOTES = {b"ARROW:schema", b"pandas"}
_MAGIC = b"PAR1"
_TAIL_BYTES = 8


def fault(series: Path) -> str | None:
    """Return why a series is not read at all, or None."""
    import pyarrow
    from pyarrow import parquet

    with series.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _TAIL_BYTES))
        tail = file.read()
    footer = int.from_bytes(tail[:4], "little")
    if not tail.endswith(_MAGIC) or footer > min(_MOST_FOOTER_BYTES, size):
        return "it cannot be read: it has no footer of a series"
    try:
        found = parquet.read_metadata(series)
    except (pyarrow.ArrowException, OSError) as error:
        return f"it cannot be read ({' '.join(str(error).split())[:200]})"
    return next(_faults(found, size - footer - _TAIL_BYTES), None)


def _faults(found: "FileMetaData", data_bytes: int) -> Iterator[str]:
    columns, groups = found.num_columns, found.num_row_groups
    if not 0 < columns <= _MOST_COLUMNS or groups > _MOST_GROUPS:
        yield (
            f"it has {columns:,} columns in {groups:,} groups, and a series has up to "
            f"{_MOST_COLUMNS} in {_MOST_GROUPS}"
        )
        return
    if (values := found.num_rows * columns) > _MOST_VALUES:
        yield f"it has {values:,} values, and {_MOST_VALUES:,} are the most that a report has"
    if strange := [name for name in found.metadata or {} if name not in _NOTES]:
        yield f"it has a note {strange[0][:40]!r}, which no series has"
    for number in range(columns):
        column = found.schema.column(number)
        if column.physical_type not in _NUMBERS or column.max_repetition_level:
            yield f"its column {column.name[:40]!r} holds other things than numbers"
    yield from _chunk_faults(found, data_bytes)


def _chunk_faults(found: "FileMetaData", data_bytes: int) -> Iterator[str]:
    """Yield columns that hold more than their values, and bytes that belong to no column."""
    at, rows = len(_MAGIC), 0
    for group in map(found.row_group, range(found.num_row_groups)):
        rows += group.num_rows
        for chunk in map(group.column, range(group.num_columns)):
            most = _VALUE_BYTES * group.num_rows + _PAGE_BYTES
            if chunk.num_values != group.num_rows or chunk.total_uncompressed_size > most:
                yield (
                    f"its column {chunk.path_in_schema[:40]!r} has {chunk.num_values:,} values in "
                    f"{chunk.total_uncompressed_size:,} bytes, for {group.num_rows:,} rows"
                )
            if chunk.compression not in _COMPRESSIONS:
                yield f"it is packed by {chunk.compression}, as no series is"
            begin = chunk.data_page_offset
            if chunk.has_dictionary_page:
                begin = min(begin, chunk.dictionary_page_offset)
            if begin != at:
                yield "it has bytes that belong to no column"
            at += chunk.total_compressed_size
    if rows != found.num_rows:
        yield f"its groups have {rows:,} rows, and its footer {found.num_rows:,}"
    if at != data_bytes:
        yield "it has bytes that belong to no column"
