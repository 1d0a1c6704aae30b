"""Where public data sets are, and how they get there."""

import importlib
import os
from typing import Any

from paddle import errors
from paddle.v2.dataset.common import cluster_files_reader, split
from paddle.v2.reader.flow import Reader

__all__ = ["cluster_files_reader", "data_home", "split", "train_reader", "write"]

DATACENTER_VARIABLE = "PADDLE_CLOUD_CURRENT_DATACENTER"
LINE_COUNT = 500


def data_home() -> str:
    """The folder of the public data sets, for a job of the cloud."""
    datacenter = os.environ.get(DATACENTER_VARIABLE)
    if not datacenter:
        raise errors.NotFoundError(
            f"public data sets are in the cloud: {DATACENTER_VARIABLE} is not set, so this is no "
            "job of one; use paddle.v2.dataset here"
        )
    return f"/pfs/{datacenter}/public/dataset"


def __getattr__(name: str) -> str:
    # `DATA_HOME` of the original. Found out when it is used: outside of the cloud there is none.
    if name == "DATA_HOME":
        return data_home()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def train_reader(name: str) -> Reader:
    """A reader of this trainer's share of a data set's training files."""
    return cluster_files_reader(
        os.path.join(data_home(), name, "train-*.pickle"),
        trainer_count=int(os.getenv("PADDLE_INIT_NUM_GRADIENT_SERVERS", "1")),
        trainer_id=int(os.getenv("PADDLE_INIT_TRAINER_ID", "0")),
    )


def write(name: str, folder: str) -> None:
    """Writes a data set of `paddle.v2.dataset` to files of a folder, as readers expect them.

    They are `train-00000.pickle` and so on, of 500 samples each, and `test-00000.pickle`.
    """
    try:
        module: Any = importlib.import_module(f"paddle.v2.dataset.{name}")
    except ModuleNotFoundError:
        raise errors.NotFoundError(
            f"paddle.v2.dataset has no such data set (name: {name})"
        ) from None
    if not hasattr(module, "train"):
        raise errors.InvalidError(f"this data set has no train() (name: {name})")
    for part in ("train", "test"):
        if hasattr(module, part):
            reader = getattr(module, part)()
            split(reader, LINE_COUNT, os.path.join(folder, f"{part}-%05d.pickle"))
