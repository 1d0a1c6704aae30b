"""Networks as ONNX files, which other programs run: `paddle.onnx_export(output, parameters, path)`.

Reading order: `message` (bytes of the format), `graph` (a network in its words), `image`, `mixed`
and `layers` (what each layer becomes).
"""

import os
from typing import Any

from paddle.v2 import mistake
from paddle.v2.layer.base import several
from paddle.v2.onnx.graph import Graph
from paddle.v2.onnx.layers import add_layer
from paddle.v2.parameters import Parameters
from paddle.v2.topology import Topology

__all__ = ["onnx_export"]


@mistake.checked_arguments
def onnx_export(output_layer: Any, parameters: Parameters, path: str | os.PathLike[str]) -> None:
    """Writes what `paddle.infer(output_layer, parameters, …)` computes as an ONNX model.

    Inputs and outputs have the names of their layers. The first side of each is the batch, of any
    size: dense data is `[N, size]`, integer data `[N]` of int64.
    """
    if not isinstance(parameters, Parameters):
        raise mistake.wrong_type(
            f"parameters must be Parameters but is {mistake.kind_of(parameters)}"
        )
    outputs = several("output_layer", output_layer)
    graph = Graph(parameters)
    for layer in Topology(outputs).layers:
        add_layer(graph, layer)
    content = graph.encode([layer.name for layer in outputs])
    with open(path, "wb") as file:
        file.write(content)
