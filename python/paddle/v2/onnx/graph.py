"""A network in the words of ONNX, as it grows: operators, constants, inputs."""

from collections.abc import Sequence
from typing import Any

import numpy
from numpy.typing import NDArray

from paddle.v2.layer.base import Layer
from paddle.v2.onnx import message
from paddle.v2.parameters import Parameters

PRODUCER = "paddle.v2"


class Graph:
    """What was added so far. Values have names; that of a layer's output is the layer's."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._nodes: list[bytes] = []
        self._inputs: list[bytes] = []
        self._constants: dict[str, bytes] = {}
        self._shapes: dict[str, tuple[int, list[int | str]]] = {}
        self._count = 0

    def add_input(self, layer: Layer) -> None:
        """What is fed to a data layer."""
        if layer.shape["value"] == "integer":
            self._shapes[layer.name] = message.INT64, ["N"]
        else:
            self._shapes[layer.name] = message.FLOAT, ["N", layer.size]
        kind, dims = self._shapes[layer.name]
        self._inputs.append(message.value(layer.name, kind, dims))

    def finish(self, layer: Layer, value: str) -> None:
        """Says that a value is the output of a layer."""
        is_id = layer.shape["value"] == "integer"
        self._shapes[layer.name] = (
            (message.INT64, ["N"]) if is_id else (message.FLOAT, ["N", layer.size])
        )
        self._nodes.append(message.node("Identity", [value], layer.name, {}))

    def add(self, operator: str, *inputs: str, **attributes: message.Attribute) -> str:
        """An operator; returns the name of its output."""
        self._count += 1
        output = f"{operator}_{self._count}"
        self._nodes.append(message.node(operator, inputs, output, attributes))
        return output

    def constant(self, values: Any) -> str:
        """Numbers that do not change; whole ones are int64, others float32."""
        array = numpy.asarray(values)
        is_whole = array.dtype.kind in "iu"
        array = array.astype("int64" if is_whole else "float32")
        self._count += 1
        name = f"constant_{self._count}"
        self._constants[name] = message.tensor(name, array)
        return name

    def values(self, layer: Layer, slot: int) -> NDArray[numpy.float32]:
        """The values of a layer's parameter."""
        found: NDArray[numpy.float32] = self._parameters.get(layer.describe()["parameters"][slot])
        return found

    def parameter(self, layer: Layer, slot: int, dims: Sequence[int] | None = None) -> str:
        """A layer's parameter as a constant; one that layers share is written once."""
        name: str = layer.describe()["parameters"][slot]
        values = self.values(layer, slot)
        key = f"{name} {list(dims)}" if dims else name
        if key not in self._constants:
            self._constants[key] = message.tensor(key, values.reshape(dims) if dims else values)
        return key

    def reshape(self, value: str, dims: Sequence[int]) -> str:
        """Rows in another shape; 0 keeps the batch."""
        return self.add("Reshape", value, self.constant(list(dims)))

    def encode(self, outputs: Sequence[str]) -> bytes:
        """The file."""
        described = [message.value(name, *self._shapes[name]) for name in outputs]
        content = message.graph(
            "network", self._nodes, self._constants.values(), (self._inputs, described)
        )
        return message.model(content, PRODUCER)
