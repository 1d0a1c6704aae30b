"""Clicks on advertisements: Criteo's display advertising challenge, 45 million lines.

A line is a click, 13 numbers and 26 categories, with tabs between; any of the numbers and
categories may be empty. A sample is the numbers, most of them between 0 and 1, 26 ids, and the
click. Categories are hashed to `sparse_feature_dim` ids; two of different columns that share an id
are not told apart, which hardly matters when it is large.

The archive has 4.6 GB, and its own terms of use. `read` is for lines that were taken out of it.
"""

import gzip
import itertools
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from paddle import feed
from paddle.v2 import mistake
from paddle.v2.dataset import common
from paddle.v2.dataset.archive import damaged, reading, tar_lines
from paddle.v2.dataset.shards import checked_place
from paddle.v2.reader.flow import Reader

URL = "https://go.criteo.net/criteo-research-kaggle-display-advertising-challenge-dataset.tar.gz"
MD5 = "df9b1b3766d9ff91d5ca3eb3d23bed27"
FILE_NAME = "dac.tar.gz"

# The archive's `test.txt` has no clicks: the end of `train.txt` tests.
TRAIN_LINES = 41_256_555
SPARSE_FEATURE_DIM = 1_000_001

DENSE_FEATURES = 13
SPARSE_FEATURES = 26

# Most of the values of a column are in this range; it becomes 0 to 1.
DENSE_LOW = (0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
DENSE_HIGH = (20, 600, 100, 50, 64000, 500, 100, 50, 500, 10, 10, 10, 50)


@mistake.checked_arguments
def train(
    sparse_feature_dim: int = SPARSE_FEATURE_DIM, trainers: int = 1, trainer_id: int = 0
) -> Reader:
    """A reader of the training data; of several trainers each takes every n-th line."""
    path = _file()
    return _reader(
        lambda: itertools.islice(tar_lines(path, "train.txt"), TRAIN_LINES),
        sparse_feature_dim,
        (trainers, trainer_id),
        path,
    )


@mistake.checked_arguments
def test(
    sparse_feature_dim: int = SPARSE_FEATURE_DIM, trainers: int = 1, trainer_id: int = 0
) -> Reader:
    """A reader of the test data."""
    path = _file()
    return _reader(
        lambda: itertools.islice(tar_lines(path, "train.txt"), TRAIN_LINES, None),
        sparse_feature_dim,
        (trainers, trainer_id),
        path,
    )


@mistake.checked_arguments
def read(
    path: str | os.PathLike[str],
    sparse_feature_dim: int = SPARSE_FEATURE_DIM,
    trainers: int = 1,
    trainer_id: int = 0,
) -> Reader:
    """A reader of a file of such lines, a text or, if it ends in `.gz`, a compressed one."""
    name = os.fspath(path)

    def lines() -> Iterator[bytes]:
        with reading(name), gzip.open(name) if name.endswith(".gz") else open(name, "rb") as file:
            yield from file

    return _reader(lines, sparse_feature_dim, (trainers, trainer_id), name)


@mistake.checked_arguments
def files(
    pattern: Any, batch_size: int, sparse_feature_dim: int = SPARSE_FEATURE_DIM, **settings: Any
) -> feed.Files:
    """Batches of files of such lines, parsed on background threads without Python.

    What `trainer.train` gets of it is what it gets of `paddle.batch(read(path), batch_size)`, many
    times faster. `settings` are those of `paddle.feed.files`.
    """
    return feed.files(
        pattern, None, batch_size, format="criteo", hash_size=sparse_feature_dim, **settings
    )


def parse(line: str, sparse_feature_dim: int) -> tuple[Any, ...]:
    """13 numbers, 26 ids, the click."""
    click, *features = line.rstrip("\r\n").split("\t")
    if len(features) != DENSE_FEATURES + SPARSE_FEATURES:
        raise ValueError(
            f"a line must have {1 + DENSE_FEATURES + SPARSE_FEATURES} fields with tabs between "
            f"but has {1 + len(features)}"
        )
    numbers = [
        (float(text) - low) / (high - low) if text else 0.0
        for text, low, high in zip(features, DENSE_LOW, DENSE_HIGH, strict=False)
    ]
    # Not `hash`: Python's is another one in every process, and trainers must agree.
    ids = [
        zlib.crc32(f"{column}:{text}".encode()) % sparse_feature_dim
        for column, text in enumerate(features[DENSE_FEATURES:])
    ]
    return (numbers, *ids, int(click))


def fetch() -> None:
    """Fetches the file, if it is not there."""
    _file()


def convert(path: str) -> None:
    """Writes RecordIO files of pickled samples; `files` reads the text instead, which is faster."""
    common.convert(path, train(), 1000, "criteo_train")
    common.convert(path, test(), 1000, "criteo_test")


def _file() -> str:
    return common.download(URL, "criteo", MD5, FILE_NAME)


def _reader(
    lines: Callable[[], Iterable[bytes]],
    sparse_feature_dim: int,
    place: tuple[int, int],
    path: str,
) -> Reader:
    size = mistake.whole("sparse_feature_dim", sparse_feature_dim)
    trainers, rank = checked_place("trainers", *place)

    def samples() -> Iterator[tuple[Any, ...]]:
        for number, line in itertools.islice(enumerate(lines(), 1), rank, None, trainers):
            try:
                yield parse(line.decode("ascii"), size)
            except ValueError as error:
                raise damaged(path, f"cannot read line {number}: {error}") from error

    return samples
