"""Data sets of numbers and pictures, each read from a small file in exactly its format."""

import gzip
import io
import os
import pickle
import struct

import numpy as np
import pytest
from archives import converted, place, tar

from paddle import errors
from paddle.v2.dataset import cifar, criteo, mnist, uci_housing

__all__ = ["place"]


def put_housing(place, rows=10):
    draw = np.random.default_rng(1)
    data = draw.uniform(0, 50, (rows, 14))
    # Columns are right-aligned; in some copies a line goes on in the next.
    lines = [" ".join(f"{number:9.4f}" for number in row) for row in data]
    lines[1] = lines[1][:50] + "\n" + lines[1][50:]
    place(uci_housing, "uci_housing/housing.data", "\n".join(lines).encode() + b"\n")
    return data.round(4)


def test_housing_is_normalised_and_cut(place, tmp_path):
    data = put_housing(place)
    samples = [*uci_housing.train()(), *uci_housing.test()()]
    assert len(list(uci_housing.train()())) == 8
    low, high, mean = data.min(axis=0), data.max(axis=0), data.mean(axis=0)
    for (features, price), row in zip(samples, data, strict=True):
        np.testing.assert_allclose(features, ((row - mean) / (high - low))[:13])
        assert price.shape == (1,) and price[0] == row[13]
    assert converted(uci_housing, tmp_path / "out") == {
        "uci_housing_test-00000": 2,
        "uci_housing_train-00000": 8,
    }
    assert len(uci_housing.feature_names) == 13


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1 2 3\n4 5 6\n", "lines of 14 numbers but has 6"),
        (b"", "lines of 14 numbers but has 0"),
        (b"<html>", "could not convert"),
    ],
)
def test_a_housing_file_of_another_form_is_refused(place, content, message):
    place(uci_housing, "uci_housing/housing.data", content)
    with pytest.raises(errors.DamagedError, match=message):
        uci_housing.train()


def idx(array):
    head = struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape)
    return gzip.compress(head + array.astype(np.uint8).tobytes())


def put_digits(place, images, labels, part="TRAIN"):
    stem = {"TRAIN": "train", "TEST": "t10k"}[part]
    place(mnist, f"mnist/{stem}-images-idx3-ubyte.gz", images, f"{part}_IMAGE_MD5")
    place(mnist, f"mnist/{stem}-labels-idx1-ubyte.gz", labels, f"{part}_LABEL_MD5")


def test_digits_are_read(place, tmp_path):
    images = np.random.default_rng(1).integers(0, 256, (105, 28, 28))
    images[0, 0, :2] = 0, 255
    labels = np.arange(105) % 10
    put_digits(place, idx(images), idx(labels))
    put_digits(place, idx(images[:3]), idx(labels[:3]), "TEST")
    samples = list(mnist.train()())
    # The original leaves out what does not fill a hundred.
    assert len(samples) == 105 and len(list(mnist.test()())) == 3
    pixels, digit = samples[104]
    assert pixels.dtype == np.float32 and pixels.shape == (784,) and digit == 4
    np.testing.assert_allclose(pixels, images[104].reshape(-1) / 127.5 - 1, atol=1e-6)
    assert samples[0][0][:2].tolist() == [-1, 1]
    assert converted(mnist, tmp_path / "out") == {"minist_test-00000": 3, "minist_train-00000": 105}


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (idx(np.zeros((2, 28, 28))), idx(np.zeros(3)), "2 pictures but 3 labels"),
        (idx(np.zeros(2)), idx(np.zeros(2)), "has only 10 bytes"),
        (idx(np.zeros((2, 4))) + idx(np.zeros(9)), idx(np.zeros(2)), "begins with 2050"),
        (idx(np.zeros((2, 28, 28)))[:-9], idx(np.zeros(2)), "cannot read train-images"),
        (gzip.compress(struct.pack(">4I", 2051, 2, 28, 28)), idx(np.zeros(2)), "has 0 bytes for"),
        (gzip.compress(struct.pack(">4I", 2051, 2**31, 2**31, 2**31)), b"", "has 0 bytes for"),
        (b"not gzip", idx(np.zeros(2)), "Not a gzipped file"),
    ],
)
def test_damaged_digits_are_noticed(place, images, labels, message):
    put_digits(place, images, labels)
    with pytest.raises(errors.DamagedError, match=message):
        list(mnist.train()())


class Python2Pickler(pickle._Pickler):
    """Writes bytes as Python 2 writes its strings, and numpy's names as they were then."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_string(self, data):
        self.write(b"T" + struct.pack("<i", len(data)) + data)
        self.memoize(data)

    dispatch[bytes] = save_string


def python2_pickle(value):
    written = io.BytesIO()
    Python2Pickler(written, protocol=2).dump(value)
    return written.getvalue().replace(b"numpy._core.", b"numpy.core.")


def batch_of(images, labels, key="labels"):
    return {b"data": images, key.encode(): labels, b"batch_label": b"training batch 1 of 5"}


IMAGES = np.random.default_rng(2).integers(0, 256, (4, 3072)).astype(np.uint8)


def test_pictures_are_read_from_the_pickles_of_python_2(place, tmp_path):
    files = {
        "cifar-10-batches-py/data_batch_1": python2_pickle(batch_of(IMAGES[:2], [3, 9])),
        "cifar-10-batches-py/readme.html": b"<a>",
        "cifar-10-batches-py/batches.meta": b"not to be read",
        "cifar-10-batches-py/test_batch": python2_pickle(batch_of(IMAGES[3:], [7])),
        "cifar-10-batches-py/data_batch_2": python2_pickle(batch_of(IMAGES[2:3], [0])),
    }
    place(cifar, "cifar/cifar-10-python.tar.gz", tar(files), "CIFAR10_MD5")
    files = {
        "cifar-100-python/train": python2_pickle(batch_of(IMAGES[:3], [99, 1, 2], "fine_labels")),
        "cifar-100-python/test": python2_pickle(batch_of(IMAGES[3:], [5], "fine_labels")),
    }
    place(cifar, "cifar/cifar-100-python.tar.gz", tar(files), "CIFAR100_MD5")
    samples = list(cifar.train10()())
    assert [label for _, label in samples] == [3, 9, 0]
    pixels = samples[2][0]
    assert pixels.dtype == np.float32
    np.testing.assert_allclose(pixels, IMAGES[2] / 255, atol=1e-7)
    assert [label for _, label in cifar.test10()()] == [7]
    assert [label for _, label in cifar.train100()()] == [99, 1, 2]
    assert [label for _, label in cifar.test100()()] == [5]
    again = cifar.test10(cycle=True)()
    assert [next(again)[1] for _ in range(3)] == [7, 7, 7]
    assert converted(cifar, tmp_path / "out") == {
        "cifar_test10-00000": 1,
        "cifar_test100-00000": 1,
        "cifar_train10-00000": 3,
        "cifar_train100-00000": 3,
    }


def test_pictures_are_read_from_newer_pickles(place):
    batch = pickle.dumps({"data": IMAGES, "labels": [1, 2, 3, 4]}, protocol=3)
    place(cifar, "cifar/cifar-10-python.tar.gz", tar({"x/data_batch_1": batch}), "CIFAR10_MD5")
    assert [label for _, label in cifar.train10()()] == [1, 2, 3, 4]


class Harm:
    def __reduce__(self):
        return os.system, ("touch harmed",)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (pickle.dumps(Harm()), "may not use posix.system"),
        (pickle.dumps({"data": Harm(), "labels": []}, protocol=0), "may not use"),
        (pickle.dumps({"data": IMAGES, "labels": [1]}), "1 classes for uint8 of"),
        (pickle.dumps({"labels": [1]}), "cannot read the batch x/data_batch_1"),
        (pickle.dumps([1]), "cannot read the batch"),
        (b"\x80", "cannot read the batch"),
    ],
)
def test_a_pickle_that_is_no_batch_is_refused_and_runs_nothing(
    place, tmp_path, monkeypatch, batch, message
):
    monkeypatch.chdir(tmp_path)
    place(cifar, "cifar/cifar-10-python.tar.gz", tar({"x/data_batch_1": batch}), "CIFAR10_MD5")
    with pytest.raises(errors.DamagedError, match=message):
        list(cifar.train10()())
    assert not (tmp_path / "harmed").exists()


def click_line(click, number="", category="68fd1e64"):
    return "\t".join([str(click), number, *["1"] * 12, category, *[""] * 25]) + "\n"


CLICKS = "".join(click_line(n % 2, str(10 * n)) for n in range(5))


def test_clicks_are_read(place, tmp_path, monkeypatch):
    packed = tar({"readme.txt": b"", "train.txt": CLICKS.encode(), "test.txt": b"no clicks"})
    place(criteo, "criteo/dac.tar.gz", packed)
    monkeypatch.setattr(criteo, "TRAIN_LINES", 3)
    samples = list(criteo.train(1000)())
    assert [sample[-1] for sample in samples] == [0, 1, 0]
    numbers, *ids, _ = samples[1]
    assert len(numbers) == 13 and len(ids) == 26 and all(0 <= each < 1000 for each in ids)
    assert numbers[0] == 0.5 and numbers[1] == (1 + 3) / 603 and numbers[2] == 0.01
    assert list(criteo.test(1000, trainers=2, trainer_id=1)()) == list(criteo.test(1000)())[1:]
    assert converted(criteo, tmp_path / "out") == {"criteo_test-00000": 2, "criteo_train-00000": 3}


def test_clicks_are_read_from_a_text_and_dealt_out(tmp_path):
    (tmp_path / "clicks.txt").write_text(CLICKS)
    (tmp_path / "clicks.txt.gz").write_bytes(gzip.compress(CLICKS.encode()))
    whole = list(criteo.read(tmp_path / "clicks.txt", 1000)())
    assert list(criteo.read(tmp_path / "clicks.txt.gz", 1000)()) == whole
    shares = [list(criteo.read(tmp_path / "clicks.txt", 1000, 2, rank)()) for rank in range(2)]
    assert shares == [whole[0::2], whole[1::2]]
    with pytest.raises(ValueError, match="trainer_id must be less than trainers"):
        criteo.read(tmp_path / "clicks.txt", 1000, 2, 2)


def test_an_empty_field_and_equal_categories_of_two_columns_are_told_apart():
    numbers, *ids, click = criteo.parse(click_line(1), 1 << 30)
    assert numbers[0] == 0.0 and click == 1
    assert len(set(ids)) == 26


@pytest.mark.parametrize("line", ["1\t2\n", click_line(0, "much"), click_line("yes")])
def test_a_damaged_click_is_named_by_its_line(tmp_path, line):
    (tmp_path / "clicks.txt").write_text(CLICKS + line)
    with pytest.raises(errors.DamagedError, match="cannot read line 6"):
        list(criteo.read(tmp_path / "clicks.txt", 1000)())
