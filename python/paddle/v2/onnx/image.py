"""What layers over pictures become: rows here, `[N, channels, height, width]` there."""

import numpy

from paddle.v2 import mistake
from paddle.v2.layer.base import Layer
from paddle.v2.onnx.graph import Graph


def add_convolution(graph: Graph, layer: Layer) -> str:
    """A convolution with its bias, or a transposed one."""
    said = layer.describe()["attributes"]
    channels, height, width = _picture(layer.parents[0], said["channels"])
    narrow, wide = channels, said["filters"]
    if not said["is_transposed"]:
        narrow, wide = said["filters"], channels
    weight = graph.parameter(layer, 0, [narrow, wide // said["groups"], *said["filter_size"]])
    inputs = [graph.reshape(layer.parents[0].name, [0, channels, height, width]), weight]
    has_bias = layer.describe()["has_bias"]
    if has_bias and said["is_bias_shared"]:
        inputs.append(graph.parameter(layer, 1, [said["filters"]]))
    convolved = graph.add(
        "ConvTranspose" if said["is_transposed"] else "Conv",
        *inputs,
        kernel_shape=said["filter_size"],
        strides=said["stride"],
        pads=said["padding"] * 2,
        dilations=said["dilation"],
        group=said["groups"],
    )
    row = graph.reshape(convolved, [0, layer.size])
    if has_bias and not said["is_bias_shared"]:
        return graph.add("Add", row, graph.parameter(layer, 1))
    return row


def add_pooling(graph: Graph, layer: Layer) -> str:
    """Windows over a picture. What is rounded up here is padding there."""
    said = layer.describe()["attributes"]
    picture = _picture(layer.parents[0], said["channels"])
    columns = [said["pool_size"], said["stride"], said["padding"]]
    sides = zip(picture[1:], layer.shape["frame"], *columns, strict=True)
    ends = []
    for length, places, window, stride, padding in sides:
        ends.append(max(padding, (places - 1) * stride + window - length - padding))
        if ends[-1] >= window:
            raise mistake.unsupported(
                "a window of this layer sees nothing, which ONNX does not know", layer=layer.name
            )
    value = graph.reshape(layer.parents[0].name, [0, *picture])
    pooled = graph.add(
        "MaxPool" if said["pooling"] == "max" else "AveragePool",
        value,
        kernel_shape=said["pool_size"],
        strides=said["stride"],
        pads=[*said["padding"], *ends],
    )
    return graph.reshape(pooled, [0, layer.size])


def add_batch_norm(graph: Graph, layer: Layer) -> str:
    """As a test computes it: with the moving averages, which makes it a factor and a sum."""
    said = layer.describe()["attributes"]
    if not said["use_global_stats"]:
        raise mistake.unsupported(
            "batch_norm with use_global_stats=False looks at the batch; ONNX has the moving "
            "averages",
            layer=layer.name,
        )
    scale, mean, variance = (graph.values(layer, slot).astype("float64") for slot in range(3))
    bias = graph.values(layer, 3) if layer.describe()["has_bias"] else numpy.zeros(1)
    factor = scale / numpy.sqrt(numpy.maximum(variance, 0) + said["epsilon"])
    shift = bias - mean * factor
    channels = scale.size
    value = graph.reshape(layer.parents[0].name, [0, channels, layer.size // channels])
    for operator, numbers in (("Mul", factor), ("Add", shift)):
        value = graph.add(operator, value, graph.constant(numbers.reshape(1, channels, 1)))
    return graph.reshape(value, [0, layer.size])


def add_maxout(graph: Graph, layer: Layer) -> str:
    """The largest of every few channels."""
    said = layer.describe()["attributes"]
    channels, height, width = _picture(layer.parents[0], said["channels"])
    groups = said["groups"]
    dims = [0, channels // groups, groups, height * width]
    value = graph.reshape(layer.parents[0].name, dims)
    largest = graph.add("ReduceMax", value, axes=[2], keepdims=0)
    return graph.reshape(largest, [0, layer.size])


def add_response_norm(graph: Graph, layer: Layer) -> str:
    """Normalization across channels."""
    said = layer.describe()["attributes"]
    picture = _picture(layer.parents[0], said["channels"])
    value = graph.reshape(layer.parents[0].name, [0, *picture])
    normalized = graph.add(
        "LRN", value, size=said["size"], alpha=said["scale"], beta=said["power"], bias=1.0
    )
    return graph.reshape(normalized, [0, layer.size])


def _picture(layer: Layer, channels: int | None) -> tuple[int, int, int]:
    """Channels, height and width, as the engine finds them."""
    frame = layer.shape.get("frame")
    if frame is not None:
        height, width = frame
        return layer.size // (height * width), height, width
    if channels is None:
        raise mistake.invalid("the input is not known to be a picture", layer=layer.name)
    side = round((layer.size // channels) ** 0.5)
    return channels, side, side
