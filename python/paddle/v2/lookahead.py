"""Batches together with those that follow, so that they can be made ready beside them.

Only batches that were converted ahead, in threads of their own, are looked ahead for: of a reader
that is plain Python the next batch could be a long time coming, and the one before would wait.
"""

import collections
import itertools
from collections.abc import Iterator
from typing import Any, Protocol

from paddle import _native
from paddle.v2.reader import flow

# A batch, and those that are known to follow it.
Known = tuple[Any, list[_native.Batch]]


class Learner(Protocol):
    """Whoever learns from batches: a trainer."""

    def lookahead(self) -> int:
        """How many batches it wants to know ahead."""

    def under_way(self) -> int:
        """How many of the last batches it has not learnt from for certain."""

    def settle(self) -> None:
        """Waits until it has learnt from all for certain."""


def batches(reader: flow.Reader, learner: Learner) -> Iterator[Known]:
    """The batches of an iteration. One is consumed when the next is asked for and the learner has
    learnt from it for certain: when the servers have confirmed its gradients."""
    stage = flow.Stage(flow.End())
    source = _Source(stage.entering(flow.begin(reader, stage)))
    # Batches that were handed out and are not consumed.
    held = 0
    while source.has_next():
        batch = source.take()
        is_native = isinstance(batch, _native.Batch)
        yield batch, source.look(learner.lookahead()) if is_native else []
        held += 1
        for _ in range(held - learner.under_way()):
            stage.leave()
            held -= 1
    learner.settle()
    for _ in range(held):
        stage.leave()
    source.raise_failure()


class _Source:
    """An iterator that can be looked into. What it raises comes after the batches before it."""

    def __init__(self, source: Iterator[Any]) -> None:
        self._source = source
        self._known: collections.deque[Any] = collections.deque()
        self._failure: Exception | None = None
        self._has_ended = False

    def has_next(self) -> bool:
        self._read(1)
        return bool(self._known)

    def take(self) -> Any:
        return self._known.popleft()

    def look(self, count: int) -> list[_native.Batch]:
        """The next ones, as far as they are converted."""
        self._read(count)
        known = itertools.islice(self._known, count)
        return list(itertools.takewhile(lambda each: isinstance(each, _native.Batch), known))

    def raise_failure(self) -> None:
        """Raises what ended the iteration, if it failed."""
        if self._failure is not None:
            raise self._failure

    def _read(self, count: int) -> None:
        while len(self._known) < count and not self._has_ended:
            try:
                self._known.append(next(self._source))
            except StopIteration:
                self._has_ended = True
            except Exception as error:
                # What was read before is trained first.
                self._failure, self._has_ended = error, True
