"""Predicts house prices with a line, in one process or on a cluster.

The program is the same in both cases: `paddle.job` says who it is, and servers that the environment
names are trained on.
"""

import argparse
import gzip
import itertools
import os
import random

import paddle.v2 as paddle
from paddle.v2.dataset import uci_housing

PRESETS = {
    "full": {"batch_size": 2, "learning_rate": 1e-3},
    "test": {"batch_size": 8, "learning_rate": 2e-3},
}


def main():
    arguments = parse_arguments()
    if not os.path.exists(arguments.data):
        raise SystemExit(
            f"there is no {arguments.data}; `python generate.py` makes data/housing.data"
        )
    # Trainers shuffle alike, and each takes every n-th sample: together they see the batches that
    # one process would see.
    random.seed(arguments.seed)
    paddle.init(seed=arguments.seed)

    cost, _ = describe()
    parameters = paddle.parameters.create(cost)
    if arguments.init_model:
        with gzip.open(arguments.init_model) as file:
            parameters.init_from_tar(file)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=parameters,
        update_equation=paddle.optimizer.Momentum(
            momentum=0, learning_rate=arguments.learning_rate, is_async=arguments.async_mode
        ),
    )
    train_data, test_data = uci_housing.load_data(arguments.data)

    def report(event):
        if isinstance(event, paddle.event.EndIteration) and event.batch_id % 100 == 0:
            print(f"Pass {event.pass_id}, Batch {event.batch_id}, Cost {event.cost:f}")
        if isinstance(event, paddle.event.EndPass):
            tested = trainer.test(paddle.batch(test_data, arguments.batch_size))
            print(f"Test {event.pass_id}, Cost {tested.cost:f}", flush=True)
            if paddle.job.is_chief:
                path = f"{arguments.output}/fit-a-line_pass_{event.pass_id:05}.tar.gz"
                with gzip.open(path, "wb") as file:
                    trainer.save_parameter_to_tar(file)

    os.makedirs(arguments.output, exist_ok=True)
    trainer.train(
        reader=paddle.batch(own_samples(train_data, arguments), arguments.batch_size),
        num_passes=arguments.num_passes,
        event_handler=report,
    )


def own_samples(train_data, arguments):
    """A reader of what this trainer learns from: what a master gives it, or its share of all."""
    if arguments.recordio:
        dealt_out = paddle.reader.creator.cloud_reader(arguments.recordio)
        return paddle.reader.shuffle(dealt_out, buf_size=500)
    shuffled = paddle.reader.shuffle(train_data, buf_size=500)
    return lambda: itertools.islice(shuffled(), paddle.job.rank, None, paddle.job.trainers)


def describe():
    """The cost of predicting the price, and the prediction."""
    features = len(uci_housing.feature_names)
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(features))
    y = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
    price = paddle.layer.fc(input=x, size=1, act=paddle.activation.Linear())
    return paddle.layer.square_error_cost(input=price, label=y), price


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="data/housing.data")
    parser.add_argument("--recordio", help="train on these files, dealt out by the job's master")
    parser.add_argument("--output", default=paddle.job.output_dir, help="folder of the models")
    parser.add_argument("--init_model", help="a model to go on with")
    parser.add_argument("--preset", choices=PRESETS, default="full")
    parser.add_argument("--num_passes", type=int, default=paddle.job.passes or 30)
    parser.add_argument("--batch_size", type=int, help="samples of each trainer's batch")
    parser.add_argument("--learning_rate", type=float)
    parser.add_argument("--async_mode", action="store_true", help="do not wait for one another")
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(**PRESETS[parser.parse_known_args()[0].preset])
    return parser.parse_args()


if __name__ == "__main__":
    main()
