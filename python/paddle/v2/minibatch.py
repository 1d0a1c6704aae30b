"""Batches: `paddle.batch(reader, batch_size=32)` makes a reader of lists of samples."""

import itertools
from collections.abc import Iterator
from typing import Any

from paddle.v2 import mistake
from paddle.v2.reader.decorator import Reader, checked_reader


@mistake.checked_arguments
def batch(reader: Reader, batch_size: int, drop_last: bool = False) -> Reader:
    """A reader of lists of `batch_size` samples; the last may be shorter, unless dropped."""
    checked_reader("reader", reader)
    size = mistake.whole("batch_size", batch_size)
    mistake.truth("drop_last", drop_last)

    def batches() -> Iterator[list[Any]]:
        samples = iter(reader())
        while taken := list(itertools.islice(samples, size)):
            if len(taken) == size or not drop_last:
                yield taken

    return batches
