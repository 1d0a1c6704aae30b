"""Training steps of several models, ours against PyTorch's, in turns on the same CPU.

    train.py TORCH_PYTHON [NAME…]    prints the tables, of these models or of all; TORCH_PYTHON is
                                     an interpreter that has torch

Each contender is a process of its own (`train.py --run NAME THREADS`), so that thread pools do not
meet; it answers each line on its stdin with the seconds that a round of steps took.
"""

import pathlib
import statistics
import subprocess
import sys
import time

import images
import sequences
import translation

ROUNDS = 7
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
    """Answers every line with the seconds of a round."""
    steps = {"ours": ours, "torch": torchs}[contender](name, threads)
    steps(MODELS[name].steps)
    for _ in sys.stdin:
        start = time.perf_counter()
        steps(MODELS[name].steps)
        print(time.perf_counter() - start, flush=True)


class Contender:
    """A process that runs rounds."""

    def __init__(self, python, contender, name, threads):
        here = str(pathlib.Path(__file__).resolve())
        self.process = subprocess.Popen(
            [python, here, "--run", contender, name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def round(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(torch_python, names):
    print("| model | threads | ours, samples/s | PyTorch, samples/s | ratio | spread |")
    print("|---|--:|--:|--:|--:|--:|")
    for name in names:
        model = MODELS[name]
        for threads in (1, 2):
            own = Contender(sys.executable, "ours", name, threads)
            peer = Contender(torch_python, "torch", name, threads)
            rounds = [(own.round(), peer.round()) for _ in range(ROUNDS)]
            own.close()
            peer.close()
            samples = model.batch * model.steps
            ours, theirs = (statistics.median(times) for times in zip(*rounds, strict=True))
            ratios = [peer / own for own, peer in rounds]
            print(
                f"| {model.title} | {threads} | {samples / ours:.0f} | {samples / theirs:.0f} "
                f"| {theirs / ours:.2f} | {min(ratios):.2f}–{max(ratios):.2f} |",
                flush=True,
            )


def overhead():
    """Microseconds of a step at batch 1, of which most is not arithmetic."""
    import paddle.v2 as paddle

    paddle.init(show_progress=False)
    layer = paddle.layer
    x = layer.data(name="x", type=paddle.data_type.dense_vector(1))
    y = layer.data(name="y", type=paddle.data_type.dense_vector(1))
    cost = layer.square_error_cost(input=layer.fc(input=x, size=1), label=y)
    optimizer = paddle.optimizer.Momentum(learning_rate=1e-3)
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
    batch, count = [([1.0], [1.0])], 5000
    trainer.train(lambda: iter([batch] * count))
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        trainer.train(lambda: iter([batch] * count))
        times.append((time.perf_counter() - start) / count)
    print(f"\nA step of one fc of size 1 at batch 1: {statistics.median(times) * 1e6:.0f} µs.")


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        compare(sys.argv[1], sys.argv[2:] or MODELS)
        overhead()
