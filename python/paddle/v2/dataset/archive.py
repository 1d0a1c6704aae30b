"""Reading what lies in archives, as it streams by: nothing is unpacked to the disk.

An archive comes from outside. Members are found by name and read, links and devices are not
followed, and one that is not what it claims to be is an error with the archive's name.
"""

import contextlib
import gzip
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

from paddle import errors

# The largest member that is held in memory as a whole: far beyond any of the data sets here.
MEMBER_BYTES_MAX = 1 << 30

_DAMAGES = (tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError)


def tar_files(path: str, wanted: Callable[[str], Any]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the files of a tar whose name is wanted, in their order."""
    with reading(path):
        for name, content in _members(path, wanted):
            yield name, whole(content, path, name)


def tar_lines(path: str, name: str) -> Iterator[bytes]:
    """The lines of the files of a tar whose path ends in `name`; there must be one."""
    is_missing = True
    with reading(path):
        for _, content in _members(path, lambda each: f"/{each}".endswith(f"/{name}")):
            is_missing = False
            yield from content
    if is_missing:
        raise missing(path, name)


def zip_lines(path: str, name: str) -> Iterator[bytes]:
    """The lines of one file of a zip."""
    with reading(path), zipfile.ZipFile(path) as archive:
        if name not in archive.namelist():
            raise missing(path, name)
        with archive.open(name) as content:
            yield from content


def zip_files(path: str, wanted: Callable[[str], Any]) -> Iterator[tuple[str, bytes]]:
    """Name and content of the files of a zip whose name is wanted, in their order."""
    with reading(path), zipfile.ZipFile(path) as archive:
        for name in filter(wanted, archive.namelist()):
            with archive.open(name) as content:
                yield name, whole(content, path, name)


def whole(content: IO[bytes] | gzip.GzipFile, path: str, name: str) -> bytes:
    """All of a file of an archive."""
    data = content.read(MEMBER_BYTES_MAX + 1)
    if len(data) > MEMBER_BYTES_MAX:
        raise errors.LimitExceededError(
            f"a file of the archive is larger than {MEMBER_BYTES_MAX} bytes "
            f"(archive: {path}, file: {name})"
        )
    return data


def missing(path: str, name: str) -> errors.DamagedError:
    """The exception for an archive without a file that it should have."""
    return damaged(path, f"the archive has no file {name}")


def damaged(path: str, what: str) -> errors.DamagedError:
    """The exception for a file that is not what its name says."""
    return errors.DamagedError(f"{what}; fetch the file again (file: {path})")


@contextlib.contextmanager
def reading(path: str) -> Iterator[None]:
    """Makes the exceptions of archives say which file is damaged."""
    try:
        yield
    except _DAMAGES as error:
        what = f"cannot read {os.path.basename(path)}: {error or 'it ends too early'}"
        raise damaged(path, what) from error


def words(line: bytes) -> list[str]:
    """The words of a line.

    They are split as bytes are, at ASCII's white space: to a text, a no-break space is white, too,
    and the corpora have words with one.
    """
    return [decode(word) for word in line.split()]


def decode(data: bytes) -> str:
    """The text of bytes in UTF-8; what is something else stays apart from all other."""
    return data.decode("utf-8", "surrogateescape")


def _members(path: str, wanted: Callable[[str], Any]) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(path) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isfile() and wanted(name):
                # What is a file has content.
                yield name, cast(IO[bytes], archive.extractfile(member))
