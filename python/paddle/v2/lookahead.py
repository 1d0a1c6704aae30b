"""Batches together with the one that follows, so that it can be made ready beside them.

Only batches that were converted ahead, in threads of their own, are looked ahead for: of a reader
that is plain Python the next batch could be a long time coming, and the one before would wait.
"""

from collections.abc import Iterator
from typing import Any

from paddle import _native
from paddle.v2.reader import flow

# A batch, and the next one if it is known.
Pair = tuple[Any, _native.Batch | None]


def pairs(reader: flow.Reader) -> Iterator[Pair]:
    """The batches of an iteration. One is consumed when the next pair is asked for."""
    stage = flow.Stage(flow.End())
    batches = stage.entering(flow.begin(reader, stage))
    has_batch, batch = _next(batches)
    while has_batch:
        following: Any = None
        has_looked, failure = isinstance(batch, _native.Batch), None
        if has_looked:
            try:
                has_batch, following = _next(batches)
            except Exception as error:
                # What was read before is trained first.
                failure = error
        yield batch, following if isinstance(following, _native.Batch) else None
        stage.leave()
        if failure is not None:
            raise failure
        if has_looked:
            batch = following
        else:
            has_batch, batch = _next(batches)


def _next(batches: Iterator[Any]) -> tuple[bool, Any]:
    for batch in batches:
        return True, batch
    return False, None
