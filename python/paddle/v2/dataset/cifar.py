"""Small pictures in 10 or 100 classes: 50 000 to train and 10 000 to test, 3 × 32 × 32 pixels.

A sample is 3072 numbers between 0 and 1, the red plane first, and the class. The archives hold
pickles, and a pickle is a program; so they are read by one that knows arrays, lists, dicts, numbers
and bytes, and nothing else.
"""

import io
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paddle.v2 import mistake
from paddle.v2.dataset import common
from paddle.v2.dataset.archive import damaged, missing, tar_files
from paddle.v2.reader.flow import Reader

URL_PREFIX = "https://www.cs.toronto.edu/~kriz/"
CIFAR10_URL = URL_PREFIX + "cifar-10-python.tar.gz"
CIFAR10_MD5 = "c58f30108f718f92721af3b95e74349a"
# An archive that is somewhere else, of any content; a program may set it.
CIFAR10_FILE: str | None = None
CIFAR100_URL = URL_PREFIX + "cifar-100-python.tar.gz"
CIFAR100_MD5 = "eb9058c3a382ffc7106e4002c42a8d85"


@mistake.checked_arguments
def train10(cycle: bool = False) -> Reader:
    """A reader of the training data of CIFAR-10; with `cycle` it begins anew at the end."""
    return _reader(_file10(), "data_batch", mistake.truth("cycle", cycle))


@mistake.checked_arguments
def test10(cycle: bool = False) -> Reader:
    """A reader of the test data of CIFAR-10."""
    return _reader(_file10(), "test_batch", mistake.truth("cycle", cycle))


def train100() -> Reader:
    """A reader of the training data of CIFAR-100; classes are the fine ones."""
    return _reader(_file100(), "train", cycle=False)


def test100() -> Reader:
    """A reader of the test data of CIFAR-100."""
    return _reader(_file100(), "test", cycle=False)


def fetch() -> None:
    """Fetches the files, if they are not there."""
    _file10()
    _file100()


def convert(path: str) -> None:
    """Writes RecordIO files."""
    common.convert(path, train100(), 1000, "cifar_train100")
    common.convert(path, test100(), 1000, "cifar_test100")
    common.convert(path, train10(), 1000, "cifar_train10")
    common.convert(path, test10(), 1000, "cifar_test10")


def _file10() -> str:
    return CIFAR10_FILE or common.download(CIFAR10_URL, "cifar", CIFAR10_MD5)


def _file100() -> str:
    return common.download(CIFAR100_URL, "cifar", CIFAR100_MD5)


def _reader(path: str, part: str, cycle: bool) -> Reader:
    def is_wanted(name: str) -> bool:
        return name.rsplit("/", 1)[-1].startswith(part)

    def samples() -> Iterator[tuple[NDArray[np.float32], int]]:
        while True:
            count = 0
            for name, data in tar_files(path, is_wanted):
                for image, label in zip(*_load(data, path, name), strict=True):
                    count += 1
                    yield (image / 255.0).astype(np.float32), int(label)
            if count == 0:
                raise missing(path, part)
            if not cycle:
                return

    return samples


def _load(data: bytes, path: str, name: str) -> tuple[NDArray[Any], list[int]]:
    """Pictures and classes of a batch."""
    try:
        batch = _PlainUnpickler(io.BytesIO(data), encoding="bytes").load()
        # Python 2 wrote the keys, and what it wrote is bytes to us.
        batch = {key.encode() if isinstance(key, str) else key: batch[key] for key in batch}
        images = np.asarray(batch[b"data"])
        labels = list(batch[b"labels"] if b"labels" in batch else batch[b"fine_labels"])
    except Exception as error:
        raise damaged(path, f"cannot read the batch {name}: {error!r}") from error
    if images.dtype != np.uint8 or images.ndim != 2 or len(images) != len(labels):
        what = f"the batch {name} has {len(labels)} classes for {images.dtype} of {images.shape}"
        raise damaged(path, what)
    return images, labels


class _PlainUnpickler(pickle.Unpickler):
    """Makes arrays, and calls nothing else."""

    # numpy's own modules have been renamed; the function that makes an array is the same.
    _RECONSTRUCT = np.empty(0).__reduce__()[0]
    _KNOWN = {
        ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
        ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }

    def find_class(self, module_name: str, global_name: str) -> Any:
        known = self._KNOWN.get((module_name, global_name))
        if known is None:
            raise pickle.UnpicklingError(f"a pickle may not use {module_name}.{global_name} here")
        return known
