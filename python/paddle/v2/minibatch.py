"""Batches: `paddle.batch(reader, batch_size=32)` makes a reader of lists of samples."""

import itertools
from collections.abc import Iterator
from typing import Any

from paddle.v2 import mistake
from paddle.v2.reader import flow
from paddle.v2.reader.decorator import checked_reader
from paddle.v2.reader.flow import Downstream, Reader, Stage


@mistake.checked_arguments
def batch(reader: Reader, batch_size: int, drop_last: bool = False) -> Reader:
    """A reader of lists of `batch_size` samples; the last may be shorter, unless dropped."""
    checked_reader("reader", reader)
    size = mistake.whole("batch_size", batch_size)
    mistake.truth("drop_last", drop_last)

    def batches(downstream: Downstream) -> Iterator[list[Any]]:
        stage = Stage(downstream)
        samples = iter(flow.begin(reader, stage))
        for first in samples:
            stage.enter()
            taken = [first, *itertools.islice(samples, size - 1)]
            if len(taken) == size or not drop_last:
                yield taken
            # What is dropped is done with, too.
            stage.leave()

    return flow.reader_of(batches, reader)
