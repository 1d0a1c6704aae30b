"""Training steps of several models, ours against PyTorch's, on the same CPU."""

import contextlib
import functools
import pathlib
import sys
import time

import train

from harness import Program, at_least

TITLE = "Training steps against PyTorch"
PROGRAM = pathlib.Path(train.__file__)
TORCH = ["torch==2.15.0", "numpy>=1.26"]
# PyTorch has no chain; see README.md.
AIMS = {
    "mlp": 1.1,
    "wide": 1.1,
    "vgg": 0.9,
    "resnet": 0.9,
    "lstm": 1.0,
    "gru": 1.0,
    "crf": 2.0,
    "translation": 1.1,
}


def options(parser):
    parser.add_argument(
        "--torch-python", help="an interpreter that has torch; else one is installed"
    )
    parser.add_argument("--model", action="append", choices=AIMS, help="only this one; repeatable")


def run(bench):
    given = bench.options.torch_python
    torch_python = given or bench.large_environment("torch", TORCH)
    columns = ["model", "threads", "ours, samples/s", "PyTorch, samples/s"]
    table = bench.table(columns)
    for name in bench.options.model or train.MODELS:
        for threads in bench.size((1, 2), smoke=(1,)):
            compare(bench, table, torch_python, (name, threads))
    overhead(bench)


def compare(bench, table, torch_python, what):
    name, threads = what
    model = train.MODELS[name]
    steps = bench.size(model.steps, smoke=1)
    pythons = {"ours": sys.executable}
    if torch_python:
        pythons["torch"] = torch_python
    with contextlib.ExitStack() as stack:
        programs = {
            contender: stack.enter_context(Program([python, PROGRAM, contender, name, threads]))
            for contender, python in pythons.items()
        }

        def rate(contender):
            return model.batch * steps / programs[contender].round(str(steps))["seconds"]

        rounds = bench.alternate({each: functools.partial(rate, each) for each in pythons})
    if "torch" in pythons:
        torch, ratio = rounds.figure("torch"), rounds.ratio("ours", "torch")
    else:
        torch, ratio = "–", None
    table.row([model.title, threads, rounds.figure("ours"), torch], ratio, at_least(AIMS[name]))


def overhead(bench):
    """Microseconds of a step at batch 1, of which most is not arithmetic."""
    import paddle.v2 as paddle

    paddle.init(show_progress=False)
    layer = paddle.layer
    x = layer.data(name="x", type=paddle.data_type.dense_vector(1))
    y = layer.data(name="y", type=paddle.data_type.dense_vector(1))
    cost = layer.square_error_cost(input=layer.fc(input=x, size=1), label=y)
    optimizer = paddle.optimizer.Momentum(learning_rate=1e-3)
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
    batch, count = [([1.0], [1.0])], bench.size(5000, smoke=50)

    def step_us():
        start = time.perf_counter()
        trainer.train(lambda: iter([batch] * count))
        return (time.perf_counter() - start) / count * 1e6

    rounds = bench.alternate({"ours": step_us})
    table = bench.table(["what the Python interface costs"], judged="µs a step")
    table.row(["one fc of size 1 at batch 1"], rounds.figure("ours"))
