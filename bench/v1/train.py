"""Samples a second of one network: the engine alone, a V2 reader, a V1 provider.

    train.py FOLDER            writes data and a V1 program there, runs all three in turns, and
                               prints the table
    train.py FOLDER CONTENDER  runs one, and prints its samples a second

The data is text, 13 numbers and 26 ids a line, so that Python has as much to do as the engine. V1
and V2 run the same generator. The engine alone is fed with batches that were converted before.
"""

import pathlib
import random
import statistics
import subprocess
import sys
import time

ROUNDS = 5
SAMPLES = 40_000
BATCH = 512
IDS = 10_000
CONTENDERS = {
    "engine": "the engine alone, batches converted before",
    "v2": "the reader in V2, `paddle.v2`'s SGD",
    "v2_buffered": "the reader in V2, in `paddle.reader.buffered`",
    "v1": "the provider in V1, `paddle train`",
}

LINES = """\
def parse(line):
    numbers, ids, click = line.split(";")
    return [float(x) for x in numbers.split()], [int(x) for x in ids.split()], int(click)
"""
PROVIDER = """\
from lines import parse
from paddle.trainer.PyDataProvider2 import *


@provider(
    input_types=[dense_vector(13), sparse_binary_vector({ids}), integer_value(2)],
    should_shuffle=False,
)
def process(settings, file_name):
    with open(file_name) as file:
        for line in file:
            yield parse(line)
"""
CONFIGURATION = """\
from paddle.trainer_config_helpers import *

define_py_data_sources2("train.list", None, module="dataprovider", obj="process")
settings(batch_size={batch}, learning_rate=1e-4, learning_method=AdamOptimizer())
numbers = data_layer(name="numbers", size=13)
ids = data_layer(name="ids", size={ids})
click = data_layer(name="click", size=2)
rows = fc_layer(input=ids, size=32, param_attr=ParamAttr(sparse_update=True))
hidden = fc_layer(input=[numbers, rows], size=256, act=ReluActivation())
hidden = fc_layer(input=hidden, size=128, act=ReluActivation())
predict = fc_layer(input=hidden, size=2, act=SoftmaxActivation())
outputs(classification_cost(input=predict, label=click))
"""


def write(folder):
    """The data and the V1 program."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    with open(folder / "data", "w") as file:
        for _ in range(SAMPLES):
            numbers = " ".join(f"{draw.random():.6f}" for _ in range(13))
            ids = " ".join(str(each) for each in sorted(draw.sample(range(IDS), 26)))
            file.write(f"{numbers};{ids};{draw.randrange(2)}\n")
    (folder / "train.list").write_text("data\n")
    (folder / "lines.py").write_text(LINES)
    (folder / "dataprovider.py").write_text(PROVIDER.format(ids=IDS))
    (folder / "trainer_config.py").write_text(CONFIGURATION.format(batch=BATCH, ids=IDS))


class Clock:
    """Times the second pass of a training; in the first one memory and threads settle."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self, happened):
        import paddle.v2 as paddle

        if isinstance(happened, paddle.event.BeginPass):
            self.begin = time.perf_counter()
        elif isinstance(happened, paddle.event.EndPass):
            self.seconds = time.perf_counter() - self.begin


def run(contender):
    """Samples a second, in the folder of the program."""
    from paddle.v1 import flags
    from paddle.v1.session import open_session

    sys.path.insert(0, ".")
    session = open_session(flags.parse(["--config=trainer_config.py"], {}))
    clock = Clock()
    if contender == "v1":
        passes = iter(range(2))
        reader = lambda: session.train.reader(next(passes))()  # noqa: E731
    else:
        session.train.process.close()
        reader = of_v2(contender, session)
    session.trainer.train(reader, num_passes=2, event_handler=clock)
    return SAMPLES / clock.seconds


def of_v2(contender, session):
    from lines import parse

    import paddle.v2 as paddle

    def samples():
        with open("data") as file:
            for line in file:
                yield parse(line)

    batches = paddle.batch(samples, BATCH)
    if contender == "v2_buffered":
        return paddle.reader.buffered(batches, 4)
    if contender == "v2":
        return batches
    feeder = session.trainer.feeder()
    # A batch can be run once, so there are two passes of them.
    converted = [[feeder(batch) for batch in batches()] for _ in range(2)]
    passes = iter(converted)
    return lambda: iter(next(passes))


def main():
    folder = pathlib.Path(sys.argv[1])
    if len(sys.argv) > 2:
        print(run(sys.argv[2]))
        return
    write(folder)
    found = {name: [] for name in CONTENDERS}
    for _ in range(ROUNDS):
        for name in CONTENDERS:
            command = [sys.executable, str(pathlib.Path(__file__).resolve()), ".", name]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
            found[name].append(float(done.stdout.splitlines()[-1]))
    print(f"{SAMPLES:,} samples in batches of {BATCH}, one thread; {ROUNDS} rounds in turns.\n")
    print("| | samples/s | of the engine alone | spread |\n|---|--:|--:|--:|")
    for name, shown in CONTENDERS.items():
        shares = [own / engine for own, engine in zip(found[name], found["engine"], strict=True)]
        spread = f"{min(shares):.2f}–{max(shares):.2f}"
        median, share = statistics.median(found[name]), statistics.median(shares)
        print(f"| {shown} | {median:,.0f} | {share:.2f} | {spread} |")


if __name__ == "__main__":
    main()
