"""Learns to find phrases in sentences, in one process or on a cluster.

The program is the same in both cases: `paddle.job` says who it is, and servers that the environment
names are trained on.
"""

import argparse
import gzip
import os

import conll
import network

import paddle.v2 as paddle

PRESETS = {
    "full": {"batch_size": 16, "learning_rate": 2e-3},
    "test": {"batch_size": 8, "learning_rate": 1e-2},
}


def main():
    arguments = parse_arguments()
    if not os.path.exists(arguments.train_file):
        raise SystemExit(f"there is no {arguments.train_file}; `python generate.py` makes data")
    paddle.init(seed=arguments.seed)
    dictionary = conll.Dictionary(arguments.train_file)
    cost, _, wrong = network.describe(arguments.model, dictionary)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=paddle.parameters.create(cost),
        update_equation=paddle.optimizer.AdaGrad(
            learning_rate=arguments.learning_rate,
            regularization=paddle.optimizer.L2Regularization(1e-4),
            gradient_clipping_threshold=25,
            is_async=arguments.async_mode,
        ),
        # The evaluators look at these tags, which the cost does not need.
        extra_layers=wrong,
    )
    feeding = network.feeding([cost, wrong])
    tests = paddle.batch(dictionary.read(arguments.test_file), 64)

    def report(event):
        if isinstance(event, paddle.event.EndIteration) and event.batch_id % 20 == 0:
            print(
                f"Pass {event.pass_id}, Batch {event.batch_id}, Cost {event.cost:f}, "
                f"{event.metrics}",
                flush=True,
            )
        if isinstance(event, paddle.event.EndPass):
            tested = trainer.test(tests, feeding=feeding)
            print(f"Test {event.pass_id}, Cost {tested.cost:f}, {tested.metrics}", flush=True)
            if paddle.job.is_chief:
                path = f"{arguments.output}/{arguments.model}_pass_{event.pass_id:05}.tar.gz"
                with gzip.open(path, "wb") as file:
                    trainer.save_parameter_to_tar(file)

    os.makedirs(arguments.output, exist_ok=True)
    own = dictionary.read(arguments.train_file, paddle.job.rank, paddle.job.trainers)
    trainer.train(
        reader=paddle.batch(own, arguments.batch_size),
        num_passes=arguments.num_passes,
        event_handler=report,
        feeding=feeding,
    )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=network.MODELS, default="linear_crf")
    parser.add_argument("--train_file", default="data/train.txt.gz")
    parser.add_argument("--test_file", default="data/test.txt.gz")
    parser.add_argument("--output", default=paddle.job.output_dir, help="folder of the models")
    parser.add_argument("--preset", choices=PRESETS, default="full")
    parser.add_argument("--num_passes", type=int, default=paddle.job.passes or 15)
    parser.add_argument("--batch_size", type=int, help="sentences of each trainer's batch")
    parser.add_argument("--learning_rate", type=float)
    parser.add_argument("--async_mode", action="store_true", help="do not wait for one another")
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(**PRESETS[parser.parse_known_args()[0].preset])
    return parser.parse_args()


if __name__ == "__main__":
    main()
