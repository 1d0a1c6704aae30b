"""Handwritten digits: 60 000 pictures to train and 10 000 to test, 28 × 28 pixels each.

A sample is 784 numbers between -1 and 1, and the digit. The files are in the IDX format: a magic
number that tells type and dimensions, the sizes, all big-endian, and the bytes, in gzip.
"""

import gzip
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddle.v2.dataset import common
from paddle.v2.dataset.archive import damaged, reading, whole
from paddle.v2.reader.flow import Reader

URL_PREFIX = "https://dataset.bj.bcebos.com/mnist/"
TEST_IMAGE_URL = URL_PREFIX + "t10k-images-idx3-ubyte.gz"
TEST_IMAGE_MD5 = "9fb629c4189551a2d022fa330f9573f3"
TEST_LABEL_URL = URL_PREFIX + "t10k-labels-idx1-ubyte.gz"
TEST_LABEL_MD5 = "ec29112dd5afa0611ce80d1b7f02629c"
TRAIN_IMAGE_URL = URL_PREFIX + "train-images-idx3-ubyte.gz"
TRAIN_IMAGE_MD5 = "f68b3c2dcbeaaa9fbdd348bbdeb94873"
TRAIN_LABEL_URL = URL_PREFIX + "train-labels-idx1-ubyte.gz"
TRAIN_LABEL_MD5 = "d53e105ee54ea40749a09fcbcd1e9432"

# Two zero bytes, "unsigned byte", and the number of dimensions.
_MAGIC = 0x0800


def train() -> Reader:
    """A reader of the training data."""
    return _reader(
        common.download(TRAIN_IMAGE_URL, "mnist", TRAIN_IMAGE_MD5),
        common.download(TRAIN_LABEL_URL, "mnist", TRAIN_LABEL_MD5),
    )


def test() -> Reader:
    """A reader of the test data."""
    return _reader(
        common.download(TEST_IMAGE_URL, "mnist", TEST_IMAGE_MD5),
        common.download(TEST_LABEL_URL, "mnist", TEST_LABEL_MD5),
    )


def fetch() -> None:
    """Fetches the files, if they are not there."""
    train()
    test()


def convert(path: str) -> None:
    """Writes RecordIO files; their names are those that the original gave them."""
    common.convert(path, train(), 1000, "minist_train")
    common.convert(path, test(), 1000, "minist_test")


def _reader(image_path: str, label_path: str) -> Reader:
    def samples() -> Iterator[tuple[NDArray[np.float32], int]]:
        images, labels = _bytes(image_path, dimensions=3), _bytes(label_path, dimensions=1)
        if len(images) != len(labels):
            what = f"there are {len(images)} pictures but {len(labels)} labels in {label_path}"
            raise damaged(image_path, what)
        for image, label in zip(images.reshape(len(images), -1), labels.tolist(), strict=True):
            yield image.astype(np.float32) / np.float32(255) * np.float32(2) - np.float32(1), label

    return samples


def _bytes(path: str, dimensions: int) -> NDArray[Any]:
    """The array of an IDX file."""
    with reading(path), gzip.open(path) as file:
        data = whole(file, path, "")
    header = struct.Struct(f">{dimensions + 1}I")
    if len(data) < header.size:
        raise damaged(path, f"the file has only {len(data)} bytes")
    magic, *sizes = header.unpack_from(data)
    if magic != _MAGIC + dimensions:
        raise damaged(path, f"the file begins with {magic} instead of {_MAGIC + dimensions}")
    content = np.frombuffer(data, np.uint8, offset=header.size)
    expected = int(np.prod(sizes, dtype=object))
    if len(content) != expected:
        raise damaged(path, f"the file has {len(content)} bytes for sizes of {sizes}")
    return content.reshape(sizes)
