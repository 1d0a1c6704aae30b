"""Learns to tell good reviews of films from bad ones, in one process or on a cluster.

The program is the same in both cases: `paddle.job` says who it is, and servers that the environment
names are trained on.
"""

import argparse
import gzip
import os
import random

import network

import paddle.v2 as paddle

PRESETS = {
    "full": {
        "batch_size": 64,
        "learning_rate": 2e-3,
        "sizes": {"embedding": 128, "hidden": 128},
    },
    "test": {
        "batch_size": 16,
        "learning_rate": 4e-2,
        "sizes": {"embedding": 16, "hidden": 16},
    },
}


def main():
    arguments = parse_arguments()
    paddle.init(seed=arguments.seed)
    if arguments.data_home:
        paddle.dataset.common.DATA_HOME = arguments.data_home
    words, train, test = readers(arguments.dataset)
    cost, _ = network.describe(arguments.model, words, arguments.sizes)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=paddle.parameters.create(cost),
        update_equation=paddle.optimizer.AdaGrad(
            learning_rate=arguments.learning_rate, is_async=arguments.async_mode
        ),
    )

    def report(event):
        if isinstance(event, paddle.event.EndIteration) and event.batch_id % 100 == 0:
            print(
                f"Pass {event.pass_id}, Batch {event.batch_id}, Cost {event.cost:f}, "
                f"{event.metrics}",
                flush=True,
            )
        if isinstance(event, paddle.event.EndPass):
            tested = trainer.test(paddle.batch(test, 64))
            print(f"Test {event.pass_id}, Cost {tested.cost:f}, {tested.metrics}", flush=True)
            if paddle.job.is_chief:
                path = f"{arguments.output}/{arguments.model}_pass_{event.pass_id:05}.tar.gz"
                with gzip.open(path, "wb") as file:
                    trainer.save_parameter_to_tar(file)

    os.makedirs(arguments.output, exist_ok=True)
    trainer.train(
        reader=paddle.batch(own_samples(train, arguments.seed), arguments.batch_size),
        num_passes=arguments.num_passes,
        event_handler=report,
    )


def readers(name):
    """The number of words of a data set, and readers of what it has to train and to test."""
    if name == "imdb":
        dataset = paddle.dataset.imdb
        words = dataset.word_dict()
        return len(words), dataset.train(words), dataset.test(words)
    dataset = paddle.dataset.sentiment
    return len(dataset.get_word_dict()), dataset.train(), dataset.test()


def own_samples(reader, seed):
    """A reader of the samples of this trainer: they are dealt out to the trainers one by one.

    They are shuffled first, by all trainers alike: good and bad ones lie in an order.
    """
    held = list(reader())
    random.Random(seed).shuffle(held)
    own = held[paddle.job.rank :: paddle.job.trainers]
    return lambda: iter(own)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=network.MODELS, default="lstm")
    parser.add_argument("--dataset", choices=("sentiment", "imdb"), default="sentiment")
    parser.add_argument("--data_home", help="folder in which data sets are looked for")
    parser.add_argument("--output", default=paddle.job.output_dir, help="folder of the models")
    parser.add_argument("--preset", choices=PRESETS, default="full")
    parser.add_argument("--num_passes", type=int, default=paddle.job.passes or 10)
    parser.add_argument("--batch_size", type=int, help="reviews of each trainer's batch")
    parser.add_argument("--learning_rate", type=float)
    parser.add_argument("--async_mode", action="store_true", help="do not wait for one another")
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(**PRESETS[parser.parse_known_args()[0].preset])
    return parser.parse_args()


if __name__ == "__main__":
    main()
