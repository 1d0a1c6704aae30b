"""Learns to name what is on small pictures, in one process or on a cluster.

The program is the same in both cases: `paddle.job` says who it is, and servers that the environment
names are trained on.
"""

import argparse
import gzip
import itertools
import os
import random

from network import describe

import paddle.v2 as paddle
from paddle.v2.dataset import cifar

# The learning rate is for one picture, as gradients are sums over a batch.
PRESETS = {
    "full": {"batch_size": 128, "learning_rate": 0.1 / 128, "dropout": 1},
    "test": {"batch_size": 16, "learning_rate": 0.01 / 32, "dropout": 0},
}
SIZES = {
    ("full", "vgg"): {"filters": 64, "depth": None},
    ("full", "resnet"): {"filters": 16, "depth": 32},
    ("test", "vgg"): {"filters": 8, "depth": None},
    ("test", "resnet"): {"filters": 4, "depth": 8},
}


def main():
    arguments = parse_arguments()
    # Trainers shuffle alike, and each takes every n-th sample.
    random.seed(arguments.seed)
    paddle.init(seed=arguments.seed)
    if arguments.data:
        cifar.CIFAR10_FILE = arguments.data

    cost, _ = describe(arguments.network, arguments.filters, arguments.depth, arguments.dropout)
    parameters = paddle.parameters.create(cost)
    if arguments.init_model:
        with gzip.open(arguments.init_model) as file:
            parameters.init_from_tar(file)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=parameters,
        update_equation=paddle.optimizer.Momentum(
            momentum=0.9,
            learning_rate=arguments.learning_rate,
            learning_rate_schedule="discexp",
            learning_rate_decay_a=0.1,
            learning_rate_decay_b=50000 * 100,
            regularization=paddle.optimizer.L2Regularization(0.0002 * 128),
            is_async=arguments.async_mode,
        ),
    )
    train_data = paddle.reader.shuffle(paddle.reader.cache(cifar.train10()), buf_size=50000)

    def report(event):
        if isinstance(event, paddle.event.EndIteration) and event.batch_id % 100 == 0:
            print(
                f"Pass {event.pass_id}, Batch {event.batch_id}, Cost {event.cost:f}, "
                f"{event.metrics}",
                flush=True,
            )
        if isinstance(event, paddle.event.EndPass):
            tested = trainer.test(paddle.batch(cifar.test10(), 128))
            print(f"Test {event.pass_id}, Cost {tested.cost:f}, {tested.metrics}", flush=True)
            if paddle.job.is_chief:
                path = f"{arguments.output}/{arguments.network}_pass_{event.pass_id:05}.tar.gz"
                with gzip.open(path, "wb") as file:
                    trainer.save_parameter_to_tar(file)

    os.makedirs(arguments.output, exist_ok=True)
    own = paddle.batch(
        lambda: itertools.islice(train_data(), paddle.job.rank, None, paddle.job.trainers),
        arguments.batch_size,
    )
    trainer.train(reader=own, num_passes=arguments.num_passes, event_handler=report)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", choices=["vgg", "resnet"], default="vgg")
    parser.add_argument("--filters", type=int, help="of the first convolution")
    parser.add_argument("--depth", type=int, help="layers of the residual network: 6n + 2")
    parser.add_argument("--dropout", type=float, help="the share of VGG's usual dropout")
    parser.add_argument("--data", help="an archive like cifar-10-python.tar.gz; else it is fetched")
    parser.add_argument("--output", default=paddle.job.output_dir, help="folder of the models")
    parser.add_argument("--init_model", help="a model to go on with")
    parser.add_argument("--preset", choices=PRESETS, default="full")
    parser.add_argument("--num_passes", type=int, default=paddle.job.passes or 200)
    parser.add_argument("--batch_size", type=int, help="samples of each trainer's batch")
    parser.add_argument("--learning_rate", type=float)
    parser.add_argument("--async_mode", action="store_true", help="do not wait for one another")
    parser.add_argument("--seed", type=int, default=1)
    chosen, _ = parser.parse_known_args()
    parser.set_defaults(**PRESETS[chosen.preset], **SIZES[chosen.preset, chosen.network])
    return parser.parse_args()


if __name__ == "__main__":
    main()
