"""Predicts clicks with a wide and a deep network side by side, in one process or on a cluster.

A line of data is `ids<tab>id:value pairs<tab>click`, with blanks between ids and between pairs: the
ids go to the deep network, the pairs to the wide one. The meta file says how many ids there are,
`dnn_input_dim:N` and `lr_input_dim:N`.
"""

import argparse
import gzip
import os

import paddle.v2 as paddle

DEEP_SIZES = (128, 64, 32, 1)
REGRESSION = 1

PRESETS = {
    "full": {"batch_size": 10000, "learning_rate": 1e-3},
    "test": {"batch_size": 100, "learning_rate": 2e-2},
}


def main():
    arguments = parse_arguments()
    paddle.init(seed=arguments.seed)
    cost = describe(arguments.model_type, **read_meta(arguments.data_meta_file))
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
            test_reader = paddle.batch(read(arguments.test_data_path), arguments.batch_size)
            tested = trainer.test(test_reader)
            print(f"Test {event.pass_id}, Cost {tested.cost:f}, {tested.metrics}", flush=True)
            if paddle.job.is_chief:
                path = f"{arguments.model_output_prefix}-pass-{event.pass_id}.tar.gz"
                with gzip.open(path, "wb") as file:
                    trainer.save_parameter_to_tar(file)

    os.makedirs(os.path.dirname(arguments.model_output_prefix) or ".", exist_ok=True)
    trainer.train(
        reader=paddle.batch(
            read(arguments.train_data_path, paddle.job.trainers, paddle.job.rank),
            arguments.batch_size,
        ),
        num_passes=arguments.num_passes,
        event_handler=report,
    )


def describe(model_type, dnn_input_dim, lr_input_dim):
    """The cost of predicting clicks."""
    deep = paddle.layer.data(
        name="dnn_input", type=paddle.data_type.sparse_binary_vector(dnn_input_dim)
    )
    wide = paddle.layer.data(
        name="lr_input", type=paddle.data_type.sparse_float_vector(lr_input_dim)
    )
    click = paddle.layer.data(name="click", type=paddle.data_type.dense_vector(1))

    # Only the rows that a batch needs travel between trainers and servers.
    sparse = paddle.attr.Param(sparse_update=True)
    hidden = paddle.layer.fc(input=deep, size=DEEP_SIZES[0], param_attr=sparse)
    for size in DEEP_SIZES[1:]:
        hidden = paddle.layer.fc(input=hidden, size=size, act=paddle.activation.Relu())
    line = paddle.layer.fc(input=wide, size=1, act=paddle.activation.Relu(), param_attr=sparse)
    predicted = paddle.layer.fc(
        input=paddle.layer.concat(input=[hidden, line]),
        size=1,
        act=paddle.activation.Sigmoid(),
        name="output",
    )
    paddle.evaluator.auc(input=predicted, label=click, name="auc")
    if model_type == REGRESSION:
        return paddle.layer.square_error_cost(input=predicted, label=click)
    return paddle.layer.multi_binary_label_cross_entropy_cost(input=predicted, label=click)


def read(path, trainers=1, trainer_id=0):
    """A reader of the lines whose number is the trainer's, modulo the number of trainers."""

    def samples():
        with open(path, encoding="ascii") as file:
            for number, line in enumerate(file):
                if number % trainers == trainer_id:
                    yield parse(line)

    return samples


def parse(line):
    """Ids for the deep network, pairs for the wide one, the click."""
    ids, pairs, click = line.rstrip("\n").split("\t")
    split = (pair.split(":") for pair in pairs.split())
    return (
        [int(id) for id in ids.split()],
        [(int(id), float(value)) for id, value in split],
        [float(click)],
    )


def read_meta(path):
    """How many ids there are, by the names of the meta file."""
    with open(path, encoding="ascii") as file:
        pairs = (line.split(":") for line in file if line.strip())
        return {name: int(count) for name, count in pairs}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--train_data_path", required=True)
    add("--test_data_path", required=True)
    add("--data_meta_file", required=True)
    add("--model_type", type=int, choices=(0, 1), required=True, help="1: regression")
    add("--model_output_prefix", default=f"{paddle.job.output_dir}/model")
    add("--preset", choices=PRESETS, default="full")
    add("--batch_size", type=int, help="samples of each trainer's batch")
    add("--num_passes", type=int, default=paddle.job.passes or 5)
    add("--learning_rate", type=float)
    add("--async_mode", action="store_true", help="do not wait for one another")
    add("--seed", type=int, default=1)
    parser.set_defaults(**PRESETS[parser.parse_known_args()[0].preset])
    return parser.parse_args()


if __name__ == "__main__":
    main()
