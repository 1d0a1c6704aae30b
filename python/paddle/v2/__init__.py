"""The programming interface: `import paddle.v2 as paddle`.

A program describes a network with `layer`, chooses an `optimizer`, and trains. `docs/api.md` lists
everything, and what the original has that is not there yet.
"""

from paddle import feed, job
from paddle.v2 import (
    activation,
    attr,
    data_type,
    dataset,
    evaluator,
    event,
    image,
    layer,
    log,
    master,
    networks,
    op,
    optimizer,
    parameters,
    plot,
    pooling,
    reader,
    topology,
    trainer,
)
from paddle.v2.config import init
from paddle.v2.inference import Inference, infer
from paddle.v2.minibatch import batch
from paddle.v2.onnx import onnx_export

log.set_up()

__all__ = [
    "Inference",
    "activation",
    "attr",
    "batch",
    "data_type",
    "dataset",
    "evaluator",
    "event",
    "feed",
    "image",
    "infer",
    "init",
    "job",
    "layer",
    "master",
    "networks",
    "onnx_export",
    "op",
    "optimizer",
    "parameters",
    "plot",
    "pooling",
    "reader",
    "topology",
    "trainer",
]
