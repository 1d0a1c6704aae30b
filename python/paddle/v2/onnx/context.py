"""What the context projection becomes: each row beside its neighbours in the sequence."""

from typing import Any

import numpy

from paddle.v2.onnx.graph import Graph


def has_learnt_padding(projection: dict[str, Any]) -> bool:
    """Whether there is a parameter with the rows beyond the ends of sequences."""
    start, end = projection["start"], projection["start"] + projection["length"]
    return bool(projection["is_padding_learnt"]) and (start < 0 or end > 1)


def add_context(
    graph: Graph, value: str, projection: dict[str, Any], learnt: str | None, size: int
) -> str:
    """Rows of `size` numbers; beyond the ends are the learnt rows, or zeros."""
    rows, start, length = graph.rows[value], projection["start"], projection["length"]
    neighbours = graph.constant(numpy.arange(start, start + length))
    # Of each row and neighbour, `[rows, length]`: its place from the beginning, and from the end.
    ahead = graph.add("Add", graph.reshape(rows.steps, [-1, 1]), neighbours)
    lengths, begins = (
        graph.reshape(rows.of_each(each), [-1, 1]) for each in (rows.lengths, rows.begins)
    )
    behind = graph.add("Sub", ahead, lengths)
    zero = graph.constant(0)
    is_before = graph.add("Less", ahead, zero)
    is_outside = graph.add("Or", is_before, graph.add("GreaterOrEqual", behind, zero))
    # What stands outside is put behind all rows.
    outside = graph.add("Shape", value, end=1)
    if learnt is None:
        padding = graph.constant(numpy.zeros((1, size // length)))
    else:
        padding = learnt
        # The first of the learnt rows stand before a sequence, in their order.
        outside = graph.add("Add", outside, graph.constant(max(-start, 0)))
        outside = graph.add("Add", outside, graph.add("Where", is_before, ahead, behind))
    places = graph.add("Where", is_outside, outside, graph.add("Add", begins, ahead))
    both = graph.add("Concat", value, padding, axis=0)
    return graph.reshape(graph.add("Gather", both, places, axis=0), [0, size])
