"""What activations become."""

from paddle.v2 import mistake
from paddle.v2.layer.base import Layer
from paddle.v2.onnx.graph import Graph
from paddle.v2.onnx.sequence import add_sequence_softmax

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


def add_activation(graph: Graph, layer: Layer, name: str, value: str) -> str:
    """The function of the engine's name `name`, of numbers in rows."""
    if name == "linear":
        return value
    if name in _PLAIN:
        return graph.add(_PLAIN[name], value)
    if name == "softmax":
        return graph.add("Softmax", value, axis=1)
    if name == "sequence_softmax":
        return add_sequence_softmax(graph, layer, value)
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
