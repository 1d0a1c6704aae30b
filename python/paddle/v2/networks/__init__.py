"""Ready-made networks of several layers. Those over sequences are to come."""

from typing import Any

from paddle.v2 import mistake
from paddle.v2.networks.image import (
    img_conv_bn_pool,
    img_conv_group,
    simple_img_conv_pool,
    small_vgg,
    vgg_16_network,
)

__all__ = [
    "img_conv_bn_pool",
    "img_conv_group",
    "simple_img_conv_pool",
    "small_vgg",
    "vgg_16_network",
]

NOT_YET = """
    bidirectional_gru bidirectional_lstm dot_product_attention gru_group gru_unit
    img_separable_conv inputs lstmemory_group lstmemory_unit multi_head_attention outputs
    sequence_conv_pool simple_attention simple_gru simple_gru2 simple_lstm text_conv_pool
""".split()


def __getattr__(name: str) -> Any:
    raise mistake.missing_name("paddle.networks", name, __all__, NOT_YET)
