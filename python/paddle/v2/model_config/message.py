"""A protocol buffer of the schema: attributes to look at, a text by `str`, bytes for the wire."""

import json
import struct
from typing import Any

from paddle.v2.model_config.schema import SCHEMA

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5


class Message:
    """A message of one kind, with the fields that were given; None stands for no value.

    A field that has none is absent from text and bytes; as an attribute it is None, or an empty
    list where there can be several.
    """

    def __init__(self, kind: str, **values: Any) -> None:
        self._kind = kind
        self._values: dict[str, Any] = {}
        for name, value in values.items():
            self.set(name, value)

    def set(self, name: str, value: Any) -> None:
        """Sets a field, or leaves it out if the value is None."""
        _, type = SCHEMA[self._kind][name]
        if value is not None:
            self._values[name] = list(value) if type.endswith("*") else value

    def HasField(self, name: str) -> bool:  # noqa: N802
        """Whether a field has a value."""
        return name in self._values

    def SerializeToString(self) -> bytes:  # noqa: N802
        """As protocol buffers write it."""
        parts = []
        for name, (number, type) in SCHEMA[self._kind].items():
            for value in self._all(name):
                parts.append(_field(number, type.removesuffix("*"), value))
        return b"".join(parts)

    def __getattr__(self, name: str) -> Any:
        field = SCHEMA[self._kind].get(name)
        if field is None:
            raise AttributeError(f"a {self._kind} has no field {name!r}")
        return self._values.get(name, [] if field[1].endswith("*") else None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.SerializeToString() == other.SerializeToString()

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines())

    def __repr__(self) -> str:
        return str(self)

    def _lines(self) -> list[str]:
        lines = []
        for name in SCHEMA[self._kind]:
            for value in self._all(name):
                if isinstance(value, Message):
                    inside = (f"  {line}" for line in value._lines())
                    lines += [f"{name} {{", *inside, "}"]
                else:
                    lines.append(f"{name}: {_text(value)}")
        return lines

    def _all(self, name: str) -> list[Any]:
        if name not in self._values:
            return []
        value = self._values[name]
        return value if isinstance(value, list) else [value]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _field(number: int, type: str, value: Any) -> bytes:
    if type == "double":
        return _varint(number << 3 | _EIGHT_BYTES) + struct.pack("<d", value)
    if type == "float":
        return _varint(number << 3 | _FOUR_BYTES) + struct.pack("<f", value)
    if type in ("uint", "int", "bool"):
        return _varint(number << 3 | _VARINT) + _varint(int(value))
    content: bytes = value if type == "bytes" else _bytes(value)
    return _varint(number << 3 | _LENGTH) + _varint(len(content)) + content


def _bytes(value: "str | Message") -> bytes:
    return value.encode() if isinstance(value, str) else value.SerializeToString()


def _varint(value: int) -> bytes:
    # Negative numbers are written as 64 bits.
    value &= (1 << 64) - 1
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    digits.append(value)
    return bytes(digits)
