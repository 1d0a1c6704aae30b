"""Layers of all kinds of parameters, trained on parameter servers as in one process."""

import pathlib
import sys

import numpy
import processes
import pytest
from programs import many_layers

import paddle.v2 as paddle
from paddle.v2 import naming
from paddle.v2.parameters import Parameters

PROGRAM = pathlib.Path(many_layers.__file__)


def trained(folder, *command, options=()):
    """The model of a training that the command runs."""
    path = folder / f"model-{len(list(folder.iterdir()))}.tar"
    processes.run(folder, *command, sys.executable, str(PROGRAM), str(path), *options)
    with open(path, "rb") as file:
        model = Parameters.from_tar(file)
    return {name: model[name] for name in model}


def launched(servers, trainers):
    return ("paddle", "launch", f"--pservers={servers}", f"--trainers={trainers}", "--")


@pytest.mark.parametrize("options", [(), ("norm",)])
def test_one_server_trains_layers_to_the_same_bits(tmp_path, options):
    alone = trained(tmp_path, options=options)
    served = trained(tmp_path, *launched(1, 1), options=options)
    assert list(served) == list(alone)
    for name, values in alone.items():
        numpy.testing.assert_array_equal(served[name], values, err_msg=name)


def test_two_trainers_train_layers_as_one_would(tmp_path):
    alone = trained(tmp_path)
    served = trained(tmp_path, *launched(2, 2))
    assert list(served) == list(alone)
    for name, values in alone.items():
        numpy.testing.assert_allclose(served[name], values, rtol=1e-3, atol=1e-5, err_msg=name)


def test_every_parameter_has_been_trained(tmp_path):
    naming.reset()
    paddle.init(seed=4)
    first = paddle.parameters.create(many_layers.network(has_norm=True))
    model = trained(tmp_path, *launched(1, 1), options=("norm",))
    assert set(model) == set(first)
    still = [name for name in model if (model[name] == first[name]).all()]
    assert still == []
