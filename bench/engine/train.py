"""Training steps of one model, ours or PyTorch's, as a process: `train.py CONTENDER NAME THREADS`.

Answers each line on its stdin with the seconds that a round of steps took, as JSON; each contender
is a process of its own, so that thread pools do not meet. `benchmark.py` runs them in turns.
"""

import json
import sys
import time

import images
import sequences
import translation

BATCH = 512
WIDE = 1_000_000
ENTRIES = 39


class Model:
    """What is trained: how it is called, and steps in a round."""

    batch = BATCH

    def __init__(self, title, steps):
        self.title = title
        self.steps = steps


MODELS = {
    "mlp": Model("MLP 429-400-400-400-1, batch 512, Momentum 0.9", 20),
    "wide": Model(f"fc over {ENTRIES} of {WIDE} sparse binary inputs, 16 wide, batch 512, SGD", 60),
    **images.MODELS,
    **sequences.MODELS,
    **translation.MODELS,
}


def mlp_data(numpy):
    chance = numpy.random.default_rng(1)
    return chance.normal(size=(BATCH, 429)).astype("float32"), chance.integers(
        0, 2, size=(BATCH, 1)
    ).astype("float32")


def wide_data(numpy):
    chance = numpy.random.default_rng(2)
    ids = chance.integers(0, WIDE, size=(BATCH, ENTRIES))
    return ids, chance.integers(0, 2, size=(BATCH, 1)).astype("float32")


def ours(name, threads):
    import numpy

    import paddle.v2 as paddle

    paddle.init(trainer_count=threads, show_progress=False)
    if name in images.MODELS:
        return images.ours(name)
    if name in sequences.MODELS:
        return sequences.ours(name)
    if name in translation.MODELS:
        return translation.ours()
    layer, act = paddle.layer, paddle.activation
    label = layer.data(name="label", type=paddle.data_type.dense_vector(1))
    if name == "mlp":
        values, labels = mlp_data(numpy)
        hidden = layer.data(name="x", type=paddle.data_type.dense_vector(429))
        for _ in range(3):
            hidden = layer.fc(input=hidden, size=400, act=act.Relu())
        optimizer = paddle.optimizer.Momentum(momentum=0.9, learning_rate=1e-6)
    else:
        values, labels = wide_data(numpy)
        wide = layer.data(name="x", type=paddle.data_type.sparse_binary_vector(WIDE))
        table = paddle.attr.ParamAttr(name="table", sparse_update=True)
        hidden = layer.fc(input=wide, size=16, act=act.Relu(), param_attr=table)
        optimizer = paddle.optimizer.Momentum(momentum=0, learning_rate=1e-6)
    output = layer.fc(input=hidden, size=1, act=act.Sigmoid())
    cost = layer.multi_binary_label_cross_entropy_cost(input=output, label=label)
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
    batch = list(zip(values, labels, strict=True))
    feeding = {"x": 0, "label": 1}

    def steps(count):
        trainer.train(lambda: iter([batch] * count), feeding=feeding)

    return steps


def torchs(name, threads):
    import numpy
    import torch

    torch.set_num_threads(threads)
    if name in images.MODELS:
        return images.torchs(name)
    if name in sequences.MODELS:
        return sequences.torchs(name)
    if name in translation.MODELS:
        return translation.torchs()
    torch.manual_seed(1)
    if name == "mlp":
        values, labels = mlp_data(numpy)
        sizes = [429, 400, 400, 400]
        layers = []
        for size, after in zip(sizes, sizes[1:], strict=False):
            layers += [torch.nn.Linear(size, after), torch.nn.ReLU()]
        model = torch.nn.Sequential(*layers, torch.nn.Linear(400, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    else:
        values, labels = wide_data(numpy)
        table = torch.nn.EmbeddingBag(WIDE, 16, mode="sum", sparse=True)
        model = torch.nn.Sequential(table, torch.nn.ReLU(), torch.nn.Linear(16, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    cost = torch.nn.BCEWithLogitsLoss(reduction="sum")
    batch = list(zip(values, labels, strict=True))

    def steps(count):
        for _ in range(count):
            columns = zip(*batch, strict=True)
            rows, clicks = (torch.from_numpy(numpy.stack(column)) for column in columns)
            optimizer.zero_grad()
            loss = cost(model(rows), clicks)
            loss.backward()
            optimizer.step()
            loss.item()

    return steps


def serve(contender, name, threads):
    """Answers every line, the number of steps of a round, with the seconds it took."""
    steps = {"ours": ours, "torch": torchs}[contender](name, threads)
    for line in sys.stdin:
        start = time.perf_counter()
        steps(int(line))
        print(json.dumps({"seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
