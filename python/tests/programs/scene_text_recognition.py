"""Words in pictures: convolutions, the columns of what they see as a sequence, and CTC.

Written as programs of 2017 were: a class for the network, a trainer with an event handler, a model
that is saved after each pass and read again to be asked.
"""

import os
import tempfile

import numpy

import paddle.v2 as paddle

HEIGHT, WIDTH = 8, 32
LETTERS = 3
# The drawing of each letter, 6 lines of 4 pixels.
SHAPES = numpy.array(
    [
        [[1, 1, 1, 1], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]],
        [[1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1]],
        [[1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]],
    ]
)


class Model:
    def __init__(self, num_classes, is_infer=False):
        self.num_classes = num_classes
        self.image = paddle.layer.data(
            name="image",
            type=paddle.data_type.dense_vector(HEIGHT * WIDTH),
            height=HEIGHT,
            width=WIDTH,
        )
        if not is_infer:
            self.label = paddle.layer.data(
                name="label", type=paddle.data_type.integer_value_sequence(num_classes)
            )
        self.__build_nn__(is_infer)

    def __build_nn__(self, is_infer):
        features = paddle.networks.img_conv_group(
            input=self.image,
            num_channels=1,
            conv_num_filter=[8, 8],
            conv_filter_size=3,
            conv_padding=1,
            conv_act=paddle.activation.Relu(),
            conv_with_batchnorm=True,
            pool_size=2,
            pool_stride=2,
            pool_type=paddle.pooling.Max(),
        )
        sliced = paddle.layer.block_expand(
            input=features,
            num_channels=8,
            stride_x=1,
            stride_y=1,
            block_x=1,
            block_y=HEIGHT // 2,
        )
        forward = paddle.networks.simple_gru(input=sliced, size=16, act=paddle.activation.Relu())
        backward = paddle.networks.simple_gru(
            input=sliced, size=16, act=paddle.activation.Relu(), reverse=True
        )
        self.output = paddle.layer.fc(
            input=[forward, backward],
            size=self.num_classes + 1,
            act=paddle.activation.Linear(),
        )
        self.log_probs = paddle.layer.mixed(
            input=paddle.layer.identity_projection(input=self.output),
            act=paddle.activation.Softmax(),
        )
        if not is_infer:
            self.cost = paddle.layer.warp_ctc(
                input=self.output,
                label=self.label,
                size=self.num_classes + 1,
                norm_by_times=True,
                blank=self.num_classes,
            )
            self.eval = paddle.evaluator.ctc_error(input=self.output, label=self.label)


def words(count, seed):
    draw = numpy.random.RandomState(seed)
    for _ in range(count):
        length = draw.randint(1, 5)
        label = draw.randint(LETTERS, size=length)
        picture = draw.normal(0, 0.1, size=(HEIGHT, WIDTH))
        left = draw.randint(0, 3)
        for letter in label:
            top = draw.randint(0, HEIGHT - 5)
            picture[top : top + 6, left : left + 4] += SHAPES[letter]
            left += 5 + draw.randint(0, 3)
        yield picture.flatten().astype("float32"), label.tolist()


def decoded(probabilities):
    """The best class of each column, without repetitions and blanks."""
    best = probabilities.argmax(axis=1)
    kept = [each for place, each in enumerate(best) if place == 0 or each != best[place - 1]]
    return [int(each) for each in kept if each != LETTERS]


def train():
    """The share of words that are read without a mistake."""
    folder = tempfile.mkdtemp()
    model = Model(LETTERS)
    params = paddle.parameters.create(model.cost)
    trainer = paddle.trainer.SGD(
        cost=model.cost,
        parameters=params,
        update_equation=paddle.optimizer.Adam(learning_rate=1e-2),
        extra_layers=model.eval,
    )
    train_set, test_set = list(words(240, 1)), list(words(60, 2))
    errors = []

    def event_handler(event):
        if isinstance(event, paddle.event.EndPass):
            result = trainer.test(
                reader=paddle.batch(lambda: iter(test_set), 30), feeding={"image": 0, "label": 1}
            )
            errors.append(list(result.metrics.values())[0])
            with open(os.path.join(folder, f"params_pass_{event.pass_id}.tar"), "wb") as f:
                trainer.save_parameter_to_tar(f)

    trainer.train(
        reader=paddle.batch(paddle.reader.shuffle(lambda: iter(train_set), buf_size=500), 16),
        feeding={"image": 0, "label": 1},
        event_handler=event_handler,
        num_passes=10,
    )
    with open(os.path.join(folder, "params_pass_9.tar"), "rb") as f:
        saved = paddle.parameters.Parameters.from_tar(f)
    inferer = paddle.inference.Inference(output_layer=model.log_probs, parameters=saved)
    right = 0
    for image, label in test_set:
        right += decoded(inferer.infer(input=[(image,)], feeding={"image": 0})) == label
    return {"right": right / float(len(test_set)), "error": errors[-1]}
