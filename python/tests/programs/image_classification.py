"""Classes of pictures: GoogLeNet's inception modules, and residual blocks."""

import numpy

import paddle.v2 as paddle

SIDE, CLASSES = 12, 3
LINEAR = paddle.activation.Linear()


def data():
    image = paddle.layer.data(
        name="image",
        type=paddle.data_type.dense_vector(3 * SIDE * SIDE),
        height=SIDE,
        width=SIDE,
    )
    return image, paddle.layer.data(name="label", type=paddle.data_type.integer_value(CLASSES))


def inception(name, input, channels, sizes):
    """Convolutions of 1, 3 and 5 and a pooling beside one another, joined over channels."""

    def convolution(part, input, channels, filters, side):
        return paddle.layer.img_conv(
            name=f"{name}_{part}",
            input=input,
            filter_size=side,
            num_channels=channels,
            num_filters=filters,
            padding=side // 2,
        )

    one, three_reduced, three, five_reduced, five, pooled = sizes
    pooling = paddle.layer.img_pool(
        name=f"{name}_max", input=input, pool_size=3, num_channels=channels, stride=1, padding=1
    )
    return paddle.layer.concat(
        name=name,
        input=[
            convolution("1", input, channels, one, 1),
            convolution(
                "3", convolution("3r", input, channels, three_reduced, 1), three_reduced, three, 3
            ),
            convolution(
                "5", convolution("5r", input, channels, five_reduced, 1), five_reduced, five, 5
            ),
            convolution("proj", pooling, channels, pooled, 1),
        ],
    )


def googlenet(image):
    """Two modules with a pooling between them, and a second, earlier output as in the original."""
    stem = paddle.layer.img_conv(
        input=image, filter_size=3, num_channels=3, num_filters=8, stride=1, padding=1
    )
    pooled = paddle.layer.img_pool(input=stem, pool_size=2, stride=2)
    first = inception("ince3a", pooled, 8, (4, 4, 6, 2, 4, 2))
    early = paddle.layer.fc(input=first, size=CLASSES, act=paddle.activation.Softmax())
    between = paddle.layer.img_pool(input=first, pool_size=2, stride=2, num_channels=16)
    second = inception("ince3b", between, 16, (4, 4, 6, 2, 4, 2))
    mean = paddle.layer.img_pool(
        input=second, pool_size=3, stride=3, num_channels=16, pool_type=paddle.pooling.Avg()
    )
    dropped = paddle.layer.dropout(input=mean, dropout_rate=0.1)
    return (
        paddle.layer.fc(input=dropped, size=CLASSES, act=paddle.activation.Softmax()),
        early,
    )


def projected(name, input, channels, sizes):
    """The same module as one `concat` of convolutions that are projections, with one bias."""
    one, three_reduced, three, five_reduced, five, pooled = sizes

    def reduced(part, filters):
        return paddle.layer.img_conv(
            name=f"{name}_{part}",
            input=input,
            filter_size=1,
            num_channels=channels,
            num_filters=filters,
            stride=1,
            padding=0,
        )

    three_in, five_in = reduced("3r", three_reduced), reduced("5r", five_reduced)
    pooling = paddle.layer.img_pool(
        name=f"{name}_max", input=input, pool_size=3, num_channels=channels, stride=1, padding=1
    )
    convolutions = [
        paddle.layer.conv_projection(
            input=layer,
            filter_size=side,
            num_channels=layer.num_filters,
            num_filters=filters,
            stride=1,
            padding=side // 2,
        )
        for layer, side, filters in (
            (input, 1, one),
            (three_in, 3, three),
            (five_in, 5, five),
            (pooling, 1, pooled),
        )
    ]
    return paddle.layer.concat(
        name=name, input=convolutions, bias_attr=True, act=paddle.activation.Relu()
    )


def inception_net(image):
    """A convolution, such a module, and the mean of its channels."""
    stem = paddle.layer.img_conv(
        input=image, filter_size=3, num_channels=3, num_filters=8, stride=1, padding=1
    )
    halved = paddle.layer.img_pool(input=stem, pool_size=2, stride=2)
    module = projected("ince", halved, 8, (4, 4, 6, 2, 4, 2))
    mean = paddle.layer.img_pool(
        input=module, pool_size=6, stride=6, num_channels=16, pool_type=paddle.pooling.Avg()
    )
    return (paddle.layer.fc(input=mean, size=CLASSES, act=paddle.activation.Softmax()),)


def normalized(input, filters, side, stride, padding, act=None, channels=None):
    convolution = paddle.layer.img_conv(
        input=input,
        filter_size=side,
        num_channels=channels,
        num_filters=filters,
        stride=stride,
        padding=padding,
        act=LINEAR,
        bias_attr=False,
    )
    return paddle.layer.batch_norm(input=convolution, act=act or paddle.activation.Relu())


def block(input, channels, filters, stride):
    """Two convolutions and the way around them."""
    around = input
    if (channels, stride) != (filters, 1):
        around = normalized(input, filters, 1, stride, 0, LINEAR)
    inside = normalized(input, filters, 3, stride, 1)
    inside = normalized(inside, filters, 3, 1, 1, LINEAR)
    return paddle.layer.addto(input=[inside, around], act=paddle.activation.Relu())


def resnet(image):
    first = normalized(image, 6, 3, 1, 1, channels=3)
    second = block(first, 6, 6, 1)
    third = block(second, 6, 12, 2)
    mean = paddle.layer.img_pool(
        input=third, pool_size=SIDE // 2, stride=1, pool_type=paddle.pooling.Avg()
    )
    return (paddle.layer.fc(input=mean, size=CLASSES, act=paddle.activation.Softmax()),)


def pictures(count, seed):
    """Stripes across, down, or both, in some colour and with noise."""
    draw = numpy.random.default_rng(seed)
    for number in range(count):
        label = number % CLASSES
        wave = numpy.sin(numpy.arange(SIDE) * draw.uniform(1.2, 1.8) + draw.uniform(0, 6))
        stripes = {0: wave[:, None], 1: wave[None, :], 2: wave[:, None] * wave[None, :]}[label]
        colour = draw.uniform(0.4, 1, size=(3, 1, 1))
        picture = colour * stripes + draw.normal(0, 0.2, size=(3, SIDE, SIDE))
        yield picture.ravel().astype("float32"), label


def train(network):
    """The share of new pictures that are taken for another class."""
    image, label = data()
    outputs = network(image)
    costs = [paddle.layer.classification_cost(input=each, label=label) for each in outputs[:1]]
    costs += [
        paddle.layer.cross_entropy_cost(input=each, label=label, coeff=0.3) for each in outputs[1:]
    ]
    trainer = paddle.trainer.SGD(
        cost=costs,
        parameters=paddle.parameters.create(costs),
        update_equation=paddle.optimizer.Momentum(
            momentum=0.9,
            learning_rate=0.05 / 16,
            regularization=paddle.optimizer.L2Regularization(0.0005 * 16),
        ),
    )
    samples = list(pictures(240, seed=1))
    trainer.train(paddle.batch(paddle.reader.shuffle(lambda: iter(samples), 240), 16), num_passes=8)
    tests = list(pictures(60, seed=2))
    tested = trainer.test(paddle.batch(lambda: iter(tests), 60))
    return {"error": tested.metrics["classification_error_evaluator"]}
