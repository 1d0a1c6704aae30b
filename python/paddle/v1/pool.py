"""Batches of a data provider: samples are shuffled in a pool, and counted into batches.

Which samples make which batch depends on the seed, the pass and the data alone, never on time: the
original's pool was as full as a thread had happened to fill it. So a training that is resumed sees
the batches that it would have seen.

With a pool for the whole pass, which is the default, all samples are shuffled. Otherwise samples
are drawn from the pool at random. It is filled before the first batch: to `min_pool_size`, or, if
that is -1, to `pool_size`. From there it grows by a batch with each batch, up to `pool_size` or,
without that, `POOL_BATCHES` batches.
"""

import itertools
import operator
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from paddle import errors

# Batches that are in a pool without a limit of its own.
POOL_BATCHES = 16
# Files of which samples are drawn at the same time.
OPEN_FILES_MAX = 64

Samples = Callable[[str], Iterator[Any]]


class Pool:
    """How samples become batches.

    settings are those of the provider, after its hook; batch_size is what a batch counts.
    """

    def __init__(self, settings: Any, batch_size: int, is_train: bool) -> None:
        shuffles = settings.should_shuffle
        self.shuffles = is_train if shuffles is None else bool(shuffles)
        self.batch_size = batch_size
        self.pool_size = settings.pool_size
        self.min_pool_size = settings.min_pool_size
        self.can_over_batch_size = settings.can_over_batch_size
        self.weigh: Callable[[Any], int] | None = settings.calc_batch_size

    @property
    def holds_all(self) -> bool:
        """Whether the pool is the whole pass."""
        return self.shuffles and self.pool_size < 0 and self.min_pool_size < 0

    def batches(
        self, files: Sequence[str], read: Samples, draw: random.Random
    ) -> Iterator[list[Any]]:
        """The batches of a pass over files."""
        if not self.shuffles:
            return self._counted(_in_order(files, read))
        if self.holds_all:
            held = list(_in_order(files, read))
            draw.shuffle(held)
            return self._counted(iter(held))
        return self._batched(self._drawn(_interleaved(files, read, draw), draw))

    def shuffled(self, held: list[Any], draw: random.Random) -> Iterator[list[Any]]:
        """The batches of a pass over samples that were kept, in the order of the files."""
        if self.shuffles:
            held = held[:]
            draw.shuffle(held)
        return self._counted(iter(held))

    def _drawn(self, samples: Iterator[Any], draw: random.Random) -> Iterator[tuple[Any, int]]:
        """Samples in the order in which they are drawn from the pool, and what each counts."""
        waits_for_all = self.min_pool_size < 0
        least = self.pool_size if waits_for_all else max(self.batch_size, self.min_pool_size)
        most = self.pool_size if self.pool_size > 0 else max(least, POOL_BATCHES * self.batch_size)
        held: list[tuple[Any, int]] = []
        room, given, content = min(least, most), 0, 0
        for sample in samples:
            weight = self._weight(sample)
            held.append((sample, weight))
            content += weight
            while held and content >= room:
                drawn, weight = _take(held, draw)
                yield drawn, weight
                given, content = given + weight, content - weight
                # It grows until it is as large as it may be.
                room = min(most, least + given // self.batch_size * self.batch_size)
        while held:
            yield _take(held, draw)

    def _counted(self, samples: Iterator[Any]) -> Iterator[list[Any]]:
        if self.weigh is None:
            return iter(lambda: list(itertools.islice(samples, self.batch_size)), [])
        return self._batched((sample, self._weight(sample)) for sample in samples)

    def _batched(self, samples: Iterator[tuple[Any, int]]) -> Iterator[list[Any]]:
        """Batches of samples, of which it is known what each counts."""
        batch: list[Any] = []
        count = 0
        for sample, weight in samples:
            if batch and not self.can_over_batch_size and count + weight > self.batch_size:
                yield batch
                batch, count = [], 0
            batch.append(sample)
            count += weight
            if count >= self.batch_size:
                yield batch
                batch, count = [], 0
        if batch:
            yield batch

    def _weight(self, sample: Any) -> int:
        """How much a sample counts, in the pool and in a batch."""
        if self.weigh is None:
            return 1
        found = self.weigh(sample)
        try:
            weight = operator.index(found)
        except TypeError:
            weight = -1
        if weight < 0:
            raise errors.InvalidError(
                f"calc_batch_size must give a whole number, 0 or more, but gives {found!r:.60}"
            )
        return weight


def _take(held: list[tuple[Any, int]], draw: random.Random) -> tuple[Any, int]:
    place = draw.randrange(len(held))
    held[place], held[-1] = held[-1], held[place]
    return held.pop()


def _in_order(files: Sequence[str], read: Samples) -> Iterator[Any]:
    for file in files:
        yield from read(file)


def _interleaved(files: Sequence[str], read: Samples, draw: random.Random) -> Iterator[Any]:
    """Samples of many files, each from a file that is drawn."""
    waiting = iter(files)
    opened: list[Iterator[Any]] = []
    is_more = True
    while True:
        while is_more and len(opened) < OPEN_FILES_MAX:
            file = next(waiting, None)
            is_more = file is not None
            if file is not None:
                opened.append(read(file))
        if not opened:
            return
        place = draw.randrange(len(opened))
        try:
            sample = next(opened[place])
        except StopIteration:
            opened[place] = opened[-1]
            opened.pop()
            continue
        yield sample
