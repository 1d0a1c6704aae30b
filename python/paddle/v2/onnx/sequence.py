"""What layers become that make one row of a sequence, and the softmax over a sequence."""

import numpy

from paddle.v2.layer.base import Layer
from paddle.v2.onnx.graph import Graph

LOWEST = float(numpy.finfo("float32").min)


def add_pooling(graph: Graph, layer: Layer) -> str:
    """The largest, mean or sum over each sequence; zeros of one without rows."""
    (input,), rows = layer.parents, graph.rows[layer.parents[0].name]
    pooling = layer.describe()["attributes"]["pooling"]
    lengths = graph.reshape(rows.lengths, [-1, 1])
    if pooling == "max":
        padded = rows.pad(input.name, input.size, fill=LOWEST)
        largest = graph.add("ReduceMax", padded, axes=[0], keepdims=0)
        is_there = graph.add("Greater", lengths, graph.constant(0))
        return graph.add("Where", is_there, largest, graph.constant(0.0))
    padded = rows.pad(input.name, input.size)
    total = graph.add("ReduceSum", padded, graph.constant([0]), keepdims=0)
    if pooling == "sum":
        return total
    divisor = graph.add("Max", graph.number(lengths), graph.constant(1.0))
    if pooling == "sqrt_n":
        divisor = graph.add("Sqrt", divisor)
    return graph.add("Div", total, divisor)


def add_end(graph: Graph, layer: Layer) -> str:
    """The first or the last row of each sequence; zeros of one without rows."""
    (input,), rows = layer.parents, graph.rows[layer.parents[0].name]
    is_last = layer.describe()["attributes"]["end"] == "last"
    padded = rows.pad(input.name, input.size, is_reversed=is_last)
    return graph.add("Gather", padded, graph.constant(0), axis=0)


def add_sequence_softmax(graph: Graph, layer: Layer, value: str) -> str:
    """The softmax of each column over the rows of a sequence."""
    rows = graph.rows[layer.name]
    padded = rows.pad(value, layer.size, fill=LOWEST)
    return rows.unpad(graph.add("Softmax", padded, axis=0))
