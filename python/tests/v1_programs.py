"""Small V1 programs that tests run: a configuration, a provider, data, and `paddle train`."""

import os
import pathlib
import random
import re
import subprocess

import processes

CONFIGURATION = """\
from paddle.trainer_config_helpers import *

define_py_data_sources2("train.list", "test.list", module="dataprovider", obj="process")
settings(
    batch_size=get_config_arg("batch_size", int, 8),
    learning_rate=1e-2,
    learning_method={method},
    model_average={average},
)
x = data_layer(name="x", size=4)
word = data_layer(name="word", size=20)
label = data_layer(name="label", size=3)
emb = embedding_layer(input=word, size=5, param_attr=ParamAttr(sparse_update={sparse}))
hidden = fc_layer(
    input=[x, pooling_layer(input=emb, pooling_type=AvgPooling())],
    size=8,
    layer_attr=ExtraAttr(drop_rate={dropout}),
)
predict = fc_layer(input=hidden, size=3, act=SoftmaxActivation())
outputs(classification_cost(input=predict, label=label))
"""

PROVIDER = """\
from paddle.trainer.PyDataProvider2 import *


@provider(
    input_types=[dense_vector(4), integer_value_sequence(20), integer_value(3)], {options}
)
def process(settings, file_name):
    with open(file_name) as file:
        for line in file:
            x, words, label = line.split(";")
            yield [float(each) for each in x.split()], [int(w) for w in words.split()], int(label)
"""


def write(folder, options="", **choices):
    """A program in a folder: two files to train with, one to test."""
    folder = pathlib.Path(folder)
    chosen = {"method": "AdamOptimizer()", "average": None, "sparse": True, "dropout": 0}
    (folder / "trainer_config.py").write_text(CONFIGURATION.format(**{**chosen, **choices}))
    (folder / "dataprovider.py").write_text(PROVIDER.format(options=options))
    draw = random.Random(7)
    for name in ("part-0", "part-1", "tests"):
        (folder / name).write_text("".join(line(draw) for _ in range(60)))
    (folder / "train.list").write_text("part-0\npart-1\n")
    (folder / "test.list").write_text("tests\n")
    return folder


def line(draw):
    label = draw.randrange(3)
    x = " ".join(f"{draw.gauss(label == place, 0.4):.4f}" for place in range(4))
    words = " ".join(str(draw.randrange(20)) for _ in range(draw.randrange(1, 5)))
    return f"{x};{words};{label}\n"


def train(folder, *flags, **environment):
    """The log of a training; it must succeed."""
    code, log = try_to_train(folder, *flags, **environment)
    assert code == 0, log
    return log


def try_to_train(folder, *flags, **environment):
    """The exit code and the log of a training."""
    ended = subprocess.run(
        [processes.PADDLE, "train", *flags],
        cwd=folder,
        env={**os.environ, "PATH": processes.PATH, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=processes.DEADLINE_SECONDS,
        check=False,
    )
    return ended.returncode, ended.stdout


def figures(log, pattern):
    """All numbers that a pattern finds in a log."""
    return [float(each) for each in re.findall(pattern, log)]


def files(directory):
    """The content of every file of a directory."""
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(directory).iterdir())}
