"""Files that users hand over: opened the wrong way, or with something else in them."""

import gzip
import io
import pickle
import tempfile

import pytest

import paddle.v2 as paddle
import recordio
from paddle import errors
from paddle.v2 import naming
from paddle.v2.parameters import Parameters
from paddle.v2.topology import Topology


@pytest.fixture
def cost():
    naming.reset()
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
    return paddle.layer.square_error_cost(input=paddle.layer.fc(input=x, size=1), label=x)


@pytest.fixture
def parameters(cost):
    return paddle.parameters.create(cost)


def test_a_text_file_is_refused_with_the_call_that_opens_it(parameters, cost, tmp_path):
    path = str(tmp_path / "model.tar")
    with open(path, "w") as file:
        with pytest.raises(errors.WrongTypeError) as caught:
            parameters.to_tar(file)
        assert f"opened as text, but models are bytes; use open({path!r}, 'wb')" in str(
            caught.value
        )
        with pytest.raises(TypeError, match="opened as text"):
            Topology(cost).serialize_for_inference(file)
    with open(path) as file:
        for read in (Parameters.from_tar, parameters.init_from_tar, Topology.load):
            with pytest.raises(errors.WrongTypeError, match=r"open\(.*model.tar', 'rb'\)"):
                read(file)
    with gzip.open(path, "wt") as file, pytest.raises(TypeError, match="opened as text"):
        parameters.to_tar(file)
    with tempfile.NamedTemporaryFile("w") as file, pytest.raises(TypeError, match="as text"):
        parameters.to_tar(file)
    with pytest.raises(TypeError, match=r"opened as text.* use open\(…, 'wb'\)"):
        parameters.to_tar(io.StringIO())


def test_a_file_for_the_other_direction_and_a_path_are_refused(parameters, tmp_path):
    path = str(tmp_path / "model.tar")
    with open(path, "wb") as file:
        parameters.to_tar(file)
        with pytest.raises(TypeError, match=r"not opened to read; use open\(.*'rb'\)"):
            parameters.init_from_tar(file)
    with open(path, "rb") as file, pytest.raises(TypeError, match="not opened to write"):
        parameters.to_tar(file)
    with pytest.raises(TypeError, match=r"needs an open file, not a path; use open\(.*'wb'\)"):
        parameters.to_tar(path)


def test_files_in_memory_and_packed_ones_are_accepted(parameters, tmp_path):
    parameters.to_tar(io.BytesIO())
    with tempfile.TemporaryFile() as file:
        parameters.to_tar(file)
    with gzip.open(tmp_path / "model.tar.gz", "wb") as file:
        parameters.to_tar(file)


def test_records_that_are_no_pickles_name_the_files_and_the_loader(tmp_path):
    path = str(tmp_path / "lines")
    with recordio.writer(path) as file:
        file.write(pickle.dumps(1))
        file.write(b"one line")
    samples = paddle.reader.creator.recordio(path)()
    assert next(samples) == 1
    with pytest.raises(errors.InvalidError) as caught:
        next(samples)
    assert "loader=None for its bytes" in str(caught.value) and path in str(caught.value)
    assert list(paddle.reader.creator.recordio(path, loader=None)()) == [
        pickle.dumps(1),
        b"one line",
    ]


def test_a_loader_of_ones_own_fails_in_its_own_words(tmp_path):
    path = str(tmp_path / "lines")
    with recordio.writer(path) as file:
        file.write(b"one")
    with pytest.raises(ValueError, match="invalid literal for int"):
        list(paddle.reader.creator.recordio(path, loader=int)())


def test_a_shared_file_that_is_no_pickle_is_named(tmp_path):
    (tmp_path / "part-0").write_text("one line\n")
    reader = paddle.dataset.common.cluster_files_reader(str(tmp_path / "part-*"), 1, 0)
    with pytest.raises(
        errors.InvalidError, match=r"makes samples of the file \(file: .*part-0, at"
    ):
        list(reader())


def test_a_file_that_is_no_model_is_named(parameters, tmp_path):
    path = tmp_path / "model.tar"
    path.write_bytes(b"not a tar\x00\x01" * 100)
    for read in (Parameters.from_tar, parameters.init_from_tar):
        with open(path, "rb") as file, pytest.raises(errors.DamagedError) as caught:
            read(file)
        assert str(caught.value).startswith(f"{path}: ") and str(caught.value).isprintable()
