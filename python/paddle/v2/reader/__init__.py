"""Readers: functions that return an iterator of samples, and what makes new ones of them.

    reader = paddle.reader.shuffle(paddle.reader.creator.text_file("train.txt"), buf_size=1000)
    for sample in reader():
        ...

A reader is called once a pass. Everything here takes readers and returns a reader; nothing is read
before it is called. `creator` makes the first one, of an array, a text or RecordIO files.
"""

from typing import Any

from paddle.v2 import mistake
from paddle.v2.reader import creator
from paddle.v2.reader.decorator import (
    ComposeNotAligned,
    buffered,
    cache,
    chain,
    compose,
    firstn,
    map_readers,
    shuffle,
    xmap_readers,
)
from paddle.v2.reader.pipe import PipeReader, pipe_reader

__all__ = [
    "ComposeNotAligned",
    "PipeReader",
    "buffered",
    "cache",
    "chain",
    "compose",
    "creator",
    "firstn",
    "map_readers",
    "pipe_reader",
    "shuffle",
    "xmap_readers",
]


def __getattr__(name: str) -> Any:
    raise mistake.missing_name("paddle.reader", name, __all__)
