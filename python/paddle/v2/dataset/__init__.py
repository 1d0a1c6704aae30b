"""Data sets as readers, and data in files for many trainers.

    import paddle.v2.dataset as dataset
    dataset.convert("./dataset", dataset.uci_housing.train(), num_shards=10,
                    name_prefix="uci_housing_train")

`docs/data.md` says where each module looks for its files.
"""

from typing import Any

from paddle.v2 import mistake
from paddle.v2.dataset import (
    cifar,
    common,
    conll05,
    criteo,
    flowers,
    imdb,
    imikolov,
    mnist,
    movielens,
    mq2007,
    sentiment,
    uci_housing,
    voc2012,
    wmt14,
    wmt16,
)
from paddle.v2.dataset.common import convert, split

__all__ = [
    "cifar",
    "common",
    "conll05",
    "convert",
    "criteo",
    "flowers",
    "imdb",
    "imikolov",
    "mnist",
    "movielens",
    "mq2007",
    "sentiment",
    "split",
    "uci_housing",
    "voc2012",
    "wmt14",
    "wmt16",
]


def __getattr__(name: str) -> Any:
    raise mistake.missing_name("paddle.dataset", name, __all__)
