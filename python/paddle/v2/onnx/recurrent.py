"""What recurrent layers become: a `Scan` over padded rows, with the engine's formulas.

ONNX has operators for such cells, but they multiply their input by a matrix. Here a layer before
does that, so theirs would be the identity, with which batches take up to four times as long; only
single samples through narrow cells would be faster. Theirs also lack some activations, and their
update gate is 1 minus ours, which only a sigmoid can be turned into.
"""

from collections.abc import Callable

from paddle.v2.layer.base import Layer
from paddle.v2.onnx.activation import add_activation
from paddle.v2.onnx.graph import Graph

# From states, of which the first is the output, and the row of each sequence: the states after it.
Cell = Callable[[list[str], str], list[str]]


def add_lstm(graph: Graph, layer: Layer) -> str:
    """Long short-term memory, with peepholes if it has a bias."""
    size, weight = layer.size, graph.parameter(layer, 0)
    bias, peepholes = None, ["", "", ""]
    if layer.describe()["attributes"]["has_bias"]:
        values = graph.values(layer, 1).reshape(7, size)
        bias = graph.constant(values[:4].ravel())
        peepholes = [graph.constant(each) for each in values[4:]]

    def gate(part: str, peephole: str, state: str) -> str:
        if peephole:
            part = graph.add("Add", part, graph.add("Mul", peephole, state))
        return _activate(graph, layer, "gate_activation", part)

    def step(states: list[str], row: str) -> list[str]:
        output, state = states
        sums = graph.add("Add", row, graph.add("MatMul", output, weight))
        candidate, entry, forget, out = graph.split(sums, [size] * 4)
        candidate = _activate(graph, layer, "activation", candidate)
        new = graph.add("Mul", candidate, gate(entry, peepholes[0], state))
        kept = graph.add("Mul", state, gate(forget, peepholes[1], state))
        state = graph.add("Add", new, kept)
        shown = _activate(graph, layer, "state_activation", state)
        return [graph.add("Mul", shown, gate(out, peepholes[2], state)), state]

    return _run(graph, layer, bias, 2, step)


def add_gru(graph: Graph, layer: Layer) -> str:
    """Gated recurrent unit."""
    size, values = layer.size, graph.values(layer, 0).ravel()
    gate_weight = graph.constant(values[: 2 * size * size].reshape(size, 2 * size))
    own_weight = graph.constant(values[2 * size * size :].reshape(size, size))

    def step(states: list[str], row: str) -> list[str]:
        (output,) = states
        gates, candidate = graph.split(row, [2 * size, size])
        gates = graph.add("Add", gates, graph.add("MatMul", output, gate_weight))
        gates = _activate(graph, layer, "gate_activation", gates)
        update, reset = graph.split(gates, [size] * 2)
        own = graph.add("MatMul", graph.add("Mul", reset, output), own_weight)
        candidate = _activate(graph, layer, "activation", graph.add("Add", candidate, own))
        # (1 − z)·h + z·c̃ is h + z·(c̃ − h).
        change = graph.add("Mul", update, graph.add("Sub", candidate, output))
        return [graph.add("Add", output, change)]

    return _run(graph, layer, _bias(graph, layer), 1, step)


def add_recurrent(graph: Graph, layer: Layer) -> str:
    """A function of the row and of what the row before gave."""
    weight = graph.parameter(layer, 0)

    def step(states: list[str], row: str) -> list[str]:
        sums = graph.add("Add", row, graph.add("MatMul", states[0], weight))
        return [_activate(graph, layer, "activation", sums)]

    return _run(graph, layer, _bias(graph, layer), 1, step)


def _bias(graph: Graph, layer: Layer) -> str | None:
    has_bias = layer.describe()["attributes"]["has_bias"]
    return graph.parameter(layer, 1) if has_bias else None


def _activate(graph: Graph, layer: Layer, which: str, value: str) -> str:
    return add_activation(graph, layer, layer.describe()["attributes"][which], value)


def _run(graph: Graph, layer: Layer, bias: str | None, states: int, cell: Cell) -> str:
    """The outputs of a cell with so many states, which begin as zeros."""
    (input,), rows = layer.parents, graph.rows[layer.parents[0].name]
    is_reversed = layer.describe()["attributes"]["is_reversed"]
    value = graph.add("Add", input.name, bias) if bias else input.name
    padded = rows.pad(value, input.size, is_reversed=is_reversed)
    shape = graph.add("Concat", rows.count, graph.constant([layer.size]), axis=0)
    zeros = graph.add("Expand", graph.constant(0.0), shape)

    def step(before: list[str], inputs: list[str]) -> tuple[list[str], list[str]]:
        after = cell(before, inputs[0])
        return after, after[:1]

    _, (outputs,) = graph.scan([zeros] * states, [padded], step)
    return rows.unpad(outputs, is_reversed=is_reversed)
