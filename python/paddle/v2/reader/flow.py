"""What a consumer has done with the samples of a reader, told to the reader's source.

A source that leases its data, task by task, may call a task finished only when its records were
consumed: trained on, not merely read. Between the two lie decorators that hold samples, sometimes
in other threads, in another order, or joined to batches. So the source sends a *mark* after the
last record of a task, and the mark follows the records: it waits at each *stage*, a decorator that
holds samples, until all that entered before it has left. Behind the last stage it is called.

    source ──mark──▶ Stage of shuffle ──▶ Stage of buffered ──▶ Stage of batch ──▶ mark()

An item has left a stage when the next one is asked for, and not when it is handed out: whoever asks
for the next batch is done with the one before. An iteration that is given up, or fails, asks for no
more, and its marks are never called. Neither is that of a task whose last record `firstn` gave out:
nobody asked the source for more, so it could not know that the task had ended.

Stages belong to one iteration: a reader that is called twice has two rows of them. A function of
the user's that wraps a reader calls it plainly; the row ends there, and samples that the function
holds back count as consumed.
"""

import collections
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

Reader = Callable[[], Iterable[Any]]
Mark = Callable[[], None]


class Downstream(Protocol):
    """Where a source, or a stage, sends its marks."""

    def mark(self, mark: Mark) -> None:
        """Sends a mark after the items that were handed out so far, the last one taken for done."""


Begin = Callable[[Downstream], Iterable[Any]]


class Tracked:
    """A reader that hears what becomes of its samples.

    `begin(downstream)` starts an iteration. It may call `downstream.mark(function)` when it is
    asked for more after the last record of a task; `function` is called when all that was handed
    out until then is consumed, perhaps in another thread. It should be quick, and must not raise.
    """

    def __init__(self, begin: Begin) -> None:
        self.begin = begin

    def __call__(self) -> Iterable[Any]:
        return self.begin(End())


def begin(reader: Reader, downstream: Downstream) -> Iterable[Any]:
    """Starts an iteration of a reader that may be tracked or not."""
    return reader.begin(downstream) if isinstance(reader, Tracked) else reader()


def is_tracked(*readers: Reader) -> bool:
    """Whether one of them wants to hear what becomes of its samples."""
    return any(isinstance(reader, Tracked) for reader in readers)


def reader_of(start: Begin, *upstream: Reader) -> Reader:
    """The reader of a decorator around `upstream`: tracked if one of them is."""
    tracked = Tracked(start)
    return tracked if is_tracked(*upstream) else tracked.__call__


class Stage:
    """What a decorator holds: units that entered, and that have left again.

    A unit is whatever goes in and out as a whole: a sample, a block that is shuffled, a batch. It
    enters when its first sample is taken, before another is asked for, and units leave in the order
    in which they entered. One thread may call `enter` while another calls `leave`; a mark may come
    from any, after what it follows has entered.
    """

    def __init__(self, downstream: Downstream) -> None:
        self._downstream = downstream
        self._entered = 0
        self._left = 0
        self._waiting: collections.deque[tuple[int, Mark]] = collections.deque()
        self._passing = threading.Lock()

    def enter(self) -> None:
        """A unit is being taken."""
        self._entered += 1

    def leave(self) -> None:
        """The oldest unit was handed out, and more is asked for."""
        self._left += 1
        # Whoever sends a mark appends it and then looks at what has left; here it is the other way
        # round. So one of the two sees the other, and samples without marks cost no lock.
        if self._waiting:
            self._pass_on()

    def mark(self, mark: Mark) -> None:
        """A mark arrives from upstream."""
        self._waiting.append((self._entered, mark))
        self._pass_on()

    def entering(self, samples: Iterable[Any]) -> Iterator[Any]:
        """The samples, each a unit that enters."""
        for sample in samples:
            self._entered += 1
            yield sample

    def leaving(self, samples: Iterable[Any]) -> Iterator[Any]:
        """The samples, each a unit that leaves."""
        for sample in samples:
            yield sample
            self.leave()

    def _pass_on(self) -> None:
        with self._passing:
            while self._waiting and self._waiting[0][0] <= self._left:
                self._downstream.mark(self._waiting.popleft()[1])


class End:
    """Behind the last stage: what arrives here was consumed."""

    def mark(self, mark: Mark) -> None:
        mark()
