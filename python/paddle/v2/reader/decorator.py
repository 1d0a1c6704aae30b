"""What makes a reader of other readers: shuffled, joined, mapped, read ahead.

A decorator that holds samples keeps a `Stage`, so that the source can hear what was consumed; the
others hand `downstream` on. See `flow`.
"""

import collections
import concurrent.futures
import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from paddle import errors
from paddle.v2 import mistake
from paddle.v2.reader import flow
from paddle.v2.reader.channel import Channel
from paddle.v2.reader.flow import Downstream, Reader, Stage


class ComposeNotAligned(errors.InvalidError):
    """Readers that were to be joined have different numbers of samples."""


def checked_reader(name: str, value: Any) -> Reader:
    """The value, if it can be a reader; the usual mistake is to give what a reader returns."""
    if not callable(value):
        raise mistake.wrong_type(
            f"{name} must be a reader, a function that returns an iterator of samples, but is "
            f"{mistake.kind_of(value)}; give the function itself, without calling it"
        )
    reader: Reader = value
    return reader


@mistake.checked_arguments
def map_readers(func: Callable[..., Any], *readers: Reader) -> Reader:
    """`func` of one sample of each reader; ends with the shortest."""
    _checked(readers)

    def mapped(downstream: Downstream) -> Iterable[Any]:
        sources = [iter(flow.begin(reader, downstream)) for reader in readers]
        samples = map(func, *sources)
        return _all_ending(samples, sources) if flow.is_tracked(*readers) else samples

    return flow.reader_of(mapped, *readers)


@mistake.checked_arguments
def chain(*readers: Reader) -> Reader:
    """The samples of one reader after those of the other."""
    _checked(readers)

    def chained(downstream: Downstream) -> Iterable[Any]:
        parts = (flow.begin(reader, downstream) for reader in readers)
        return itertools.chain.from_iterable(parts)

    return flow.reader_of(chained, *readers)


@mistake.checked_arguments
def compose(*readers: Reader, check_alignment: bool = True) -> Reader:
    """Joins a sample of each reader to one tuple: `(1, 2)` and `3` become `(1, 2, 3)`.

    If one reader ends before the others, `ComposeNotAligned` is raised; without `check_alignment`
    the rest of the others is left out.
    """
    _checked(readers)
    mistake.truth("check_alignment", check_alignment)
    missing = object()

    def composed(downstream: Downstream) -> Iterator[tuple[Any, ...]]:
        sources = [flow.begin(reader, downstream) for reader in readers]
        rows = itertools.zip_longest(*sources, fillvalue=missing)
        for number, parts in enumerate(rows):
            ended = [place for place, part in enumerate(parts) if part is missing]
            if not ended:
                yield tuple(itertools.chain.from_iterable(map(_as_tuple, parts)))
            elif check_alignment:
                raise ComposeNotAligned(
                    f"reader {ended[0]} of {len(readers)} ends after {number} samples, others go "
                    "on; give readers of one length, or check_alignment=False"
                )
            else:
                return

    return flow.reader_of(composed, *readers)


@mistake.checked_arguments
def shuffle(reader: Reader, buf_size: int) -> Reader:
    """Shuffles within blocks of `buf_size` samples; `random.seed` makes it repeatable.

    With 0 or 1 the samples keep their order.
    """
    checked_reader("reader", reader)
    size = mistake.whole("buf_size", buf_size, least=0)

    def shuffled(downstream: Downstream) -> Iterator[Any]:
        stage = Stage(downstream)
        samples = iter(flow.begin(reader, stage))
        for first in samples:
            stage.enter()
            block = [first, *itertools.islice(samples, max(size - 1, 0))]
            random.shuffle(block)
            yield from block
            stage.leave()

    return flow.reader_of(shuffled, reader)


@mistake.checked_arguments
def firstn(reader: Reader, n: int) -> Reader:
    """The first `n` samples."""
    checked_reader("reader", reader)
    count = mistake.whole("n", n, least=0)

    def first(downstream: Downstream) -> Iterable[Any]:
        return itertools.islice(flow.begin(reader, downstream), count)

    return flow.reader_of(first, reader)


@mistake.checked_arguments
def cache(reader: Reader) -> Reader:
    """Keeps all samples in memory: `reader` is read when they are first asked for, then no more."""
    checked_reader("reader", reader)
    held: list[tuple[Any, ...]] = []

    def cached(downstream: Downstream) -> Iterable[Any]:
        if held:
            return iter(held[0])
        stage = Stage(downstream)
        stage.enter()
        held.append(tuple(flow.begin(reader, stage)))
        return _leaving_at_once(held[0], stage)

    return flow.reader_of(cached, reader)


@mistake.checked_arguments
def buffered(reader: Reader, size: int) -> Reader:
    """Reads up to `size` samples ahead, in a thread that ends with its consumer.

    0 is no bound: everything that is read faster than it is used waits in memory.
    """
    checked_reader("reader", reader)
    bound = mistake.whole("size", size, least=0)

    def read_ahead(downstream: Downstream) -> Iterable[Any]:
        return _through(reader, downstream, Channel(bound).fed_from)

    return flow.reader_of(read_ahead, reader)


@mistake.checked_arguments
def xmap_readers(
    mapper: Callable[[Any], Any],
    reader: Reader,
    process_num: int,
    buffer_size: int,
    order: bool = False,
) -> Reader:
    """`mapper` of each sample, in `process_num` threads, up to `buffer_size` samples ahead.

    Samples come in the reader's order, whether `order` asks for it or not: a run can be repeated.
    """
    checked_reader("reader", reader)
    threads = mistake.whole("process_num", process_num)
    size = mistake.whole("buffer_size", buffer_size)
    mistake.truth("order", order)

    def mapped(upstream: Reader) -> Iterator[Any]:
        pool = concurrent.futures.ThreadPoolExecutor(threads, "xmap_readers")
        waiting: collections.deque[concurrent.futures.Future[Any]] = collections.deque()
        try:
            for sample in upstream():
                waiting.append(pool.submit(mapper, sample))
                # The threads need something to do while the oldest sample is waited for.
                if len(waiting) == threads + size:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def mapped_ahead(upstream: Reader) -> Iterator[Any]:
        return Channel(size).fed_from(lambda: mapped(upstream))

    def begin(downstream: Downstream) -> Iterable[Any]:
        return _through(reader, downstream, mapped_ahead)

    return flow.reader_of(begin, reader)


def _through(
    reader: Reader, downstream: Downstream, hold: Callable[[Reader], Iterator[Any]]
) -> Iterable[Any]:
    """The samples of `hold(reader)`, which holds some of them and hands them on in their order."""
    if not flow.is_tracked(reader):
        return hold(reader)
    stage = Stage(downstream)
    return stage.leaving(hold(lambda: stage.entering(flow.begin(reader, stage))))


def _all_ending(samples: Iterable[Any], sources: list[Iterator[Any]]) -> Iterator[Any]:
    """The samples; the first source that ends ends them, and the others are then asked once more,
    to hear that their last one is done with."""
    yield from samples
    for source in sources:
        next(source, None)


def _leaving_at_once(samples: Iterable[Any], stage: Stage) -> Iterator[Any]:
    """The samples, which are one unit."""
    yield from samples
    stage.leave()


def _checked(readers: tuple[Any, ...]) -> None:
    if not readers:
        raise mistake.wrong_type("give one reader or more")
    for number, reader in enumerate(readers):
        checked_reader(f"reader {number}", reader)


def _as_tuple(sample: Any) -> tuple[Any, ...]:
    return sample if isinstance(sample, tuple) else (sample,)
