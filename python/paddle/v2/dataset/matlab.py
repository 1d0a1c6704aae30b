"""Whole numbers in MATLAB files of version 5, as labels of data sets come.

A file is 128 bytes of header and elements of `type, length, content`. An element may be compressed
and is then another; a matrix has elements for its flags, sides, name and numbers. Only plain
matrices of numbers are read, other elements are passed over.
"""

import struct
import zlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from paddle.v2.dataset.archive import damaged

HEADER_BYTES = 128
# Of a file, and of what it is unpacked to: far beyond any that is read here.
BYTES_MAX = 1 << 26

_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
# Classes of matrices: double, single and the whole numbers of 8 to 32 bits.
_PLAIN = range(6, 14)


def read(path: str, name: str) -> NDArray[np.int64]:
    """The matrix `name` of a file, as whole numbers."""
    with open(path, "rb") as file:
        data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX or data[126:128] not in (b"IM", b"MI"):
        raise damaged(path, "the file is no MATLAB file of version 5")
    order = "<" if data[126:128] == b"IM" else ">"
    try:
        for kind, content in _elements(data[HEADER_BYTES:], order):
            found = _matrix(content, order) if kind == _MATRIX else None
            if found is not None and found[0] == name:
                return found[1]
    except (struct.error, ValueError, KeyError, zlib.error) as error:
        raise damaged(path, f"cannot read the MATLAB file: {error}") from error
    raise damaged(path, f"the MATLAB file has no matrix {name}")


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from(f"{order}II", data, at)
        if kind >> 16:
            # Up to four bytes stand beside their length.
            kind, length, begin, step = kind & 0xFFFF, kind >> 16, at + 4, 8
        else:
            begin, step = at + 8, 8 + length
        content = data[begin : begin + length]
        if len(content) != length:
            raise ValueError("it ends too early")
        if kind == _COMPRESSED:
            unpacking = zlib.decompressobj()
            unpacked = unpacking.decompress(content, BYTES_MAX)
            if not unpacking.eof:
                raise ValueError("a compressed element is too long, or ends too early")
            yield from _elements(unpacked, order)
        else:
            yield kind, content
            # Elements begin at multiples of eight; only compressed ones do not.
            step += -step % 8
        at += step


def _matrix(content: bytes, order: str) -> tuple[str, NDArray[np.int64]] | None:
    parts = list(_elements(content, order))
    if len(parts) < 4:
        return None
    (_, flags), (_, sides), (_, name), (kind, numbers) = parts[:4]
    if flags[0 if order == "<" else 3] not in _PLAIN:
        return None
    shape = np.frombuffer(sides, dtype=f"{order}i4")
    values = np.frombuffer(numbers, dtype=f"{order}{_NUMBERS[kind]}")
    # Columns follow one another.
    return name.decode("ascii"), values.astype(np.int64).reshape(shape, order="F")
