"""A network as the original's ModelConfig: what `dump_config` prints and `merge_model` writes.

Layers, parameters, inputs, outputs and evaluators, with the fields that all layers share. What only
one kind of layer has is in the network's own description, which a merged model carries too.
"""

import dataclasses
import struct
from collections.abc import Iterator
from typing import Any

from paddle.v1.configuration import Configuration
from paddle.v2.topology import Topology

# How the original names what the engine names otherwise.
_TYPES = {
    "square_error": "square_error",
    "cross_entropy": "multi-class-cross-entropy",
    "img_conv": "exconv",
    "img_pool": "pool",
    "pooling": "seqpool",
    "lstmemory": "lstmemory",
    "grumemory": "gated_recurrent",
    "max_id": "maxid",
    "cos_sim": "cos",
    "dropout": "addto",
}
_STRING, _NUMBER, _DOUBLE, _FLAG, _MESSAGE = "string", "number", "double", "flag", "message"


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a message: its number and name in the original's protocol, and its value."""

    number: int
    name: str
    kind: str
    value: Any


Message = list[Field]


def model(topology: Topology) -> Message:
    """The ModelConfig of a network."""
    fields = [Field(1, "type", _STRING, "nn")]
    fields += [Field(2, "layers", _MESSAGE, _layer(layer)) for layer in topology.layers]
    for each in topology.descriptions():
        fields.append(Field(3, "parameters", _MESSAGE, _parameter(each)))
    inputs = [layer for layer in topology.layers if layer.type is not None]
    fields += [Field(4, "input_layer_names", _STRING, layer.name) for layer in inputs]
    fields += [Field(5, "output_layer_names", _STRING, layer.name) for layer in topology.outputs]
    for name, evaluator in topology.evaluators.items():
        said = [Field(1, "name", _STRING, name), Field(2, "type", _STRING, evaluator.kind)]
        said += [Field(3, "input_layers", _STRING, layer.name) for layer in evaluator.inputs]
        fields.append(Field(6, "evaluators", _MESSAGE, said))
    return fields


def whole(configuration: Configuration, topology: Topology) -> Message:
    """The TrainerConfig of a configuration."""
    fields = [Field(1, "model_config", _MESSAGE, model(topology))]
    if configuration.optimizer is not None:
        fields.append(Field(3, "opt_config", _MESSAGE, _optimization(configuration)))
    return [*fields, Field(9, "config_file", _STRING, configuration.path)]


def text(message: Message, indent: str = "") -> Iterator[str]:
    """A message in protobuf's text form, line by line."""
    for field in message:
        if field.kind == _MESSAGE:
            yield f"{indent}{field.name} {{"
            yield from text(field.value, indent + "  ")
            yield f"{indent}}}"
        elif field.kind == _STRING:
            shown = field.value.replace("\\", "\\\\").replace('"', '\\"')
            yield f'{indent}{field.name}: "{shown}"'
        elif field.kind == _FLAG:
            yield f"{indent}{field.name}: {'true' if field.value else 'false'}"
        else:
            yield (
                f"{indent}{field.name}: {field.value:g}"
                if field.kind == _DOUBLE
                else (f"{indent}{field.name}: {field.value}")
            )


def encode(message: Message) -> bytes:
    """A message in protobuf's binary form."""
    return b"".join(_encode(field) for field in message)


def _encode(field: Field) -> bytes:
    if field.kind == _DOUBLE:
        return _varint(field.number << 3 | 1) + struct.pack("<d", field.value)
    if field.kind in (_NUMBER, _FLAG):
        return _varint(field.number << 3) + _varint(int(field.value))
    content = encode(field.value) if field.kind == _MESSAGE else field.value
    content = content.encode() if isinstance(content, str) else content
    return _varint(field.number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _layer(layer: Any) -> Message:
    described = layer.describe()
    fields = [
        Field(1, "name", _STRING, layer.name),
        Field(2, "type", _STRING, _TYPES.get(layer.kind, layer.kind)),
        Field(3, "size", _NUMBER, layer.size),
        Field(4, "active_type", _STRING, "" if layer.activation == "linear" else layer.activation),
    ]
    weights = {slot: name for slot, name in layer.slots.items() if slot != "wbias"}
    for place, parent in enumerate(layer.parents):
        said = [Field(1, "input_layer_name", _STRING, parent.name)]
        if f"w{place}" in weights:
            said.append(Field(2, "input_parameter_name", _STRING, weights[f"w{place}"]))
        fields.append(Field(5, "inputs", _MESSAGE, said))
    if "wbias" in layer.slots:
        fields.append(Field(6, "bias_parameter_name", _STRING, layer.slots["wbias"]))
    if described.get("drop_rate"):
        fields.append(Field(10, "drop_rate", _DOUBLE, described["drop_rate"]))
    return fields


def _parameter(each: dict[str, Any]) -> Message:
    rows, columns = each["dims"]
    attr, initializer = each["attr"], each["initializer"]
    fields = [
        Field(1, "name", _STRING, each["name"]),
        Field(2, "size", _NUMBER, rows * columns),
    ]
    if attr.learning_rate is not None:
        fields.append(Field(3, "learning_rate", _DOUBLE, attr.learning_rate))
    if attr.momentum is not None:
        fields.append(Field(4, "momentum", _DOUBLE, attr.momentum))
    if initializer.get("name") == "normal":
        fields.append(Field(5, "initial_mean", _DOUBLE, initializer.get("mean", 0.0)))
        fields.append(Field(6, "initial_std", _DOUBLE, initializer.get("std", 0.0)))
    if attr.l2_rate is not None:
        fields.append(Field(7, "decay_rate", _DOUBLE, attr.l2_rate))
    if attr.l1_rate is not None:
        fields.append(Field(8, "decay_rate_l1", _DOUBLE, attr.l1_rate))
    fields += [Field(9, "dims", _NUMBER, size) for size in (rows, columns)]
    strategy = 1 if initializer.get("name") == "uniform" else 0
    fields.append(Field(11, "initial_strategy", _NUMBER, strategy))
    if each["is_static"]:
        fields.append(Field(18, "is_static", _FLAG, True))
    if each["is_sparse"]:
        fields.append(Field(22, "sparse_update", _FLAG, True))
    return fields


def _optimization(configuration: Configuration) -> Message:
    import json

    assert configuration.optimizer is not None
    described = json.loads(configuration.optimizer.to_json())
    schedule = described.get("schedule") or {"name": "constant"}
    is_async = configuration.optimizer.is_async
    return [
        Field(3, "batch_size", _NUMBER, configuration.batch_size),
        Field(4, "algorithm", _STRING, "async_sgd" if is_async else "sgd"),
        Field(7, "learning_rate", _DOUBLE, described["learning_rate"]),
        Field(8, "learning_rate_decay_a", _DOUBLE, schedule.get("a", 0.0)),
        Field(9, "learning_rate_decay_b", _DOUBLE, schedule.get("b", 0.0)),
        Field(23, "learning_method", _STRING, described["rule"]["name"]),
        Field(27, "learning_rate_schedule", _STRING, schedule["name"]),
    ]
