"""What each layer becomes, with its bias, activation and dropout."""

from collections.abc import Callable

from paddle.v2 import mistake
from paddle.v2.layer.base import Layer
from paddle.v2.onnx import image
from paddle.v2.onnx.graph import Graph
from paddle.v2.onnx.mixed import add_mixed


def add_layer(graph: Graph, layer: Layer) -> None:
    """Adds a layer whose inputs are there."""
    if layer.shape["level"] != "single" or layer.shape["value"].startswith("sparse"):
        raise mistake.unsupported(
            "sequences and sparse data have no form in ONNX here yet", layer=layer.name
        )
    if layer.kind == "data":
        graph.add_input(layer)
        return
    if layer.kind not in _LAYERS:
        raise mistake.unsupported(
            f"a layer of kind {layer.kind} has no form in ONNX here yet; export a layer before "
            "it, and not a cost",
            layer=layer.name,
        )
    value = _LAYERS[layer.kind](graph, layer)
    description = layer.describe()
    if description["has_bias"] and layer.kind not in _WITH_OWN_BIAS:
        value = graph.add("Add", value, graph.parameter(layer, -1))
    if layer.activation != "linear":
        value = _activate(graph, layer, value)
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
    "dot_prod": _dot_prod,
    "fc": _fc,
    "img_cmrnorm": image.add_response_norm,
    "img_conv": image.add_convolution,
    "img_pool": image.add_pooling,
    "interpolation": _interpolation,
    "max_id": _max_id,
    "maxout": image.add_maxout,
    "mixed": add_mixed,
    "scaling": _scaling,
    "slope_intercept": _slope_intercept,
}
_WITH_OWN_BIAS = ("batch_norm", "img_conv")

_PLAIN = {
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "relu": "Relu",
    "soft_relu": "Softplus",
    "abs": "Abs",
    "exponential": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "reciprocal": "Reciprocal",
    "soft_sign": "Softsign",
}


def _activate(graph: Graph, layer: Layer, value: str) -> str:
    name = layer.activation
    if name in _PLAIN:
        return graph.add(_PLAIN[name], value)
    if name == "softmax":
        return graph.add("Softmax", value, axis=1)
    if name == "brelu":
        return graph.add("Clip", value, graph.constant(0.0), graph.constant(24.0))
    if name == "square":
        return graph.add("Mul", value, value)
    if name == "stanh":
        inner = graph.add("Tanh", graph.add("Mul", value, graph.constant(2.0 / 3.0)))
        return graph.add("Mul", inner, graph.constant(1.7159))
    raise mistake.unsupported(
        f"the activation {name} has no form in ONNX here yet", layer=layer.name
    )
