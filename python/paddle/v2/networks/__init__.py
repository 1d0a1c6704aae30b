"""Ready-made networks of several layers."""

from typing import Any

from paddle.v2 import mistake
from paddle.v2.networks.attention import (
    dot_product_attention,
    multi_head_attention,
    simple_attention,
)
from paddle.v2.networks.image import (
    img_conv_bn_pool,
    img_conv_group,
    img_separable_conv,
    simple_img_conv_pool,
    small_vgg,
    vgg_16_network,
)
from paddle.v2.networks.recurrent import gru_group, gru_unit, lstmemory_group, lstmemory_unit
from paddle.v2.networks.sequence import (
    bidirectional_gru,
    bidirectional_lstm,
    sequence_conv_pool,
    simple_gru,
    simple_gru2,
    simple_lstm,
    text_conv_pool,
)

__all__ = [
    "bidirectional_gru",
    "bidirectional_lstm",
    "dot_product_attention",
    "gru_group",
    "gru_unit",
    "img_conv_bn_pool",
    "img_conv_group",
    "img_separable_conv",
    "lstmemory_group",
    "lstmemory_unit",
    "multi_head_attention",
    "sequence_conv_pool",
    "simple_attention",
    "simple_gru",
    "simple_gru2",
    "simple_img_conv_pool",
    "simple_lstm",
    "small_vgg",
    "text_conv_pool",
    "vgg_16_network",
]

NOT_YET = {
    "inputs": "data layers are fed in the order of the program, or as feeding says",
    "outputs": "give the layers to paddle.infer or to the trainer",
}


def __getattr__(name: str) -> Any:
    raise mistake.missing_name("paddle.networks", name, __all__, NOT_YET)
