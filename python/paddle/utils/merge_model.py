"""`paddle merge_model`: a configuration and a saved model as one file, and reading it.

The length of a TrainerConfig (i64), the TrainerConfig, then every parameter as in its own file, in
the order of the network. The TrainerConfig has a field that the original does not know and skips:
the network as `paddle.v2` describes it, from which `load` makes it again.
"""

import contextlib
import io
import os
import struct
from typing import BinaryIO

import numpy

from paddle import errors
from paddle.utils import program
from paddle.v1 import description
from paddle.v2 import parameters as v2_parameters
from paddle.v2.model_config.schema import SCHEMA
from paddle.v2.parameters import Parameters
from paddle.v2.topology import Topology

USAGE = """\
Put a V1 configuration and a saved model into one file
usage: paddle merge_model --model_dir=DIR --config_file=CONFIG --model_file=FILE
  --model_dir    a saved pass, like output/model/pass-00009
  --config_file  the configuration; one that ends with outputs(prediction) makes a model to ask
  --model_file   the file to write
  --config_args  name=value,…: what get_config_arg finds"""

NETWORK_FIELD = SCHEMA["TrainerConfig"]["network"][0]
CONFIG_BYTES_MAX = 256 << 20
_HEADER = struct.Struct("<iIQ")


def main(arguments: list[str]) -> None:
    """Writes the file."""
    given = {}
    names = ("model_dir", "config_file", "model_file", "config_args")
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, is_attached, value = word.lstrip("-").partition("=")
        if not is_attached and words:
            value = words.pop(0)
        if not word.startswith("--") or name not in names or not value:
            raise program.UsageError(f"cannot do {word!r}; flags are --name=value")
        given[name] = value
    missing = [name for name in names[:3] if name not in given]
    if missing:
        raise program.UsageError(f"--{missing[0]} is missing")
    described, topology = program.describe(given["config_file"], given.get("config_args", ""))
    parameters = v2_parameters.create(topology)
    parameters.load_pass(given["model_dir"])
    network = io.BytesIO()
    topology.serialize_for_inference(network)
    message = description.whole(described, topology, network.getvalue())
    target = given["model_file"]
    pending = f"{target}.partial"
    try:
        with open(pending, "wb") as file:
            config = message.SerializeToString()
            file.write(struct.pack("<q", len(config)) + config)
            for name in parameters.names():
                values = parameters.get(name)
                file.write(_HEADER.pack(0, 4, values.size) + values.tobytes())
            file.flush()
            os.fsync(file.fileno())
        os.replace(pending, target)
    finally:
        with contextlib.suppress(OSError):
            os.remove(pending)


def load(file: BinaryIO) -> tuple[Topology, Parameters]:
    """The network and the parameters of a merged model."""
    (length,) = struct.unpack("<q", _exactly(file, 8))
    if not 0 <= length <= CONFIG_BYTES_MAX:
        raise errors.DamagedError(f"not a merged model: its description has {length} bytes")
    topology = Topology.load(io.BytesIO(_network(_exactly(file, length))))
    parameters = v2_parameters.create(topology)
    for name in parameters.names():
        form, width, count = _HEADER.unpack(_exactly(file, _HEADER.size))
        rows, columns = parameters.get_shape(name)
        if (form, width, count) != (0, 4, rows * columns):
            raise errors.DamagedError(
                f"parameter {name!r} is not as the network says (format: {form}, bytes of a "
                f"number: {width}, numbers: {count}, expected: {rows * columns})"
            )
        values = numpy.frombuffer(_exactly(file, 4 * count), dtype="<f4")
        parameters.set(name, values.reshape(rows, columns))
    if file.read(1):
        raise errors.DamagedError("the merged model is longer than its network says")
    return topology, parameters


def _exactly(file: BinaryIO, count: int) -> bytes:
    content = file.read(count)
    if len(content) != count:
        raise errors.DamagedError("the merged model ends too early")
    return content


def _network(config: bytes) -> bytes:
    """Our field of the TrainerConfig."""
    at = 0
    while at < len(config):
        key, at = _number(config, at)
        if key & 7 == 0:
            _, at = _number(config, at)
        elif key & 7 == 1:
            at += 8
        elif key & 7 == 2:
            length, at = _number(config, at)
            if key >> 3 == NETWORK_FIELD:
                return config[at : at + length]
            at += length
        else:
            raise errors.DamagedError("the description of the merged model is not understood")
    raise errors.UnsupportedError(
        "the merged model has no network that can be read here; it was written by another program"
    )


def _number(config: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(config) and shift < 64:
        byte = config[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise errors.DamagedError("the description of the merged model ends too early")


if __name__ == "__main__":
    program.run("merge_model", USAGE, main)
