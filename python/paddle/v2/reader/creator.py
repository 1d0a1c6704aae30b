"""First readers: of an array, the lines of a text, RecordIO files, what a master deals out."""

import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import recordio as _recordio
from paddle.v2 import mistake
from paddle.v2.files import reported_pickles
from paddle.v2.reader.cloud import cloud_reader
from paddle.v2.reader.flow import Reader

__all__ = ["cloud_reader", "np_array", "recordio", "text_file"]


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
def recordio(
    paths: Any, buf_size: int = 100, loader: Callable[[bytes], Any] | None = pickle.loads
) -> Reader:
    """The samples of RecordIO files, one a record.

    paths:    a path or glob, several with commas between, or a list of these.
    buf_size: ignored: a thread without the interpreter reads a chunk ahead.
    loader:   makes a sample of a record; None leaves it as bytes.

    A pickle can run any code: read only files that you or your own job wrote. Pickles of Python 2
    with arrays in them need `loader=functools.partial(pickle.loads, encoding="latin1")`.
    """
    mistake.whole("buf_size", buf_size)
    if loader is None:
        return lambda: iter(_recordio.reader(paths))
    if not callable(loader):
        raise mistake.wrong_type(
            f"loader must be a function of a record, or None, but is {mistake.kind_of(loader)}"
        )
    load = loader

    def samples(records: Iterable[bytes]) -> Iterator[Any]:
        with reported_pickles(load, paths=paths):
            # No Python code runs between records: beside unpickling it would be what costs most.
            yield from map(load, records)

    return lambda: samples(_recordio.reader(paths))


def __getattr__(name: str) -> Any:
    raise mistake.missing_name("paddle.reader.creator", name, __all__)
