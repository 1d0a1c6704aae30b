"""The CTR network in `paddle.v2`, as a program that `paddle launch` starts once per trainer.

    ours.py train PATTERN --out FOLDER   one pass over the files
    ours.py dense STEPS --out FOLDER     the layers behind the tables, alone

Each trainer writes trainer-RANK.json: rows, seconds of the pass, the progressive AUC (every sample
is scored before it is trained on). `--before` is trained first and not measured; then those of
`--also` and the others in turns, `--again` times, with the samples a second of each pass.
"""

import argparse
import json
import pathlib
import time

import numpy as np

import paddle.v2 as paddle
from paddle import feed

SLOTS = 26
WIDTH = 16
IDS = 60_000_000
HIDDEN = (400, 400, 400)
BATCH = 512


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("train", "dense"))
    parser.add_argument("source", help="a pattern of files, or a number of steps")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--before", help="files to be trained first")
    parser.add_argument("--also", help="files to be trained in turns with the others")
    parser.add_argument("--again", type=int, default=1, help="passes over each")
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--wire", default="f32", help="how values travel")
    arguments = parser.parse_args()
    wire = {} if arguments.wire == "f32" else {"wire_values": arguments.wire}
    paddle.init(show_progress=False, **wire)
    result = train(arguments) if arguments.what == "train" else dense_alone(int(arguments.source))
    (arguments.out / f"trainer-{paddle.job.rank}.json").write_text(json.dumps(result))


def train(arguments):
    layer, types = paddle.layer, paddle.data_type
    dense = layer.data(name="dense", type=types.dense_vector(13))
    names = [f"C{number}" for number in range(SLOTS)]
    slots = [layer.data(name=name, type=types.integer_value(IDS)) for name in names]
    label = layer.data(name="label", type=types.integer_value(2))
    table = paddle.attr.Param(name="table", initial_min=-0.05, initial_max=0.05, sparse_update=True)
    rows = [layer.embedding(input=slot, size=WIDTH, param_attr=table) for slot in slots]
    predicted = hidden_layers(layer.concat(input=[*rows, dense]))
    cost = layer.classification_cost(input=predicted, label=label)
    paddle.evaluator.auc(input=predicted, label=label, name="auc")
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), adam())
    order = ["dense", *names, "label"]
    clock, passes = Clock(), []
    sources = {"also": arguments.also, "source": arguments.source}
    turns = [(name, pattern) for name, pattern in sources.items() if pattern] * arguments.again
    for name, pattern in [("before", arguments.before), *turns]:
        if pattern:
            files = feed.files(pattern, order, batch_size=arguments.batch, deal="shard")
            trainer.train(files, num_passes=1, event_handler=clock)
            # Of all trainers, which run at the same speed.
            passes.append((name, paddle.job.trainers * clock.rows / clock.seconds))
    return {
        "rows": clock.rows,
        "began": clock.begin,
        "seconds": clock.seconds,
        "processor_seconds": clock.processor_seconds,
        "auc": clock.auc,
        "passes": passes,
    }


def dense_alone(steps):
    """The same layers on random numbers: no files, no tables, no servers."""
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(SLOTS * WIDTH + 13))
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(2))
    cost = paddle.layer.classification_cost(input=hidden_layers(x), label=label)
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), adam(), is_local=True)
    draw = np.random.default_rng(1)
    values = draw.random((BATCH, SLOTS * WIDTH + 13)).astype("f4")
    batch = list(zip(values, draw.integers(0, 2, BATCH).tolist(), strict=True))
    # Converting the batch is no arithmetic; a converted one can be run once.
    feeder = trainer.feeder()
    clock = Clock()
    for count in (20, steps):
        batches = [feeder(batch) for _ in range(count)]
        trainer.train(lambda batches=batches: iter(batches), event_handler=clock)
    return {"rows": steps * BATCH, "seconds": clock.seconds}


def hidden_layers(x):
    for size in HIDDEN:
        x = paddle.layer.fc(input=x, size=size, act=paddle.activation.Relu())
    return paddle.layer.fc(input=x, size=2, act=paddle.activation.Softmax())


def adam():
    return paddle.optimizer.Adam(learning_rate=1e-3)


class Clock:
    """Times each pass; what it holds at the end is of the last one."""

    def __call__(self, happened):
        if isinstance(happened, paddle.event.BeginPass):
            self.begin, self.rows = time.perf_counter(), 0
            self.processor_begin = time.process_time()
        elif isinstance(happened, paddle.event.EndIteration):
            # The last batch of a pass may be a partial one.
            self.rows += happened.samples
        elif isinstance(happened, paddle.event.EndPass):
            self.seconds = time.perf_counter() - self.begin
            self.processor_seconds = time.process_time() - self.processor_begin
            self.auc = happened.metrics.get("auc")


if __name__ == "__main__":
    main()
