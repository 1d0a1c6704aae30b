"""A training program that notes when it began, when its imports were done, and its first step.

The network is that of examples/fit_a_line, 13 features and a line; the data is made up.
"""

import time

BEGUN = time.time()

import json  # noqa: E402
import os  # noqa: E402

import numpy as np  # noqa: E402

import paddle.v2 as paddle  # noqa: E402

IMPORTED = time.time()
FEATURES = 13
SAMPLES = 20


def main():
    paddle.init()
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(FEATURES))
    y = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
    price = paddle.layer.fc(input=x, size=1, act=paddle.activation.Linear())
    cost = paddle.layer.square_error_cost(input=price, label=y)
    trainer = paddle.trainer.SGD(
        cost,
        paddle.parameters.create(cost),
        paddle.optimizer.Momentum(momentum=0, learning_rate=1e-3),
        is_local=False,
    )
    ends = []

    def note(event):
        if isinstance(event, paddle.event.EndIteration):
            ends.append(time.time())

    trainer.train(paddle.batch(read, batch_size=2), num_passes=1, event_handler=note)
    times = {"begun": BEGUN, "imported": IMPORTED, "first_step": ends[0]}
    with open(f"times-{os.environ['PADDLE_TRAINER_ID']}.json", "w") as file:
        json.dump(times, file)


def read():
    draw = np.random.default_rng(1)
    for _ in range(SAMPLES):
        yield draw.random(FEATURES), draw.random(1)


if __name__ == "__main__":
    main()
