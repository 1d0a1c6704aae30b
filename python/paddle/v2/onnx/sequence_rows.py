"""What layers become that move the rows of sequences: expand, repeat, join, reshape, cut."""

import numpy

from paddle.v2.layer.base import Layer
from paddle.v2.onnx.graph import Graph
from paddle.v2.onnx.rows import Rows


def add_expand(graph: Graph, layer: Layer) -> str:
    """The row of each sample once for every row of its sequence."""
    input, like = layer.parents
    return graph.rows[like.name].of_each(input.name)


def add_repeat(graph: Graph, layer: Layer) -> str:
    """Each row, or each column, several times side by side."""
    said, columns = layer.describe()["attributes"], numpy.arange(layer.parents[0].size)
    repeat = numpy.repeat if said["is_by_column"] else numpy.tile
    places = graph.constant(repeat(columns, said["times"]))
    return graph.add("Gather", layer.parents[0].name, places, axis=1)


def add_concat(graph: Graph, layer: Layer) -> str:
    """For each sample, the rows of one sequence and then those of another."""
    names = [parent.name for parent in layer.parents]
    first, second = (graph.rows[name] for name in names)
    rows = Rows(graph, graph.add("Add", first.lengths, second.lengths))
    graph.rows[layer.name] = rows
    # A row behind those of the first is counted from where the second begins.
    behind = graph.add("Sub", rows.steps, rows.of_each(first.lengths))
    is_second = graph.add("GreaterOrEqual", behind, graph.constant(0))
    shift = graph.add("Shape", names[0], end=1)
    from_second = graph.add("Add", graph.add("Add", rows.of_each(second.begins), shift), behind)
    from_first = graph.add("Add", rows.of_each(first.begins), rows.steps)
    places = graph.add("Where", is_second, from_second, from_first)
    return graph.add("Gather", graph.add("Concat", *names, axis=0), places, axis=0)


def add_reshape(graph: Graph, layer: Layer) -> str:
    """The numbers of each sequence in rows of another size."""
    input = layer.parents[0]
    width, size = graph.constant(input.size), graph.constant(layer.size)
    rows = graph.rows[input.name]
    numbers = graph.add("Mul", rows.lengths, width)
    why = f"a sequence cannot be made rows of {layer.size} by layer {layer.name}"
    lengths = rows.checked(graph.add("Mod", numbers, size), why)
    lengths = graph.add("Div", graph.add("Mul", lengths, width), size)
    graph.rows[layer.name] = Rows(graph, lengths)
    return graph.reshape(input.name, [-1, layer.size])


def add_slice(graph: Graph, layer: Layer) -> str:
    """A part of each sequence; other inputs say where it begins and ends."""
    input, *bounds = layer.parents
    names = layer.describe()["attributes"]["bounds"]
    said = {
        name: graph.reshape(graph.whole(bound.name), [-1])
        for name, bound in zip(names, bounds, strict=True)
    }
    rows, zero = graph.rows[input.name], graph.constant(0)
    first = said.get("first", zero)
    end = rows.lengths
    if "last" in said:
        end = graph.add("Add", said["last"], graph.constant(1))
    elif "count" in said:
        end = graph.add("Add", first, said["count"])
    is_beyond = graph.add("Greater", first, end)
    for low, high in [(end, rows.lengths), *((zero, place) for place in said.values())]:
        is_beyond = graph.add("Or", is_beyond, graph.add("Greater", low, high))
    wrong = graph.add("ReduceSum", graph.whole(is_beyond))
    why = f"rows that layer {layer.name} takes are not all in a sequence"
    taken = Rows(graph, graph.checked(graph.add("Sub", end, first), wrong, why))
    graph.rows[layer.name] = taken
    begins = graph.add("Add", rows.begins, first)
    places = graph.add("Add", taken.of_each(begins), taken.steps)
    return graph.add("Gather", input.name, places, axis=0)
