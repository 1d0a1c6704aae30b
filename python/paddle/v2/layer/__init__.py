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
from paddle.v2.layer.cost import (
    classification_cost,
    cross_entropy_cost,
    cross_entropy_with_selfnorm_cost,
    huber_classification_cost,
    huber_regression_cost,
    mse_cost,
    multi_binary_label_cross_entropy_cost,
    rank_cost,
    regression_cost,
    smooth_l1_cost,
    square_error_cost,
    sum_cost,
)
from paddle.v2.layer.data import data
from paddle.v2.layer.image import batch_norm, img_cmrnorm, img_conv, img_pool, maxout, spp
from paddle.v2.layer.mixed import MixedLayer, mixed
from paddle.v2.layer.projection import (
    Projection,
    dotmul_operator,
    dotmul_projection,
    full_matrix_projection,
    identity_projection,
    scaling_projection,
    table_projection,
    trans_full_matrix_projection,
)
from paddle.v2.layer.sequence import AggregateLevel, first_seq, last_seq, pooling
from paddle.v2.layer.weighted import embedding, factorization_machine, fc

LayerOutput = Layer

__all__ = [
    "AggregateLevel",
    "Layer",
    "LayerOutput",
    "MixedLayer",
    "Parameter",
    "Projection",
    "addto",
    "batch_norm",
    "classification_cost",
    "concat",
    "cos_sim",
    "cross_entropy_cost",
    "cross_entropy_with_selfnorm_cost",
    "data",
    "dot_prod",
    "dotmul_operator",
    "dotmul_projection",
    "dropout",
    "embedding",
    "factorization_machine",
    "fc",
    "first_seq",
    "full_matrix_projection",
    "huber_classification_cost",
    "huber_regression_cost",
    "identity_projection",
    "img_cmrnorm",
    "img_conv",
    "img_pool",
    "interpolation",
    "last_seq",
    "max_id",
    "maxout",
    "mixed",
    "mse_cost",
    "multi_binary_label_cross_entropy_cost",
    "pooling",
    "rank_cost",
    "regression_cost",
    "scaling",
    "scaling_projection",
    "slope_intercept",
    "smooth_l1_cost",
    "spp",
    "square_error_cost",
    "sum_cost",
    "table_projection",
    "trans",
    "trans_full_matrix_projection",
]

# What the original has beside these.
NOT_YET = """
    BaseGeneratedInput ExpandLevel GeneratedInput StaticInput SubsequenceInput beam_search
    bilinear_interp block_expand clip context_projection conv_operator conv_projection
    conv_shift convex_comb crf crf_decoding crop cross_channel_norm cross_entropy_over_beam ctc
    detection_output eos expand gated_unit get_output gru_step gru_step_naive grumemory hsigmoid
    img_conv3d img_pool3d kmax_seq_score l2_distance lambda_cost linear_comb lstm_step lstmemory
    memory multibox_loss multiplex nce out_prod pad power prelu print printer priorbox recurrent
    recurrent_group repeat resize roi_pool rotate row_conv row_l2_norm sampling_id scale_shift
    scale_sub_region selective_fc seq_concat seq_reshape seq_slice slice_projection
    sub_nested_seq sub_seq sum_to_one_norm switch_order tensor warp_ctc
""".split()


def __getattr__(name: str) -> Any:
    functions = [each for each in __all__ if each[0].islower()]
    raise mistake.missing_name("paddle.layer", name, functions, NOT_YET)
