"""One network fed in one way, as a process: prints its samples a second as JSON.

    contender.py NAME SAMPLES    in a folder that `write` has filled

The data is text, 13 numbers and 26 ids a line, so that Python has as much to do as the engine. V1
and V2 run the same generator. The engine alone is fed with batches that were converted before.
"""

import collections
import json
import random
import sys
import time

BATCH = 512
IDS = 10_000

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


def write(folder, samples):
    """The data and the V1 program."""
    draw = random.Random(1)
    with open(folder / "data", "w") as file:
        for _ in range(samples):
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


def run(contender, samples):
    """Samples a second, in the folder of the program."""
    if contender == "generator":
        return samples / generator_seconds()
    from paddle.v1 import flags
    from paddle.v1.session import open_session

    session = open_session(flags.parse(["--config=trainer_config.py"], {}))
    clock = Clock()
    if contender == "v1":
        passes = iter(range(2))
        reader = lambda: session.train.reader(next(passes))()  # noqa: E731
    else:
        session.train.process.close()
        reader = of_v2(contender, session)
    session.trainer.train(reader, num_passes=2, event_handler=clock)
    return samples / clock.seconds


def lines():
    """What both versions' generators give."""
    from lines import parse

    with open("data") as file:
        for line in file:
            yield parse(line)


def generator_seconds():
    """A pass of the generator alone."""
    begin = time.perf_counter()
    collections.deque(lines(), maxlen=0)
    return time.perf_counter() - begin


def of_v2(contender, session):
    import paddle.v2 as paddle

    batches = paddle.batch(lines, BATCH)
    if contender == "v2_buffered":
        return paddle.reader.buffered(batches, 4)
    if contender == "v2":
        return batches
    feeder = session.trainer.feeder()
    # A batch can be run once, so there are two passes of them.
    converted = [[feeder(batch) for batch in batches()] for _ in range(2)]
    passes = iter(converted)
    return lambda: iter(next(passes))


if __name__ == "__main__":
    sys.path.insert(0, ".")
    print(json.dumps({"rate": run(sys.argv[1], int(sys.argv[2]))}))
