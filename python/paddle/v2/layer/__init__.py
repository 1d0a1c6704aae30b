"""Layers: functions that take layers and return one, `paddle.layer.fc(input=x, size=10)`.

Every call is checked at once; an error names the layer, the sizes and the line. A layer of the
original that is missing here says so when it is asked for.
"""

from typing import Any

from paddle.v2 import mistake
from paddle.v2.layer.arithmetic import (
    addto,
    concat,
    cos_sim,
    dot_prod,
    dropout,
    interpolation,
    max_id,
    scaling,
    slope_intercept,
    trans,
)
from paddle.v2.layer.base import Layer, Parameter
from paddle.v2.layer.beam import (
    BeamInput,
    cross_entropy_over_beam,
)
from paddle.v2.layer.cell_step import get_output, gru_step, gru_step_naive, lstm_step
from paddle.v2.layer.cost import (
    classification_cost,
    cross_entropy_cost,
    cross_entropy_with_selfnorm_cost,
    huber_classification_cost,
    huber_regression_cost,
    mse_cost,
    multi_binary_label_cross_entropy_cost,
    regression_cost,
    smooth_l1_cost,
    square_error_cost,
    sum_cost,
)
from paddle.v2.layer.data import data
from paddle.v2.layer.detection import (
    cross_channel_norm,
    detection_output,
    multibox_loss,
    priorbox,
    roi_pool,
)
from paddle.v2.layer.generation import GeneratedInput, beam_search
from paddle.v2.layer.group import (
    BaseGeneratedInput,
    StaticInput,
    SubsequenceInput,
    recurrent_group,
)
from paddle.v2.layer.image import batch_norm, img_cmrnorm, img_conv, img_pool, maxout, spp
from paddle.v2.layer.learnt import (
    gated_unit,
    prelu,
    row_conv,
    scale_shift,
    tensor,
)
from paddle.v2.layer.mixed import MixedLayer, mixed
from paddle.v2.layer.printing import printer
from paddle.v2.layer.projection import (
    Projection,
    context_projection,
    dotmul_operator,
    dotmul_projection,
    full_matrix_projection,
    identity_projection,
    scaling_projection,
    table_projection,
    trans_full_matrix_projection,
)
from paddle.v2.layer.ranking import (
    lambda_cost,
    rank_cost,
)
from paddle.v2.layer.recurrent import grumemory, lstmemory, recurrent
from paddle.v2.layer.reframe import (
    bilinear_interp,
    block_expand,
    crop,
    pad,
    rotate,
    switch_order,
)
from paddle.v2.layer.sampled import hsigmoid, nce
from paddle.v2.layer.selection import (
    eos,
    kmax_seq_score,
    sampling_id,
    sub_nested_seq,
)
from paddle.v2.layer.sequence import AggregateLevel, first_seq, last_seq, pooling
from paddle.v2.layer.sequence_rows import (
    ExpandLevel,
    expand,
    repeat,
    seq_concat,
    seq_reshape,
    seq_slice,
    sub_seq,
)
from paddle.v2.layer.step import memory
from paddle.v2.layer.tagging import crf, crf_decoding, ctc, warp_ctc
from paddle.v2.layer.vectors import (
    clip,
    conv_shift,
    convex_comb,
    l2_distance,
    linear_comb,
    multiplex,
    out_prod,
    power,
    resize,
    row_l2_norm,
    sum_to_one_norm,
)
from paddle.v2.layer.volume import (
    img_conv3d,
    img_pool3d,
)
from paddle.v2.layer.weighted import embedding, factorization_machine, fc
from paddle.v2.model_config import Message

LayerOutput = Layer
# Not in `__all__`: who imports everything keeps the `print` of Python.
print = printer

__all__ = [
    "AggregateLevel",
    "BaseGeneratedInput",
    "BeamInput",
    "ExpandLevel",
    "GeneratedInput",
    "Layer",
    "LayerOutput",
    "MixedLayer",
    "Parameter",
    "Projection",
    "StaticInput",
    "SubsequenceInput",
    "addto",
    "batch_norm",
    "beam_search",
    "bilinear_interp",
    "block_expand",
    "classification_cost",
    "clip",
    "concat",
    "context_projection",
    "conv_shift",
    "convex_comb",
    "cos_sim",
    "crf",
    "crf_decoding",
    "crop",
    "cross_channel_norm",
    "cross_entropy_cost",
    "cross_entropy_over_beam",
    "cross_entropy_with_selfnorm_cost",
    "ctc",
    "data",
    "detection_output",
    "dot_prod",
    "dotmul_operator",
    "dotmul_projection",
    "dropout",
    "embedding",
    "eos",
    "expand",
    "factorization_machine",
    "fc",
    "first_seq",
    "full_matrix_projection",
    "gated_unit",
    "get_output",
    "gru_step",
    "gru_step_naive",
    "grumemory",
    "hsigmoid",
    "huber_classification_cost",
    "huber_regression_cost",
    "identity_projection",
    "img_cmrnorm",
    "img_conv",
    "img_conv3d",
    "img_pool",
    "img_pool3d",
    "interpolation",
    "kmax_seq_score",
    "l2_distance",
    "lambda_cost",
    "last_seq",
    "linear_comb",
    "lstm_step",
    "lstmemory",
    "max_id",
    "maxout",
    "memory",
    "mixed",
    "mse_cost",
    "multi_binary_label_cross_entropy_cost",
    "multibox_loss",
    "multiplex",
    "nce",
    "out_prod",
    "pad",
    "parse_network",
    "pooling",
    "power",
    "prelu",
    "printer",
    "priorbox",
    "rank_cost",
    "recurrent",
    "recurrent_group",
    "regression_cost",
    "repeat",
    "resize",
    "roi_pool",
    "rotate",
    "row_conv",
    "row_l2_norm",
    "sampling_id",
    "scale_shift",
    "scaling",
    "scaling_projection",
    "seq_concat",
    "seq_reshape",
    "seq_slice",
    "slope_intercept",
    "smooth_l1_cost",
    "spp",
    "square_error_cost",
    "sub_nested_seq",
    "sub_seq",
    "sum_cost",
    "sum_to_one_norm",
    "switch_order",
    "table_projection",
    "tensor",
    "trans",
    "trans_full_matrix_projection",
    "warp_ctc",
]

# What the original has beside these, and what comes nearest to it.
NOT_YET = {
    "conv_operator": "filters that are computed have no layer; the nearest is img_conv",
    "conv_projection": "use img_conv, and addto or concat for what a mixed layer would add",
    "scale_sub_region": "the nearest is scaling, of whole rows",
    "selective_fc": "use fc, which computes all columns",
    "slice_projection": "use concat of identity_projection(input, offset, size)",
    "upsample": "the nearest is bilinear_interp, or img_conv with trans=True",
}


@mistake.checked_arguments
def parse_network(output_layers: Any, extra_layers: Any = None) -> Message:
    """The network of some layers as the original's `ModelConfig`; equal ones describe the same.

    `str` of it is a text to read or to compare.
    """
    from paddle.v2.topology import Topology

    return Topology(output_layers, extra_layers).proto()


def __getattr__(name: str) -> Any:
    functions = [each for each in __all__ if each[0].islower()]
    raise mistake.missing_name("paddle.layer", name, functions, NOT_YET)
