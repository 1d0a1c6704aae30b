"""Ready-made networks of several layers: none yet, as all of the original's need layers to come."""

from typing import Any

from paddle.v2 import mistake

__all__: list[str] = []

NOT_YET = """
    bidirectional_gru bidirectional_lstm dot_product_attention gru_group gru_unit img_conv_bn_pool
    img_conv_group img_separable_conv inputs lstmemory_group lstmemory_unit multi_head_attention
    outputs sequence_conv_pool simple_attention simple_gru simple_gru2 simple_img_conv_pool
    simple_lstm small_vgg text_conv_pool vgg_16_network
""".split()


def __getattr__(name: str) -> Any:
    raise mistake.missing_name("paddle.networks", name, __all__, NOT_YET)
