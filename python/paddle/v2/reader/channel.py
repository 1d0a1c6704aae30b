"""A bounded row of samples between a thread that reads and its consumer.

`queue.Queue` cannot be closed: a producer that waits for room would wait for ever once nobody takes
any more. Here the consumer's end, even by an exception, lets the producer go; and an exception of
the producer comes out where its sample would have.
"""

import collections
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Channel:
    """At most `size` samples on their way; 0 for any number."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._samples: collections.deque[Any] = collections.deque()
        self._changed = threading.Condition()
        self._is_ended = False
        self._is_abandoned = False
        self._error: BaseException | None = None

    def fed_from(self, reader: Callable[[], Iterable[Any]]) -> Iterator[Any]:
        """The samples of `reader`, which runs in a thread of its own."""
        threading.Thread(target=self._produce, args=(reader,), name="reader", daemon=True).start()
        try:
            yield from self._taken()
        finally:
            with self._changed:
                self._is_abandoned = True
                self._changed.notify_all()

    def _produce(self, reader: Callable[[], Iterable[Any]]) -> None:
        samples: Iterable[Any] = ()
        try:
            samples = reader()
            for sample in samples:
                if not self._put(sample):
                    break
        except BaseException as error:
            self._error = error
        finally:
            # A generator holds files and threads: it ends here, not when it is collected.
            getattr(samples, "close", lambda: None)()
            with self._changed:
                self._is_ended = True
                self._changed.notify_all()

    def _put(self, sample: Any) -> bool:
        """Whether there still is a consumer."""
        with self._changed:
            if self._size:
                self._changed.wait_for(
                    lambda: len(self._samples) < self._size or self._is_abandoned
                )
            self._samples.append(sample)
            self._changed.notify_all()
            return not self._is_abandoned

    def _taken(self) -> Iterator[Any]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._samples or self._is_ended)
                if not self._samples:
                    break
                sample = self._samples.popleft()
                self._changed.notify_all()
            yield sample
        if self._error is not None:
            raise self._error
