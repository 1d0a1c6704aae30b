"""What the best tags of a chain become: one `Scan` to the ends of sequences, and one back."""

from paddle.v2.layer.base import Layer
from paddle.v2.onnx.graph import Graph


def add_crf_decoding(graph: Graph, layer: Layer) -> str:
    """The best tags; with a label, 1 where they are wrong and 0 else."""
    tags = graph.reshape(_best_tags(graph, layer), [-1])
    if len(layer.parents) == 1:
        return tags
    is_right = graph.add("Equal", tags, layer.parents[1].name)
    return graph.reshape(graph.number(graph.add("Not", is_right)), [-1, 1])


def _best_tags(graph: Graph, layer: Layer) -> str:
    input, rows = layer.parents[0], graph.rows[layer.parents[0].name]
    values = graph.values(layer, 0)
    first, last, follows = (graph.constant(part) for part in (values[:1], values[1], values[2:]))
    shape = graph.add("Concat", rows.count, graph.constant([input.size]), axis=0)
    begun = graph.add("Expand", first, shape)

    def go(states: list[str], inputs: list[str]) -> tuple[list[str], list[str]]:
        # Scores of the best ways to each tag of this step, and to the end if it is the last.
        (arrived, ended), (own, is_there) = states, inputs
        reached = graph.add("Add", arrived, own)
        ended = graph.add("Where", is_there, graph.add("Add", reached, last), ended)
        ways = graph.add("Add", graph.add("Unsqueeze", reached, graph.constant([2])), follows)
        arrived = graph.add("ReduceMax", ways, axes=[1], keepdims=0)
        return [arrived, ended], [graph.add("ArgMax", ways, axis=1, keepdims=0)]

    padded = rows.pad(input.name, input.size)
    (_, ended), (sources,) = graph.scan([begun, begun], [padded, rows.has_step()], go)

    def go_back(states: list[str], inputs: list[str]) -> tuple[list[str], list[str]]:
        (tag,), (source, is_followed) = states, inputs
        before = graph.add("GatherElements", source, tag, axis=1)
        tag = graph.add("Where", is_followed, before, tag)
        return [tag], [tag]

    end = graph.add("ArgMax", ended, axis=1)
    _, (tags,) = graph.scan([end], [sources, rows.has_step(ahead=1)], go_back, is_reversed=True)
    return rows.unpad(tags)
