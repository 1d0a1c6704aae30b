"""Predicts clicks on advertisements: a deep network over the Criteo data set.

Runs in one process, under `paddle launch`, as the environment of a Kubernetes manifest says
(`--is_local 0 --cloud_train 1`), or as trainer or server by arguments (`--is_local 0`).
"""

import argparse
import gzip
import os

import cluster
import network

import paddle.v2 as paddle
from paddle.v2.dataset import criteo

PRESETS = {
    "full": {"batch_size": 1000, "learning_rate": 1e-4, "log_period": 100},
    "test": {
        "batch_size": 100,
        "learning_rate": 1e-3,
        "log_period": 10,
        "sparse_feature_dim": 10007,
    },
}


def main():
    arguments = parse_arguments()
    if arguments.is_local == 0 and not arguments.cloud_train:
        cluster.use_arguments(arguments)
    if cluster.is_server():
        cluster.serve()
    else:
        train(arguments)


def train(arguments):
    """Trains as one of the job's trainers; the first one saves the models."""
    if not os.path.exists(arguments.train_data_path):
        raise SystemExit(
            f"there is no {arguments.train_data_path}; `python generate.py criteo` makes data"
        )
    paddle.init(seed=arguments.seed)

    cost, _ = network.describe(arguments.sparse_feature_dim, arguments.embedding_size)
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
        is_local=None if arguments.is_local is None else bool(arguments.is_local),
    )
    trainer.train(
        reader=criteo.files(
            arguments.train_data_path,
            arguments.batch_size,
            arguments.sparse_feature_dim,
            deal="lines",
        ),
        num_passes=arguments.num_passes,
        event_handler=Report(trainer, arguments),
    )


class Report:
    """Prints how the training goes, tests after each pass, and saves the model."""

    def __init__(self, trainer, arguments):
        self.trainer = trainer
        self.arguments = arguments
        self.aucs = []

    def __call__(self, event):
        if isinstance(event, paddle.event.BeginPass):
            self.aucs = []
        if isinstance(event, paddle.event.EndIteration):
            self.show(event)
            if event.batch_id % 1000 == 999:
                self.save(f"batch-{event.batch_id}")
        if isinstance(event, paddle.event.EndPass):
            self.test(event.pass_id)
            self.save(f"pass-{event.pass_id}")

    def show(self, event):
        """`auc` is the mean over the batches of the pass so far."""
        self.aucs.append(event.metrics["auc"])
        if event.batch_id % self.arguments.log_period == 0:
            print(
                f"TRAIN --> pass: {event.pass_id} batch: {event.batch_id} loss: {event.cost} "
                f"auc: {sum(self.aucs) / len(self.aucs)}, batch_auc: {self.aucs[-1]}",
                flush=True,
            )

    def test(self, pass_id):
        if self.arguments.test_data_path:
            arguments = self.arguments
            tested = self.trainer.test(
                criteo.files(
                    arguments.test_data_path, arguments.batch_size, arguments.sparse_feature_dim
                )
            )
            auc = tested.metrics["auc"]
            print(f"TEST --> pass: {pass_id} loss: {tested.cost} auc: {auc}", flush=True)

    def save(self, name):
        if paddle.job.is_chief:
            os.makedirs(self.arguments.model_output_dir, exist_ok=True)
            path = os.path.join(self.arguments.model_output_dir, f"{name}.tar.gz")
            with gzip.open(path, "wb", compresslevel=1) as file:
                self.trainer.save_parameter_to_tar(file)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--train_data_path", default="data/raw/train.txt")
    add("--test_data_path", default="data/raw/valid.txt", help="empty: do not test")
    add("--model_output_dir", default=paddle.job.output_dir)
    add("--init_model", help="a model to go on with")
    add("--preset", choices=PRESETS, default="full")
    add("--batch_size", type=int, help="samples of each trainer's batch")
    add("--num_passes", type=int, default=paddle.job.passes or 10)
    add("--learning_rate", type=float)
    add("--log_period", type=int, help="print every so many batches")
    add("--embedding_size", type=int, default=10)
    add("--sparse_feature_dim", type=int, default=1000001, help="ids that categories hash to")
    add("--is_local", type=int, choices=(0, 1), help="0: with parameter servers, 1: without")
    add("--cloud_train", type=int, choices=(0, 1), default=0, help="1: the environment says where")
    add("--async_mode", action="store_true", help="do not wait for one another")
    add("--role", default="trainer", choices=("pserver", "trainer"))
    add("--endpoints", default="127.0.0.1:6000", help="the servers, with commas between")
    add("--current_endpoint", default="127.0.0.1:6000", help="which of them this server is")
    add("--trainers", type=int, default=1)
    add("--trainer_id", type=int, default=0)
    add("--seed", type=int, default=1)
    parser.set_defaults(**PRESETS[parser.parse_known_args()[0].preset])
    return parser.parse_args()


if __name__ == "__main__":
    main()
