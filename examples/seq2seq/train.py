"""Learns to translate sentences, in one process or on a cluster.

The program is the same in both cases: `paddle.job` says who it is, and servers that the environment
names are trained on.
"""

import argparse
import gzip
import itertools
import os

import network

import paddle.v2 as paddle
from paddle.v2.dataset import wmt14

FEEDING = {"source": 0, "target": 1, "target_next": 2}

PRESETS = {
    "full": {
        "batch_size": 50,
        "learning_rate": 5e-4,
        "words": 30000,
        "sizes": network.SIZES,
    },
    "test": {
        "batch_size": 25,
        "learning_rate": 1e-2,
        "words": 13,
        "sizes": {"embedding": 16, "encoder": 24, "decoder": 24},
    },
}


def main():
    arguments = parse_arguments()
    paddle.init(seed=arguments.seed)
    if arguments.data:
        wmt14.FILE = arguments.data
    cost = network.training(arguments.words, arguments.sizes)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=paddle.parameters.create(cost),
        update_equation=paddle.optimizer.Adam(
            learning_rate=arguments.learning_rate,
            gradient_clipping_threshold=25,
            is_async=arguments.async_mode,
        ),
    )
    tests = paddle.batch(wmt14.test(arguments.words), 64)

    def report(event):
        if isinstance(event, paddle.event.EndIteration) and event.batch_id % 50 == 0:
            print(
                f"Pass {event.pass_id}, Batch {event.batch_id}, Cost {event.cost:f}, "
                f"{event.metrics}",
                flush=True,
            )
        if isinstance(event, paddle.event.EndPass):
            tested = trainer.test(tests, feeding=FEEDING)
            print(f"Test {event.pass_id}, Cost {tested.cost:f}, {tested.metrics}", flush=True)
            if paddle.job.is_chief:
                path = f"{arguments.output}/seq2seq_pass_{event.pass_id:05}.tar.gz"
                with gzip.open(path, "wb") as file:
                    trainer.save_parameter_to_tar(file)

    os.makedirs(arguments.output, exist_ok=True)
    own = deal_out(wmt14.train(arguments.words))
    trainer.train(
        reader=paddle.batch(own, arguments.batch_size),
        num_passes=arguments.num_passes,
        event_handler=report,
        feeding=FEEDING,
    )


def deal_out(samples):
    """The samples of this trainer: they are dealt out one by one."""
    return lambda: itertools.islice(samples(), paddle.job.rank, None, paddle.job.trainers)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="an archive like wmt14.tgz; else it is fetched")
    parser.add_argument("--output", default=paddle.job.output_dir, help="folder of the models")
    parser.add_argument("--preset", choices=PRESETS, default="full")
    parser.add_argument("--num_passes", type=int, default=paddle.job.passes or 5)
    parser.add_argument("--batch_size", type=int, help="sentences of each trainer's batch")
    parser.add_argument("--learning_rate", type=float)
    parser.add_argument("--words", type=int, help="words of each language that are known")
    parser.add_argument("--async_mode", action="store_true", help="do not wait for one another")
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(**PRESETS[parser.parse_known_args()[0].preset])
    return parser.parse_args()


if __name__ == "__main__":
    main()
