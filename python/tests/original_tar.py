"""The model tar of the original, written and read by its description alone.

    for each parameter, in order:
      <name>            u32 0, u32 4, u64 count, then count float32; all little-endian
      <name>.protobuf   a ParameterConfig: 1 name, 2 size, 3 learning_rate, 5 initial_mean,
                        6 initial_std, 9 dims, 11 initial_strategy, 12 initial_smart, …

A member is a block of 512 bytes in front of its content, which is filled up to whole blocks. There
is nothing behind the last one: the original never closed the archive.

Run as a program it writes `golden/fit_a_line.tar`. Nothing of paddle is used here.
"""

import pathlib
import struct

GOLDEN = pathlib.Path(__file__).parent / "golden" / "fit_a_line.tar"
# The model of the first chapter of the book: 13 features, one price.
WEIGHT = [0.5 * place - 3.25 for place in range(13)]
BIAS = [22.5]

BLOCK = 512


def golden():
    """The bytes of a small model, as the original writes it."""
    return write(
        [
            ("___fc_layer_0__.w0", [13, 1], WEIGHT, 1 / 13**0.5),
            ("___fc_layer_0__.wbias", [1, 1], BIAS, 0.0),
        ]
    )


def write(parameters):
    """A tar of (name, dims, values, initial_std)."""
    parts = []
    for name, dims, values, std in parameters:
        content = struct.pack("<IIQ", 0, 4, len(values)) + struct.pack(f"<{len(values)}f", *values)
        parts += [_member(name, content), _member(f"{name}.protobuf", _config(name, dims, std))]
    return b"".join(parts)


def read(data):
    """`{name: (dims, values)}` of a tar."""
    members = dict(_members(data))
    found = {}
    for name in [each for each in members if each.endswith(".protobuf")]:
        config = _fields(members[name])
        name = name.removesuffix(".protobuf")
        assert config[1] == [name.encode()]
        zero, value_bytes, count = struct.unpack_from("<IIQ", members[name])
        assert (zero, value_bytes, len(members[name])) == (0, 4, 16 + 4 * count)
        assert config[2] == [count]
        found[name] = (config[9], list(struct.unpack_from(f"<{count}f", members[name], 16)))
    return found


def _member(name, content):
    filled = content + bytes(-len(content) % BLOCK)
    return _header(name, len(content)) + filled


def _header(name, size):
    """A header of GNU's format: a plain file of user 0, mode 644, of the first second of 1970."""

    def octal(number, digits):
        return f"{number:0{digits}o}".encode() + b"\0"

    fields = [
        (100, name.encode()),
        (8, octal(0o644, 7)),
        (8, octal(0, 7)),
        (8, octal(0, 7)),
        (12, octal(size, 11)),
        (12, octal(0, 11)),
        (8, b" " * 8),
        (1, b"0"),
        (100, b""),
        (8, b"ustar  \0"),
        (32, b""),
        (32, b""),
        (8, octal(0, 7)),
        (8, octal(0, 7)),
        (155, b""),
        (12, b""),
    ]
    header = b"".join(value.ljust(width, b"\0") for width, value in fields)
    checksum = f"{sum(header):06o}".encode() + b"\0 "
    return header[:148] + checksum + header[156:]


def _config(name, dims, std):
    size = dims[0] * dims[1]
    is_smart = std != 0.0
    parts = [b"\x0a", _varint(len(name)), name.encode(), b"\x10", _varint(size)]
    parts += [b"\x29", struct.pack("<d", 0.0), b"\x31", struct.pack("<d", std)]
    parts += [part for side in dims for part in (b"\x48", _varint(side))]
    parts += [b"\x58", _varint(0), b"\x60", _varint(int(is_smart))]
    return b"".join(parts)


def _varint(number):
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def _members(data):
    at = 0
    while at < len(data) and data[at : at + BLOCK].strip(b"\0"):
        header = data[at : at + BLOCK]
        assert len(header) == BLOCK and header[257:262] == b"ustar"
        plain = header[:148] + b" " * 8 + header[156:]
        assert int(header[148:156].strip(b"\0 "), 8) == sum(plain)
        size = int(header[124:136].strip(b"\0 "), 8)
        content = data[at + BLOCK : at + BLOCK + size]
        assert len(content) == size
        yield header[:100].rstrip(b"\0").decode(), content
        at += BLOCK + size + -size % BLOCK


def _fields(message):
    """`{number: [values]}` of a protocol buffer without messages in it."""
    fields, at = {}, 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            number |= (message[at] & 127) << shift
            at += 1
            shift += 7
            if message[at - 1] < 128:
                return number

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        elif key & 7 == 1:
            value = struct.unpack_from("<d", message, at)[0]
            at += 8
        elif key & 7 == 5:
            value = struct.unpack_from("<f", message, at)[0]
            at += 4
        else:
            assert key & 7 == 2
            length = varint()
            value = message[at : at + length]
            at += length
        fields.setdefault(key >> 3, []).append(value)
    return fields


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    GOLDEN.write_bytes(golden())
