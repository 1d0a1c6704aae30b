"""The networks: VGG with batch normalization and dropout, and a residual network."""

import paddle.v2 as paddle

CLASSES = 10
SIDE = 32


def describe(network, filters, depth, dropout):
    """The cost of naming what is on a picture, and the chances of the classes."""
    type = paddle.data_type.dense_vector(3 * SIDE * SIDE)
    picture = paddle.layer.data(name="image", type=type, height=SIDE, width=SIDE)
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(CLASSES))
    if network == "vgg":
        features = vgg(picture, filters, dropout)
    else:
        features = resnet(picture, filters, depth)
    chances = paddle.layer.fc(input=features, size=CLASSES, act=paddle.activation.Softmax())
    return paddle.layer.classification_cost(input=chances, label=label), chances


def vgg(picture, filters, dropout):
    """Five groups of convolutions, then two full layers; `dropout` is the share of the usual one.

    Groups have 1, 2, 4, 8 and 8 times `filters`.
    """
    layer = picture
    deep = [0.4, 0.4, 0]
    for times, usual in [(1, [0.3, 0]), (2, [0.4, 0]), (4, deep), (8, deep), (8, deep)]:
        drop_rates = [dropout * rate for rate in usual]
        layer = paddle.networks.img_conv_group(
            input=layer,
            conv_num_filter=[times * filters] * len(drop_rates),
            conv_act=paddle.activation.Relu(),
            conv_with_batchnorm=True,
            conv_batchnorm_drop_rate=drop_rates,
            pool_size=2,
            pool_stride=2,
        )
    layer = paddle.layer.dropout(input=layer, dropout_rate=0.5 * dropout)
    layer = paddle.layer.fc(input=layer, size=8 * filters, act=paddle.activation.Linear())
    layer = paddle.layer.batch_norm(
        input=layer,
        act=paddle.activation.Relu(),
        layer_attr=paddle.attr.Extra(drop_rate=0.5 * dropout),
    )
    return paddle.layer.fc(input=layer, size=8 * filters, act=paddle.activation.Linear())


def resnet(picture, filters, depth):
    """Three stages of blocks that add to what they are given, `depth` layers in all."""
    if depth < 8 or (depth - 2) % 6:
        raise SystemExit(f"--depth must be 6n + 2, as 20 or 32, but is {depth}")
    blocks = (depth - 2) // 6
    layer = convolve(picture, filters, size=3, stride=1)
    for stage in range(3):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layer = residual(layer, filters << stage, stride)
    return paddle.layer.img_pool(input=layer, pool_size=8, stride=1, pool_type=paddle.pooling.Avg())


def residual(layer, filters, stride):
    """Two convolutions, and a shortcut around them."""
    inner = convolve(layer, filters, size=3, stride=stride)
    inner = convolve(inner, filters, size=3, stride=1, act=paddle.activation.Linear())
    if stride != 1 or layer.size != inner.size:
        layer = convolve(layer, filters, size=1, stride=stride, act=paddle.activation.Linear())
    return paddle.layer.addto(input=[inner, layer], act=paddle.activation.Relu())


def convolve(layer, filters, size, stride, act=None):
    """A convolution whose output is normalized; Relu unless `act` is given."""
    convolved = paddle.layer.img_conv(
        input=layer,
        filter_size=size,
        num_filters=filters,
        stride=stride,
        padding=(size - 1) // 2,
        act=paddle.activation.Linear(),
        bias_attr=False,
    )
    return paddle.layer.batch_norm(input=convolved, act=act)
