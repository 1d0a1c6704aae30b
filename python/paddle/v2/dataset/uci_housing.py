"""Prices of houses in Boston: 506 lines of 13 features of a district and the price, of UCI.

A sample is the features, centred and spanning a range of 1, and the price. The first 80 % of the
lines train, the rest tests.
"""

import os

import numpy as np
from numpy.typing import NDArray

from paddle.v2 import mistake
from paddle.v2.dataset import common
from paddle.v2.dataset.archive import damaged
from paddle.v2.parameters import Parameters
from paddle.v2.reader.flow import Reader

URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/housing/housing.data"
MD5 = "d4accdce7a25600298819f8e28e8d593"
URL_MODEL = "https://github.com/PaddlePaddle/book/raw/develop/01.fit_a_line/fit_a_line.tar"
MD5_MODEL = "52fc3da8ef3937822fcdd87ee05c0c9b"
feature_names = [
    "CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "B",
    "LSTAT",
]  # fmt: skip


def train() -> Reader:
    """A reader of the training data."""
    return load_data(_file())[0]


def test() -> Reader:
    """A reader of the test data."""
    return load_data(_file())[1]


@mistake.checked_arguments
def load_data(
    filename: str | os.PathLike[str], feature_num: int = 14, ratio: float = 0.8
) -> tuple[Reader, Reader]:
    """Readers of the training and the test data in a file of this format.

    feature_num: numbers of a line, with the price; ratio: the share that trains.
    """
    numbers = _numbers(os.fspath(filename))
    if len(numbers) == 0 or len(numbers) % feature_num != 0:
        what = f"the file must have lines of {feature_num} numbers but has {len(numbers)} in all"
        raise damaged(os.fspath(filename), what)
    data = numbers.reshape(-1, feature_num)
    features = data[:, :-1]
    features -= features.mean(axis=0)
    span = features.max(axis=0) - features.min(axis=0)
    features /= np.where(span == 0, 1, span)
    cut = int(len(data) * ratio)
    return _reader(data[:cut]), _reader(data[cut:])


def model() -> Parameters:
    """The parameters of a linear model of the prices that was trained already."""
    with open(_model_file(), "rb") as file:
        return Parameters.from_tar(file)


def fetch() -> None:
    """Fetches the files, if they are not there."""
    _file()
    _model_file()


def convert(path: str) -> None:
    """Writes RecordIO files."""
    common.convert(path, train(), 1000, "uci_housing_train")
    common.convert(path, test(), 1000, "uci_housing_test")


def _file() -> str:
    return common.download(URL, "uci_housing", MD5)


def _model_file() -> str:
    # The original's name for the folder; what it fetched is found there.
    return common.download(URL_MODEL, "fit_a_line.tar", MD5_MODEL)


def _numbers(path: str) -> NDArray[np.float64]:
    with open(path, encoding="ascii") as file:
        try:
            return np.array(file.read().split(), dtype=np.float64)
        except ValueError as error:
            raise damaged(path, f"cannot read the numbers: {error}") from error


def _reader(rows: NDArray[np.float64]) -> Reader:
    return lambda: ((row[:-1], row[-1:]) for row in rows)
