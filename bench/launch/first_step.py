"""A training program that notes when it began, when its imports were done, and its first steps.

The network and the data are those of examples/fit_a_line; the folder is given by the launcher.
"""

import time

BEGUN = time.time()

import json  # noqa: E402
import os  # noqa: E402

import housing  # noqa: E402
import paddle.v2 as paddle  # noqa: E402
import train  # noqa: E402

IMPORTED = time.time()
STEPS = 10


def main():
    paddle.init()
    cost, _ = train.describe()
    trainer = paddle.trainer.SGD(
        cost,
        paddle.parameters.create(cost),
        paddle.optimizer.Momentum(momentum=0, learning_rate=1e-3),
        is_local=False,
    )
    samples, _ = housing.load("housing.data")
    ends = []

    def note(event):
        if isinstance(event, paddle.event.EndIteration):
            ends.append(time.time())

    reader = paddle.batch(paddle.reader.firstn(samples, STEPS * 2), 2)
    trainer.train(reader, num_passes=1, event_handler=note)
    times = {"begun": BEGUN, "imported": IMPORTED, "first_step": ends[0]}
    with open(f"times-{os.environ['PADDLE_TRAINER_ID']}.json", "w") as file:
        json.dump(times, file)


if __name__ == "__main__":
    main()
