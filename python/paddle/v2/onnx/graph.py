"""A network in the words of ONNX, as it grows: operators, constants, inputs."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from paddle.v2.layer.base import Layer
from paddle.v2.onnx import message
from paddle.v2.parameters import Parameters

if TYPE_CHECKING:
    from paddle.v2.onnx.rows import Rows

PRODUCER = "paddle.v2"

# What follows the name of sequences in that of their lengths.
LENGTHS = ".lengths"

# From states and inputs of a step: states for the next, and outputs.
Step = Callable[[list[str], list[str]], tuple[list[str], list[str]]]


class Graph:
    """What was added so far. Values have names; that of a layer's output is the layer's."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._nodes: list[bytes] = []
        self._inputs: list[bytes] = []
        self._constants: dict[str, bytes] = {}
        self._count = 0
        # Of the layers whose samples are sequences, by their names.
        self.rows: dict[str, Rows] = {}

    def add_input(self, layer: Layer) -> None:
        """What is fed to a data layer."""
        self._inputs += _described(layer)

    def finish(self, layer: Layer, value: str) -> None:
        """Says that a value is the output of a layer."""
        self._nodes.append(message.node("Identity", [value], [layer.name], {}))

    def add(self, operator: str, *inputs: str, **attributes: message.Attribute) -> str:
        """An operator; returns the name of its output."""
        output = self._name(operator)
        self._nodes.append(message.node(operator, inputs, [output], attributes))
        return output

    def number(self, value: str) -> str:
        """Whole numbers or truths as float32."""
        return self.add("Cast", value, to=message.FLOAT)

    def whole(self, value: str) -> str:
        """Numbers or truths as int64."""
        return self.add("Cast", value, to=message.INT64)

    def split(self, value: str, sizes: Sequence[int]) -> list[str]:
        """Columns in parts of these sizes."""
        outputs = [self._name("Split") for _ in sizes]
        inputs = [value, self.constant(list(sizes))]
        self._nodes.append(message.node("Split", inputs, outputs, {"axis": 1}))
        return outputs

    def scan(
        self, states: Sequence[str], inputs: Sequence[str], step: Step, is_reversed: bool = False
    ) -> tuple[list[str], list[str]]:
        """Goes along the first side of inputs, backwards if `is_reversed`.

        Returns the states after the last step, and the outputs of all steps, which lie as the
        inputs do. What is added in a step is known only there.
        """
        around, self._nodes = self._nodes, []
        taken = [[self._name("taken") for _ in side] for side in (states, inputs)]
        kept, shown = step(*taken)
        # A state may be an output too, but needs another name.
        shown = [self.add("Identity", value) for value in shown]
        sides = [[message.untyped(name) for name in [*a, *b]] for a, b in (taken, (kept, shown))]
        body = message.graph("step", self._nodes, [], (sides[0], sides[1]))
        self._nodes = around
        attributes: dict[str, message.Attribute] = {"body": body, "num_scan_inputs": len(inputs)}
        if is_reversed:
            attributes["scan_input_directions"] = [1] * len(inputs)
            attributes["scan_output_directions"] = [1] * len(shown)
        outputs = [self._name("Scan") for _ in [*kept, *shown]]
        self._nodes.append(message.node("Scan", [*states, *inputs], outputs, attributes))
        return outputs[: len(kept)], outputs[len(kept) :]

    def checked(self, value: str, wrong: str, why: str) -> str:
        """A whole value; an error that shows `why` if `wrong`, numbers from 0 on, is not 0.

        ONNX has no operator for errors. But of a single number only that at place 0 can be taken.
        """
        zero = self._name("Gather")
        inputs = [self.constant([0]), wrong]
        self._nodes.append(message.node("Gather", inputs, [zero], {}, f"{zero}: {why}"))
        return self.add("Add", value, zero)

    def constant(self, values: Any) -> str:
        """Numbers that do not change; whole ones are int64, others float32."""
        array = numpy.asarray(values)
        is_whole = array.dtype.kind in "iu"
        array = array.astype("int64" if is_whole else "float32")
        name = self._name("constant")
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
        key = f"parameter:{name} {list(dims)}" if dims else f"parameter:{name}"
        if key not in self._constants:
            self._constants[key] = message.tensor(key, values.reshape(dims) if dims else values)
        return key

    def reshape(self, value: str, dims: Sequence[int]) -> str:
        """Rows in another shape; 0 keeps a side, and -1 is what remains."""
        return self.add("Reshape", value, self.constant(list(dims)))

    def encode(self, outputs: Sequence[Layer]) -> bytes:
        """The file."""
        for layer in outputs:
            if layer.name in self.rows and layer.kind != "data":
                lengths = self.rows[layer.name].lengths
                node = message.node("Identity", [lengths], [layer.name + LENGTHS], {})
                self._nodes.append(node)
        described = [value for layer in outputs for value in _described(layer)]
        content = message.graph(
            "network", self._nodes, self._constants.values(), (self._inputs, described)
        )
        return message.model(content, PRODUCER)

    def _name(self, what: str) -> str:
        # No layer is likely to have such a name.
        self._count += 1
        return f"{what}:{self._count}"


def _described(layer: Layer) -> list[bytes]:
    """Name, type and shape of a layer's output and, of sequences, of their lengths."""
    is_sequence = layer.shape["level"] == "sequence"
    rows = f"{layer.name}.rows" if is_sequence else "N"
    if layer.shape["value"] == "integer":
        described = [message.value(layer.name, message.INT64, [rows])]
    else:
        described = [message.value(layer.name, message.FLOAT, [rows, layer.size])]
    if is_sequence:
        described.append(message.value(layer.name + LENGTHS, message.INT64, ["N"]))
    return described
