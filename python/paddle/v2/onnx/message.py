"""The few messages of `onnx.proto` that a network needs, as protocol buffers write them.

Numbers of fields are those of the public format; nothing here knows what a layer is.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

# The versions that are claimed: of the file, and of the operators.
IR_VERSION = 8
OPERATORS_VERSION = 17

# Of `TensorProto.DataType`.
FLOAT = 1
INT64 = 7
# Of `AttributeProto.AttributeType`.
_AS_FLOAT, _AS_INT, _AS_GRAPH, _AS_INTS = 1, 2, 5, 7

# Bytes are a graph.
Attribute = int | float | bytes | Sequence[int]


def model(graph_content: bytes, producer: str) -> bytes:
    """A whole file."""
    operators = _number(2, OPERATORS_VERSION)
    return (
        _number(1, IR_VERSION)
        + _text(2, producer)
        + _message(7, graph_content)
        + _message(8, operators)
    )


def graph(
    name: str,
    nodes: Iterable[bytes],
    tensors: Iterable[bytes],
    sides: tuple[Iterable[bytes], Iterable[bytes]],
) -> bytes:
    """Nodes in the order in which they run, constants, and what goes in and comes out."""
    parts = [_message(1, each) for each in nodes]
    parts.append(_text(2, name))
    parts += [_message(5, each) for each in tensors]
    parts += [_message(11, each) for each in sides[0]]
    parts += [_message(12, each) for each in sides[1]]
    return b"".join(parts)


def node(
    operator: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    attributes: Mapping[str, Attribute],
    name: str | None = None,
) -> bytes:
    """One operator; errors at run time show its name, which is its first output's if not given."""
    parts = [_text(1, each) for each in inputs]
    parts += [_text(2, each) for each in outputs]
    parts += [_text(3, outputs[0] if name is None else name), _text(4, operator)]
    parts += [_message(5, _attribute(each, value)) for each, value in attributes.items()]
    return b"".join(parts)


def tensor(name: str, values: NDArray[Any]) -> bytes:
    """A constant: float32 or int64."""
    kind = {"float32": FLOAT, "int64": INT64}[values.dtype.name]
    dims = b"".join(_number(1, side) for side in values.shape)
    # The format is little-endian, whatever the machine.
    content = values.astype(values.dtype.newbyteorder("<")).tobytes()
    return dims + _number(2, kind) + _text(8, name) + _message(9, content)


def value(name: str, kind: int, dims: Sequence[int | str]) -> bytes:
    """The name, type and shape of what goes in or comes out; a side that is a name is any."""
    sides = [_text(2, side) if isinstance(side, str) else _number(1, side) for side in dims]
    shape = b"".join(_message(1, side) for side in sides)
    return _text(1, name) + _message(2, _message(1, _number(1, kind) + _message(2, shape)))


def untyped(name: str) -> bytes:
    """The name of what goes into or comes out of a graph inside another, which knows the rest."""
    return _text(1, name)


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _AS_INT)
    if isinstance(value, float):
        number = _varint(2 << 3 | 5) + struct.pack("<f", value)
        return _text(1, name) + number + _number(20, _AS_FLOAT)
    if isinstance(value, bytes):
        return _text(1, name) + _message(6, value) + _number(20, _AS_GRAPH)
    numbers = b"".join(_number(8, each) for each in value)
    return _text(1, name) + numbers + _number(20, _AS_INTS)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode())


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    # Negative numbers are written as 64 bits.
    value &= (1 << 64) - 1
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    digits.append(value)
    return bytes(digits)
