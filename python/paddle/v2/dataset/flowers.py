"""Photographs of flowers of 102 kinds, 8189 of them, of Oxford's Visual Geometry Group.

A sample is a picture of 3 x 224 x 224 numbers in one row (blue, green, red, with their means
subtracted) and its kind, from 0. What the authors call the test set is larger than their training
set, so the two are exchanged: `train` has 6149 pictures, `test` and `valid` 1020 each.
"""

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

from paddle.v2 import image, mistake
from paddle.v2.dataset import common, matlab
from paddle.v2.dataset.archive import damaged, tar_files
from paddle.v2.reader.decorator import map_readers, xmap_readers
from paddle.v2.reader.flow import Reader

DATA_URL = "http://www.robots.ox.ac.uk/~vgg/data/flowers/102/102flowers.tgz"
LABEL_URL = "http://www.robots.ox.ac.uk/~vgg/data/flowers/102/imagelabels.mat"
SETID_URL = "http://www.robots.ox.ac.uk/~vgg/data/flowers/102/setid.mat"
DATA_MD5 = "33bfc11892f1e405ca193ae9a9f2a118"
LABEL_MD5 = "e0620be6f572b9609742df49c70aed4d"
SETID_MD5 = "a5357ecc9cb78c4bef273ce3793fc85c"

TRAIN_FLAG = "tstid"
TEST_FLAG = "trnid"
VALID_FLAG = "valid"

MEAN = (103.94, 116.78, 123.68)


def default_mapper(is_train: bool, sample: tuple[bytes, int]) -> tuple[Any, int]:
    """Makes a row of a picture's file: resized to 256, and 224 of it, somewhere if `is_train`."""
    content, label = sample
    picture = image.load_image_bytes(content)
    picture = image.simple_transform(picture, 256, 224, is_train, mean=MEAN)
    return picture.ravel(), label


train_mapper = functools.partial(default_mapper, True)
test_mapper = functools.partial(default_mapper, False)

Mapper = Callable[[tuple[bytes, int]], Any]


@mistake.checked_arguments
def train(
    mapper: Mapper = train_mapper, buffered_size: int = 1024, use_xmap: bool = True
) -> Reader:
    """A reader of the training data. `mapper` makes a sample of a file's bytes and a label.

    use_xmap: pictures are made ready in threads, `buffered_size` of them ahead.
    """
    return _reader(TRAIN_FLAG, mapper, buffered_size, use_xmap)


@mistake.checked_arguments
def test(mapper: Mapper = test_mapper, buffered_size: int = 1024, use_xmap: bool = True) -> Reader:
    """A reader of the test data."""
    return _reader(TEST_FLAG, mapper, buffered_size, use_xmap)


@mistake.checked_arguments
def valid(mapper: Mapper = test_mapper, buffered_size: int = 1024, use_xmap: bool = True) -> Reader:
    """A reader of the data to choose a model by."""
    return _reader(VALID_FLAG, mapper, buffered_size, use_xmap)


def fetch() -> None:
    """Fetches the files, if they are not there."""
    _files()


def convert(path: str) -> None:
    """Writes RecordIO files."""
    common.convert(path, train(), 1000, "flowers_train")
    common.convert(path, test(), 1000, "flowers_test")


def _files() -> tuple[str, str, str]:
    return (
        common.download(DATA_URL, "flowers", DATA_MD5),
        common.download(LABEL_URL, "flowers", LABEL_MD5),
        common.download(SETID_URL, "flowers", SETID_MD5),
    )


def _reader(flag: str, mapper: Mapper, buffered_size: int, use_xmap: bool) -> Reader:
    pictures, label_file, set_file = _files()
    labels = matlab.read(label_file, "labels").ravel()
    wanted = {}
    for number in matlab.read(set_file, flag).ravel():
        if not 1 <= number <= len(labels):
            raise damaged(set_file, f"there is no label of picture {number}")
        wanted[f"jpg/image_{number:05}.jpg"] = int(labels[number - 1]) - 1

    def samples() -> Iterator[tuple[bytes, int]]:
        found = 0
        for name, content in tar_files(pictures, wanted.__contains__):
            found += 1
            yield content, wanted[name]
        if found != len(wanted):
            raise damaged(pictures, f"the archive has {found} of {len(wanted)} pictures")

    if mistake.truth("use_xmap", use_xmap):
        threads = os.cpu_count() or 1
        return xmap_readers(mapper, samples, threads, buffered_size)
    return map_readers(mapper, samples)
