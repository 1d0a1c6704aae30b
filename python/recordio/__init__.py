"""RecordIO files: rows of records, checksummed and compressed in chunks.

    with recordio.writer("data.recordio") as w:
        w.write(b"hello")

    for record in recordio.reader("data.recordio"):
        print(record)

`reader` takes a path, a glob, several of them with commas between, or a list of these. Damage is an
exception (`paddle.errors.DamagedError`), never an early end. A file appears under its name when its
writer is closed, complete.
"""

import os
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from paddle import _native
from paddle._native import Index

Path: TypeAlias = str | os.PathLike[str]

__all__ = ["Index", "Scanner", "Writer", "reader", "writer"]

# One chunk is decoded ahead while the program works on the current one.
_PREFETCH_CHUNKS = 1


def writer(
    path: Path,
    compressor: str = "snappy",
    layout: str = "go",
    chunk_bytes: int | None = None,
    threads: int = 0,
) -> _native.Writer:
    """Opens a file for writing; use it in a `with` block, or call `close()`.

    path:        the file; it is replaced, at once and whole, when the writer is closed.
    compressor:  "snappy", "none", "gzip" or "zstd" (which only this implementation reads).
    layout:      "go", or "fluid" for the field order of Fluid.
    chunk_bytes: record bytes per chunk, 32 MiB by default.
    threads:     compress chunks on this many threads.

    `write(record)` takes bytes (NULs survive) or str, stored as UTF-8. Leaving the `with` block by
    an exception discards the file.
    """
    return _native.Writer(os.fspath(path), compressor, layout, chunk_bytes, threads)


Writer = writer


def reader(
    paths: Path | Sequence[Path],
    start: int = 0,
    count: int | None = None,
    prefetch: int = _PREFETCH_CHUNKS,
    chunk_bytes_max: int | None = None,
) -> _native.Reader:
    """Opens files for reading, as one: iterate, or call `read()` until it returns None.

    paths:           a path or glob, several with commas between, or a list of these.
    start, count:    only these records, counted over all files.
    prefetch:        chunks that another thread reads ahead; 0 for none.
    chunk_bytes_max: refuse chunks larger than this when uncompressed, 1 GiB by default.

    `read()` returns bytes, `b""` for an empty record and None at the end. `len()` counts the
    records from the chunk headers, `seek(n)` continues at record n.
    """
    patterns = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    return _native.Reader(
        [os.fspath(pattern) for pattern in patterns], start, count, prefetch, chunk_bytes_max
    )


class Scanner:
    """Records `start` to `start + len` of files; negative numbers mean from 0 and to the end."""

    def __init__(
        self,
        path: Path | Sequence[Path],
        start: int = 0,
        len: int = -1,
        index: Index | None = None,
    ) -> None:
        # `index` is what the original needed to find the range; headers tell us.
        self._reader = reader(path, max(start, 0), len if len >= 0 else None)

    def record(self) -> bytes | None:
        """The next record as bytes, None at the end."""
        return self._reader.read()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._reader)

    def __len__(self) -> int:
        return self._reader.__len__()

    def close(self) -> None:
        """Lets go of the files."""
        self._reader.close()
