"""Networks as ONNX files, which other programs run: `paddle.onnx_export(output, parameters, path)`.

Reading order: `message` (bytes of the format), `graph` (a network in its words), `rows` (how
sequences are fed and where their rows are), then what each layer becomes: `image`, `sequence`,
`sequence_rows`, `recurrent`, `tagging`, `context`, `mixed`, `activation` and `layers`.
"""

import os
from typing import Any

from paddle.v2 import mistake
from paddle.v2.layer.base import Layer, several
from paddle.v2.onnx.graph import LENGTHS, Graph
from paddle.v2.onnx.layers import add_layer
from paddle.v2.parameters import Parameters
from paddle.v2.topology import Topology

__all__ = ["onnx_export"]


@mistake.checked_arguments
def onnx_export(output_layer: Any, parameters: Parameters, path: str | os.PathLike[str]) -> None:
    """Writes what `paddle.infer(output_layer, parameters, …)` computes as an ONNX model.

    Inputs and outputs have the names of their layers. The first side of each is the batch, of any
    size: dense data is `[N, size]`, integer data `[N]` of int64. Sequences are not padded: the rows
    of all samples, one after the other, are `[rows, size]` or `[rows]`, and a second input or
    output, `NAME.lengths`, `[N]` of int64, says how many of them each sample has.
    """
    if not isinstance(parameters, Parameters):
        raise mistake.wrong_type(
            f"parameters must be Parameters but is {mistake.kind_of(parameters)}"
        )
    outputs = several("output_layer", output_layer)
    graph = Graph(parameters)
    layers = Topology(outputs).layers
    _check_names(layers)
    for layer in layers:
        add_layer(graph, layer)
    content = graph.encode(outputs)
    with open(path, "wb") as file:
        file.write(content)


def _check_names(layers: list[Layer]) -> None:
    names = {layer.name + LENGTHS for layer in layers if layer.shape["level"] == "sequence"}
    for layer in layers:
        if layer.name in names:
            raise mistake.invalid(
                "the layer has the name that the lengths of another layer's sequences have in "
                "ONNX; rename one of them",
                layer=layer.name,
            )
