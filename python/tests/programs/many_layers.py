"""A network with every kind of parameter, trained where its job says: alone or on servers.

`python many_layers.py MODEL [norm]` writes the model to a tar. Trainers share each batch, so that
any number of them makes the updates that one would. With `norm` there is a batch normalization,
which measures what each trainer sees.
"""

import sys

import numpy

import paddle.v2 as paddle

LAYER, ACT = paddle.layer, paddle.activation
BATCH, BATCHES = 8, 6


def network(has_norm):
    x = LAYER.data(name="x", type=paddle.data_type.dense_vector(6))
    clicks = LAYER.data(name="clicks", type=paddle.data_type.sparse_vector(50))
    picture = LAYER.data(
        name="picture", type=paddle.data_type.dense_vector(2 * 4 * 4), height=4, width=4
    )
    rows = LAYER.data(name="rows", type=paddle.data_type.dense_vector_sequence(3))
    wide = LAYER.fc(
        input=clicks,
        size=4,
        param_attr=paddle.attr.Param(name="clicks_w", sparse_update=True, initial_std=0.1),
    )
    sides = [
        LAYER.img_conv(input=picture, filter_size=3, padding=1, num_filters=each, act=ACT.Linear())
        for each in (2, 3)
    ]
    seen = LAYER.concat(input=sides, act=ACT.Tanh(), name="seen")
    if has_norm:
        seen = LAYER.batch_norm(input=seen, act=ACT.Tanh(), name="norm")
    seen = LAYER.prelu(LAYER.cross_channel_norm(seen, name="channels"), name="prelu")
    ahead = LAYER.last_seq(LAYER.row_conv(rows, context_len=2, name="ahead"))
    shifted = LAYER.scale_shift(LAYER.tensor(x, ahead, size=4, name="tensor"), name="shift")
    gated = LAYER.gated_unit(input=[x], size=4, name="gated")
    joined = LAYER.concat(input=[wide, shifted, gated, seen])
    scores = [
        LAYER.fc(input=joined, size=1, act=ACT.Linear(), name=side) for side in ("left", "right")
    ]
    label = LAYER.data(name="label", type=paddle.data_type.integer_value(2))
    weight = LAYER.data(name="weight", type=paddle.data_type.dense_vector(1))
    # One with four inputs, and one with an integer for a row of numbers.
    ranked = LAYER.rank_cost(left=scores[0], right=scores[1], label=label, weight=weight)
    first = numpy.linspace(-0.2, 0.2, joined.size * 2).reshape(joined.size, 2)
    tags = LAYER.fc(
        input=joined,
        size=2,
        act=ACT.Sigmoid(),
        name="tags",
        param_attr=paddle.attr.Param(initializer=lambda _: first),
    )
    tagged = LAYER.multi_binary_label_cross_entropy_cost(input=tags, label=label)
    return [ranked, tagged]


def samples(count):
    draw = numpy.random.RandomState(3)
    for _ in range(count):
        ids = sorted(set(draw.randint(50, size=3).tolist()))
        yield (
            draw.normal(size=6),
            [(each, float(draw.normal())) for each in ids],
            draw.normal(size=32),
            draw.normal(size=(draw.randint(1, 4), 3)),
            int(draw.randint(2)),
            [float(draw.uniform(0.5, 1.5))],
        )


def batches():
    """The part of each batch that is this trainer's."""
    everything = list(samples(BATCH * BATCHES))
    for begin in range(0, len(everything), BATCH):
        yield everything[begin : begin + BATCH][paddle.job.rank :: paddle.job.trainers]


def main(path, *options):
    """Trains, and writes the model."""
    paddle.init(seed=4)
    cost = network(has_norm="norm" in options)
    trainer = paddle.trainer.SGD(
        cost,
        paddle.parameters.create(cost),
        paddle.optimizer.Momentum(learning_rate=0.02, momentum=0.5),
    )
    trainer.train(batches, num_passes=2)
    if paddle.job.is_chief:
        with open(path, "wb") as file:
            trainer.save_parameter_to_tar(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
