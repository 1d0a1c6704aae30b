"""Networks over pictures: convolutions with pooling, and VGG."""

from collections.abc import Sequence
from typing import Any

from paddle.v2 import activation, attr, mistake, naming, pooling
from paddle.v2.layer.arithmetic import dropout
from paddle.v2.layer.base import Layer
from paddle.v2.layer.image import batch_norm, img_conv, img_pool
from paddle.v2.layer.weighted import fc


@mistake.checked_arguments
def simple_img_conv_pool(
    input: Layer,
    filter_size: int,
    num_filters: int,
    pool_size: int,
    name: str | None = None,
    pool_type: object = None,
    act: object = None,
    groups: int = 1,
    conv_stride: int = 1,
    conv_padding: int = 0,
    bias_attr: object = None,
    num_channel: int | None = None,
    param_attr: object = None,
    shared_bias: bool = True,
    conv_layer_attr: object = None,
    pool_stride: int = 1,
    pool_padding: int = 0,
    pool_layer_attr: object = None,
) -> Layer:
    """A convolution, then pooling."""
    name = naming.choose(name, "conv_pool")
    convolved = img_conv(
        name=f"{name}_conv",
        input=input,
        filter_size=filter_size,
        num_filters=num_filters,
        num_channels=num_channel,
        act=act,
        groups=groups,
        stride=conv_stride,
        padding=conv_padding,
        bias_attr=bias_attr,
        param_attr=param_attr,
        shared_biases=shared_bias,
        layer_attr=conv_layer_attr,
    )
    return img_pool(
        name=f"{name}_pool",
        input=convolved,
        pool_size=pool_size,
        pool_type=pool_type,
        stride=pool_stride,
        padding=pool_padding,
        layer_attr=pool_layer_attr,
    )


@mistake.checked_arguments
def img_conv_bn_pool(
    input: Layer,
    filter_size: int,
    num_filters: int,
    pool_size: int,
    name: str | None = None,
    pool_type: object = None,
    act: object = None,
    groups: int = 1,
    conv_stride: int = 1,
    conv_padding: int = 0,
    conv_bias_attr: object = None,
    num_channel: int | None = None,
    conv_param_attr: object = None,
    shared_bias: bool = True,
    conv_layer_attr: object = None,
    bn_param_attr: object = None,
    bn_bias_attr: object = None,
    bn_layer_attr: object = None,
    pool_stride: int = 1,
    pool_padding: int = 0,
    pool_layer_attr: object = None,
) -> Layer:
    """A convolution, batch normalization with `act`, then pooling."""
    name = naming.choose(name, "conv_bn_pool")
    convolved = img_conv(
        name=f"{name}_conv",
        input=input,
        filter_size=filter_size,
        num_filters=num_filters,
        num_channels=num_channel,
        act=activation.Linear(),
        groups=groups,
        stride=conv_stride,
        padding=conv_padding,
        bias_attr=conv_bias_attr,
        param_attr=conv_param_attr,
        shared_biases=shared_bias,
        layer_attr=conv_layer_attr,
    )
    normalized = batch_norm(
        name=f"{name}_bn",
        input=convolved,
        act=act,
        bias_attr=bn_bias_attr,
        param_attr=bn_param_attr,
        layer_attr=bn_layer_attr,
    )
    return img_pool(
        name=f"{name}_pool",
        input=normalized,
        pool_size=pool_size,
        pool_type=pool_type,
        stride=pool_stride,
        padding=pool_padding,
        layer_attr=pool_layer_attr,
    )


@mistake.checked_arguments
def img_conv_group(
    input: Layer,
    conv_num_filter: Sequence[int],
    pool_size: int,
    num_channels: int | None = None,
    conv_padding: int | Sequence[int] = 1,
    conv_filter_size: int | Sequence[int] = 3,
    conv_act: object = None,
    conv_with_batchnorm: bool | Sequence[bool] = False,
    conv_batchnorm_drop_rate: float | Sequence[float] = 0,
    pool_stride: int = 1,
    pool_type: object = None,
    param_attr: object = None,
) -> Layer:
    """Convolutions one after the other, then pooling: a block of VGG.

    What may be a sequence is one for each convolution. `conv_batchnorm_drop_rate` is the dropout
    after a batch normalization.
    """
    filters = list(conv_num_filter)
    each = {
        "conv_padding": conv_padding,
        "conv_filter_size": conv_filter_size,
        "conv_act": conv_act,
        "conv_with_batchnorm": conv_with_batchnorm,
        "conv_batchnorm_drop_rate": conv_batchnorm_drop_rate,
    }
    columns = [_for_each(name, value, len(filters)) for name, value in each.items()]
    layer = input
    for place, count in enumerate(filters):
        padding, size, act, is_normalized, drop_rate = (column[place] for column in columns)
        layer = img_conv(
            input=layer,
            filter_size=size,
            num_filters=count,
            num_channels=num_channels if place == 0 else None,
            padding=padding,
            act=activation.Linear() if is_normalized else act,
            param_attr=param_attr,
        )
        if is_normalized:
            extra = attr.ExtraAttr(drop_rate=drop_rate) if drop_rate else None
            layer = batch_norm(input=layer, act=act, layer_attr=extra)
    return img_pool(input=layer, stride=pool_stride, pool_size=pool_size, pool_type=pool_type)


@mistake.checked_arguments
def small_vgg(input_image: Layer, num_channels: int, num_classes: int) -> Layer:
    """VGG for pictures of 32 x 32, with batch normalization and dropout: probabilities."""
    layer = input_image
    channels: int | None = num_channels
    blocks = [(64, [0.3, 0]), (128, [0.4, 0]), (256, [0.4, 0.4, 0]), (512, [0.4, 0.4, 0])]
    for filters, drop_rates in blocks:
        layer = img_conv_group(
            input=layer,
            conv_num_filter=[filters] * len(drop_rates),
            pool_size=2,
            num_channels=channels,
            conv_act=activation.Relu(),
            conv_with_batchnorm=True,
            conv_batchnorm_drop_rate=drop_rates,
            pool_stride=2,
            pool_type=pooling.Max(),
        )
        channels = None
    layer = img_pool(input=layer, stride=2, pool_size=2, pool_type=pooling.Max())
    layer = dropout(input=layer, dropout_rate=0.5)
    extra = attr.ExtraAttr(drop_rate=0.5)
    layer = fc(input=layer, size=512, layer_attr=extra, act=activation.Linear())
    layer = batch_norm(input=layer, act=activation.Relu())
    return fc(input=layer, size=num_classes, act=activation.Softmax())


@mistake.checked_arguments
def vgg_16_network(input_image: Layer, num_channels: int, num_classes: int = 1000) -> Layer:
    """VGG of 16 layers: probabilities."""
    layer = input_image
    channels: int | None = num_channels
    for filters, count in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]:
        layer = img_conv_group(
            input=layer,
            conv_num_filter=[filters] * count,
            pool_size=2,
            num_channels=channels,
            conv_act=activation.Relu(),
            pool_stride=2,
            pool_type=pooling.Max(),
        )
        channels = None
    for _ in range(2):
        extra = attr.ExtraAttr(drop_rate=0.5)
        layer = fc(input=layer, size=4096, act=activation.Relu(), layer_attr=extra)
    return fc(input=layer, size=num_classes, act=activation.Softmax())


def _for_each(name: str, value: Any, count: int) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise mistake.invalid(
            f"{name} has {len(value)} entries but there are {count} convolutions; give one for "
            "all, or one for each"
        )
    return list(value)


@mistake.checked_arguments
def img_separable_conv(
    input: Layer,
    num_channels: int,
    num_out_channels: int,
    filter_size: int,
    stride: int = 1,
    padding: int = 0,
    depth_multiplier: int = 1,
    act: object = None,
    bias_attr: object = None,
    param_attr: object = None,
    shared_bias: bool = True,
    layer_type: str = "exconv",
    name: str | None = None,
) -> Layer:
    """A convolution of each channel by itself, then one over all channels pixel by pixel.

    depth_multiplier: filters of each channel.
    layer_type:       accepted and ignored.
    """
    name = naming.choose(name, "separable_conv")
    channels = mistake.whole("num_channels", num_channels)
    deeper = channels * mistake.whole("depth_multiplier", depth_multiplier)
    depthwise = img_conv(
        name=f"{name}_depthwise_conv",
        input=input,
        num_channels=channels,
        num_filters=deeper,
        groups=channels,
        filter_size=filter_size,
        stride=stride,
        padding=padding,
        act=activation.Linear(),
        bias_attr=bias_attr,
        param_attr=param_attr,
        shared_biases=shared_bias,
        layer_type=layer_type,
    )
    return img_conv(
        name=f"{name}_pointwise_conv",
        input=depthwise,
        num_channels=deeper,
        num_filters=num_out_channels,
        filter_size=1,
        stride=1,
        padding=0,
        act=act,
        bias_attr=bias_attr,
        param_attr=param_attr,
        shared_biases=shared_bias,
    )
