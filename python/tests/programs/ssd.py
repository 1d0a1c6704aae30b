"""Objects in pictures: SSD, with boxes around the pixels of one feature map."""

import numpy

import paddle.v2 as paddle

SIDE, MAP = 16, 4
# Background, square, bar.
CLASSES = 3
# Boxes of one size, and of two aspect ratios beside the square.
BOXES = 3


def features(image):
    """Three convolutions, of which two halve the picture."""
    layer = image
    for number, (filters, stride) in enumerate(((8, 1), (16, 2), (16, 2))):
        layer = paddle.layer.img_conv(
            input=layer,
            filter_size=3,
            num_filters=filters,
            num_channels=3 if number == 0 else None,
            stride=stride,
            padding=1,
        )
    return layer


def network():
    image = paddle.layer.data(
        name="image",
        type=paddle.data_type.dense_vector(3 * SIDE * SIDE),
        height=SIDE,
        width=SIDE,
    )
    # Class, left, top, right, bottom, whether it is difficult to see.
    objects = paddle.layer.data(name="objects", type=paddle.data_type.dense_vector_sequence(6))
    seen = features(image)

    def answers(filters):
        """So many numbers for every pixel of the feature map."""
        return paddle.layer.img_conv(
            input=seen,
            filter_size=3,
            num_filters=filters,
            padding=1,
            act=paddle.activation.Linear(),
        )

    locations, confidences = answers(BOXES * 4), answers(BOXES * CLASSES)
    boxes = paddle.layer.priorbox(
        input=seen,
        image=image,
        min_size=[6],
        aspect_ratio=[2.0],
        variance=[0.1, 0.1, 0.2, 0.2],
    )
    cost = paddle.layer.multibox_loss(
        input_loc=locations,
        input_conf=confidences,
        priorbox=boxes,
        label=objects,
        num_classes=CLASSES,
    )
    found = paddle.layer.detection_output(
        input_loc=locations,
        input_conf=confidences,
        priorbox=boxes,
        num_classes=CLASSES,
        confidence_threshold=0.1,
        nms_threshold=0.45,
        keep_top_k=10,
    )
    return cost, paddle.evaluator.detection_map(input=found, label=objects, name="map")


def pictures(count, seed):
    """A bright square or a lying bar on a dark ground."""
    draw = numpy.random.default_rng(seed)
    for _ in range(count):
        kind = int(draw.integers(1, CLASSES))
        height, width = (6, 6) if kind == 1 else (4, 8)
        top, left = (int(draw.integers(0, SIDE - side + 1)) for side in (height, width))
        picture = draw.normal(0, 0.1, size=(3, SIDE, SIDE))
        picture[:, top : top + height, left : left + width] += 1
        sides = [left / SIDE, top / SIDE, (left + width) / SIDE, (top + height) / SIDE]
        yield picture.ravel().astype("float32"), [[kind, *sides, 0]]


def train():
    """The mean average precision, in percent, in pictures that were not learnt from."""
    cost, precision = network()
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=paddle.parameters.create(cost),
        update_equation=paddle.optimizer.Adam(learning_rate=5e-3),
        extra_layers=precision,
    )
    samples = list(pictures(240, seed=1))
    trainer.train(paddle.batch(lambda: iter(samples), 16), num_passes=12)
    tests = list(pictures(60, seed=2))
    return {"map": trainer.test(paddle.batch(lambda: iter(tests), 60)).metrics["map"]}
