"""Learns what people think of films, in one process or on a cluster.

The program is the same in both cases: `paddle.job` says who it is, and servers that the environment
names are trained on.
"""

import argparse
import gzip
import itertools
import os
import random

from network import FEEDING, describe

import paddle.v2 as paddle
from paddle.v2.dataset import movielens

PRESETS = {
    "full": {"batch_size": 256, "learning_rate": 1e-4},
    "test": {"batch_size": 32, "learning_rate": 2e-3},
}


def main():
    arguments = parse_arguments()
    # Trainers shuffle alike, and each takes every n-th sample: together they see the batches that
    # one process would see.
    random.seed(arguments.seed)
    paddle.init(seed=arguments.seed)
    if arguments.data:
        movielens.FILE = arguments.data

    cost, _ = describe()
    parameters = paddle.parameters.create(cost)
    if arguments.init_model:
        with gzip.open(arguments.init_model) as file:
            parameters.init_from_tar(file)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=parameters,
        update_equation=paddle.optimizer.Adam(
            learning_rate=arguments.learning_rate, is_async=arguments.async_mode
        ),
    )
    shuffled = paddle.reader.shuffle(movielens.train(), buf_size=8192)

    def report(event):
        if isinstance(event, paddle.event.EndIteration) and event.batch_id % 100 == 0:
            print(f"Pass {event.pass_id}, Batch {event.batch_id}, Cost {event.cost:f}", flush=True)
        if isinstance(event, paddle.event.EndPass):
            tested = trainer.test(paddle.batch(movielens.test(), 256), feeding=FEEDING)
            print(f"Test {event.pass_id}, Cost {tested.cost:f}", flush=True)
            if paddle.job.is_chief:
                path = f"{arguments.output}/recommendation_pass_{event.pass_id:05}.tar.gz"
                with gzip.open(path, "wb") as file:
                    trainer.save_parameter_to_tar(file)

    os.makedirs(arguments.output, exist_ok=True)
    own = paddle.batch(
        lambda: itertools.islice(shuffled(), paddle.job.rank, None, paddle.job.trainers),
        arguments.batch_size,
    )
    trainer.train(
        reader=own, num_passes=arguments.num_passes, event_handler=report, feeding=FEEDING
    )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="an archive like ml-1m.zip; else it is fetched")
    parser.add_argument("--output", default=paddle.job.output_dir, help="folder of the models")
    parser.add_argument("--init_model", help="a model to go on with")
    parser.add_argument("--preset", choices=PRESETS, default="full")
    parser.add_argument("--num_passes", type=int, default=paddle.job.passes or 10)
    parser.add_argument("--batch_size", type=int, help="samples of each trainer's batch")
    parser.add_argument("--learning_rate", type=float)
    parser.add_argument("--async_mode", action="store_true", help="do not wait for one another")
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(**PRESETS[parser.parse_known_args()[0].preset])
    return parser.parse_args()


if __name__ == "__main__":
    main()
