"""First readers: of an array, the lines of a text, the records of RecordIO files."""

import os
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

import recordio as _recordio
from paddle.v2 import mistake
from paddle.v2.reader.decorator import Reader, buffered

__all__ = ["np_array", "recordio", "text_file"]


@mistake.checked_arguments
def np_array(x: Any) -> Reader:
    """The rows of an array; of a single number, that number."""
    array = np.asarray(x)
    return lambda: iter(array if array.ndim else [array[()]])


@mistake.checked_arguments
def text_file(path: str | os.PathLike[str]) -> Reader:
    """The lines of a text in UTF-8, without their ends."""
    path = os.fspath(path)

    def lines() -> Iterator[str]:
        with open(path, encoding="utf-8") as file:
            for line in file:
                yield line.rstrip("\n")

    return lines


@mistake.checked_arguments
def recordio(paths: Any, buf_size: int = 100) -> Reader:
    """The samples of RecordIO files, `buf_size` read ahead; every record is a pickle.

    paths: a path or glob, several with commas between, or a list of these.

    A pickle can run any code: read only files that you or your own job wrote.
    """

    def samples() -> Iterator[Any]:
        return map(pickle.loads, _recordio.reader(paths))

    return buffered(samples, buf_size)


def __getattr__(name: str) -> Any:
    raise mistake.missing_name("paddle.reader.creator", name, __all__, ["cloud_reader"])
