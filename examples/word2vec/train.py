"""Learns word vectors by predicting the fifth word of five, in one process or on a cluster.

The program is the same in both cases: `paddle.job` says who it is, and servers that the environment
names are trained on.
"""

import argparse
import glob
import gzip
import math
import os
import pickle

import paddle.v2 as paddle

EMBEDDING_SIZE = 32
HIDDEN_SIZE = 256

PRESETS = {
    "full": {"batch_size": 32, "learning_rate": 3e-3},
    "test": {"batch_size": 32, "learning_rate": 3e-2},
}


def main():
    arguments = parse_arguments()
    if not os.path.exists(arguments.dict):
        raise SystemExit(f"there is no {arguments.dict}; `python prepare.py --generate` makes data")
    paddle.init(seed=arguments.seed)
    with open(arguments.dict, "rb") as file:
        words = len(pickle.load(file))

    cost, _ = describe(words, arguments.drop_rate)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=paddle.parameters.create(cost),
        update_equation=paddle.optimizer.AdaGrad(
            learning_rate=arguments.learning_rate,
            regularization=paddle.optimizer.L2Regularization(8e-4),
            is_async=arguments.async_mode,
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
            tested = trainer.test(paddle.batch(read(arguments.test_file), 256))
            print(
                f"Test {event.pass_id}, Cost {tested.cost:f}, Testing metrics {tested.metrics}",
                flush=True,
            )
            if paddle.job.is_chief:
                path = f"{arguments.output}/word2vec_pass_{event.pass_id:05}.tar.gz"
                with gzip.open(path, "wb") as file:
                    trainer.save_parameter_to_tar(file)

    os.makedirs(arguments.output, exist_ok=True)
    trainer.train(
        reader=paddle.batch(own_samples(arguments), arguments.batch_size),
        num_passes=arguments.num_passes,
        event_handler=report,
    )


def describe(words, drop_rate):
    """The cost of predicting a word from the four before it, and the prediction."""
    table = paddle.attr.Param(
        name="_proj", initial_std=0.001, learning_rate=1, l2_rate=0, sparse_update=True
    )
    context = [
        paddle.layer.data(name=name, type=paddle.data_type.integer_value(words))
        for name in ("firstw", "secondw", "thirdw", "fourthw")
    ]
    following = paddle.layer.data(name="fifthw", type=paddle.data_type.integer_value(words))
    embedded = [
        paddle.layer.embedding(input=word, size=EMBEDDING_SIZE, param_attr=table)
        for word in context
    ]
    hidden = paddle.layer.fc(
        input=paddle.layer.concat(input=embedded),
        size=HIDDEN_SIZE,
        act=paddle.activation.Sigmoid(),
        layer_attr=paddle.attr.Extra(drop_rate=drop_rate),
        bias_attr=paddle.attr.Param(learning_rate=2),
        param_attr=paddle.attr.Param(
            initial_std=1 / math.sqrt(EMBEDDING_SIZE * 8), learning_rate=1
        ),
    )
    predicted = paddle.layer.fc(
        input=hidden,
        size=words,
        act=paddle.activation.Softmax(),
        bias_attr=paddle.attr.Param(learning_rate=2),
    )
    return paddle.layer.classification_cost(input=predicted, label=following), predicted


def own_samples(arguments):
    """A reader of what this trainer learns from: what a master gives it, or its own parts."""
    if arguments.recordio:
        return paddle.reader.creator.cloud_reader(arguments.recordio)
    return read(arguments.train_file)


def read(path):
    """A reader of the file; of several trainers each reads its parts: `path-00000` and so on."""

    def samples():
        for name in [path] if paddle.job.trainers == 1 else own_parts(path):
            with open(name, encoding="ascii") as file:
                for line in file:
                    yield tuple(map(int, line.split(",")))

    return samples


def own_parts(path):
    """The parts of a file whose number is this trainer's, modulo the number of trainers."""
    rank, trainers = paddle.job.rank, paddle.job.trainers
    parts = sorted(glob.glob(f"{path}-*"))
    own = [part for part in parts if int(part.rsplit("-", 1)[1]) % trainers == rank]
    if not own:
        raise SystemExit(
            f"no part of {path} is for trainer {rank} of {trainers}: there are "
            f"{parts or 'none'}; run prepare.py with --split_count {trainers} or more"
        )
    return own


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train_file", default="train_data_dir/train.txt")
    parser.add_argument("--recordio", help="train on these files, dealt out by the job's master")
    parser.add_argument("--test_file", default="test_data_dir/test.txt")
    parser.add_argument("--dict", default="word_dict.pickle")
    parser.add_argument("--output", default=paddle.job.output_dir, help="folder of the models")
    parser.add_argument("--preset", choices=PRESETS, default="full")
    parser.add_argument("--num_passes", type=int, default=paddle.job.passes or 30)
    parser.add_argument("--batch_size", type=int, help="samples of each trainer's batch")
    parser.add_argument("--learning_rate", type=float)
    parser.add_argument("--drop_rate", type=float, default=0.5)
    parser.add_argument("--async_mode", action="store_true", help="do not wait for one another")
    parser.add_argument("--seed", type=int, default=1)
    parser.set_defaults(**PRESETS[parser.parse_known_args()[0].preset])
    return parser.parse_args()


if __name__ == "__main__":
    main()
