"""Prices of houses in Boston, shared out to the trainers of a job; see `paddle.v2.dataset`."""

import glob
import os

from paddle.cloud.dataset import common
from paddle.v2.dataset import uci_housing
from paddle.v2.dataset.common import cluster_files_reader
from paddle.v2.reader.flow import Reader

__all__ = ["fetch", "test", "train"]


def train() -> Reader:
    """A reader of this trainer's share of the training data."""
    return common.train_reader("uci_housing")


def test() -> Reader:
    """A reader of the test data, the same for every trainer."""
    pattern = os.path.join(common.data_home(), "uci_housing", "test-*.pickle")
    if glob.glob(pattern):
        return cluster_files_reader(pattern, trainer_count=1, trainer_id=0)
    return uci_housing.test()


def fetch() -> None:
    """Writes the files to the public folder, for who may write there."""
    common.write("uci_housing", os.path.join(common.data_home(), "uci_housing"))
