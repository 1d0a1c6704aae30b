"""What the projections of a mixed layer become."""

from collections.abc import Callable
from typing import Any

from paddle.v2 import mistake
from paddle.v2.layer.base import Layer
from paddle.v2.onnx.context import add_context, has_learnt_padding
from paddle.v2.onnx.graph import Graph


def add_mixed(graph: Graph, layer: Layer) -> str:
    """The sum of its projections, or their columns side by side."""
    inputs, slot, terms = [parent.name for parent in layer.parents], 0, []
    attributes = layer.describe()["attributes"]
    for projection in attributes["projections"]:
        name = projection["name"]
        if name == "dotmul_operator":
            product = graph.add("Mul", inputs.pop(0), inputs.pop(0))
            terms.append(graph.add("Mul", product, graph.constant(float(projection["scale"]))))
        elif name == "identity":
            terms.append(_identity(graph, inputs.pop(0), projection))
        elif name == "context":
            is_learnt = has_learnt_padding(projection)
            learnt = graph.parameter(layer, slot) if is_learnt else None
            terms.append(add_context(graph, inputs.pop(0), projection, learnt, layer.size))
            slot += is_learnt
        elif name in _WEIGHTED:
            terms.append(_WEIGHTED[name](graph, inputs.pop(0), graph.parameter(layer, slot)))
            slot += 1
        else:
            raise mistake.unsupported(
                f"the projection {name} has no form in ONNX here yet", layer=layer.name
            )
    if attributes.get("is_concatenated"):
        return graph.add("Concat", *terms, axis=1)
    return terms[0] if len(terms) == 1 else graph.add("Sum", *terms)


def _identity(graph: Graph, value: str, projection: dict[str, Any]) -> str:
    begin, size = projection.get("offset"), projection.get("size")
    if begin is None:
        return value
    end = graph.constant([begin + size if size else 2**31 - 1])
    return graph.add("Slice", value, graph.constant([begin]), end, graph.constant([1]))


def _transposed(graph: Graph, value: str, weight: str) -> str:
    return graph.add("MatMul", value, graph.add("Transpose", weight, perm=[1, 0]))


_WEIGHTED: dict[str, Callable[[Graph, str, str], str]] = {
    "full_matrix": lambda graph, value, weight: graph.add("MatMul", value, weight),
    "trans_full_matrix": _transposed,
    "table": lambda graph, value, weight: graph.add("Gather", weight, value, axis=0),
    "dotmul": lambda graph, value, weight: graph.add("Mul", value, weight),
    "scaling": lambda graph, value, weight: graph.add("Mul", value, weight),
}
