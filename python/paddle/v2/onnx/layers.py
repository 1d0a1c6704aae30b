"""What each layer becomes, with its bias, activation and dropout."""

from collections.abc import Callable

from paddle.v2 import mistake
from paddle.v2.layer.base import Layer
from paddle.v2.onnx import image, recurrent, sequence, sequence_rows
from paddle.v2.onnx.activation import add_activation
from paddle.v2.onnx.graph import Graph
from paddle.v2.onnx.mixed import add_mixed
from paddle.v2.onnx.rows import fed_rows, joined_rows
from paddle.v2.onnx.tagging import add_crf_decoding


def add_layer(graph: Graph, layer: Layer) -> None:
    """Adds a layer whose inputs are there."""
    if layer.shape["level"] == "nested":
        raise mistake.unsupported(
            "sequences of sequences have no form in ONNX here yet", layer=layer.name
        )
    if layer.shape["value"].startswith("sparse"):
        raise mistake.unsupported("sparse data has no form in ONNX here yet", layer=layer.name)
    is_sequence = layer.shape["level"] == "sequence"
    if layer.kind == "data":
        graph.add_input(layer)
        if is_sequence:
            graph.rows[layer.name] = fed_rows(graph, layer)
        return
    if layer.kind not in _LAYERS:
        raise mistake.unsupported(
            f"a layer of kind {layer.kind} has no form in ONNX here yet; export a layer before "
            "it, and not a cost",
            layer=layer.name,
        )
    value = _LAYERS[layer.kind](graph, layer)
    # Layers that make sequences of other lengths say so themselves.
    if is_sequence and layer.name not in graph.rows:
        graph.rows[layer.name] = joined_rows(graph, layer)
    description = layer.describe()
    if description["has_bias"] and layer.kind not in _WITH_OWN_BIAS:
        value = graph.add("Add", value, graph.parameter(layer, -1))
    value = add_activation(graph, layer, layer.activation, value)
    if description["drop_rate"]:
        value = graph.add("Mul", value, graph.constant(1.0 - description["drop_rate"]))
    graph.finish(layer, value)


def _fc(graph: Graph, layer: Layer) -> str:
    parents = enumerate(layer.parents)
    products = [
        graph.add("MatMul", parent.name, graph.parameter(layer, slot)) for slot, parent in parents
    ]
    return products[0] if len(products) == 1 else graph.add("Sum", *products)


def _addto(graph: Graph, layer: Layer) -> str:
    return graph.add("Sum", *(parent.name for parent in layer.parents))


def _concat(graph: Graph, layer: Layer) -> str:
    return graph.add("Concat", *(parent.name for parent in layer.parents), axis=1)


def _dot_prod(graph: Graph, layer: Layer) -> str:
    return _sum(graph, graph.add("Mul", *(parent.name for parent in layer.parents)))


def _scaling(graph: Graph, layer: Layer) -> str:
    return graph.add("Mul", *(parent.name for parent in layer.parents))


def _interpolation(graph: Graph, layer: Layer) -> str:
    a, b, weight = (parent.name for parent in layer.parents)
    # w·a + (1 − w)·b is b + w·(a − b).
    return graph.add("Add", b, graph.add("Mul", weight, graph.add("Sub", a, b)))


def _slope_intercept(graph: Graph, layer: Layer) -> str:
    said = layer.describe()["attributes"]
    scaled = graph.add("Mul", layer.parents[0].name, graph.constant(said["slope"]))
    return graph.add("Add", scaled, graph.constant(said["intercept"]))


def _max_id(graph: Graph, layer: Layer) -> str:
    return graph.add("ArgMax", layer.parents[0].name, axis=1, keepdims=0)


def _cos_sim(graph: Graph, layer: Layer) -> str:
    said = layer.describe()["attributes"]
    a, others = (parent.name for parent in layer.parents)
    size, width = said["size"], layer.parents[0].size
    # The parts of the second input in rows of their own.
    a = graph.reshape(a, [0, 1, width])
    b = graph.reshape(others, [0, size, width])
    product = _sum(graph, graph.add("Mul", a, b), axis=2)
    lengths = [graph.add("ReduceL2", value, axes=[2], keepdims=1) for value in (a, b)]
    # The length of zeros counts as 1.
    lengths = [
        graph.add("Where", graph.add("Equal", value, zero), graph.constant(1.0), value)
        for value in lengths
        for zero in [graph.constant(0.0)]
    ]
    cosine = graph.add("Div", product, graph.add("Mul", *lengths))
    return graph.reshape(graph.add("Mul", cosine, graph.constant(said["scale"])), [0, size])


def _sum(graph: Graph, value: str, axis: int = 1) -> str:
    return graph.add("ReduceSum", value, graph.constant([axis]), keepdims=1)


_LAYERS: dict[str, Callable[[Graph, Layer], str]] = {
    "addto": _addto,
    "batch_norm": image.add_batch_norm,
    "concat": _concat,
    "cos_sim": _cos_sim,
    "crf_decoding": add_crf_decoding,
    "dot_prod": _dot_prod,
    "expand": sequence_rows.add_expand,
    "fc": _fc,
    "grumemory": recurrent.add_gru,
    "img_cmrnorm": image.add_response_norm,
    "img_conv": image.add_convolution,
    "img_pool": image.add_pooling,
    "interpolation": _interpolation,
    "lstmemory": recurrent.add_lstm,
    "max_id": _max_id,
    "maxout": image.add_maxout,
    "mixed": add_mixed,
    "pooling": sequence.add_pooling,
    "recurrent": recurrent.add_recurrent,
    "repeat": sequence_rows.add_repeat,
    "scaling": _scaling,
    "sequence_concat": sequence_rows.add_concat,
    "sequence_end": sequence.add_end,
    "sequence_reshape": sequence_rows.add_reshape,
    "sequence_slice": sequence_rows.add_slice,
    "slope_intercept": _slope_intercept,
}
_WITH_OWN_BIAS = ("batch_norm", "img_conv")
