"""What a source hears of its records: consumed only when the consumer has them and asks for more.

Random pipelines of decorators are read by a consumer that knows what it has asked for; the seed of
each is the number of its test.
"""

import collections
import random
import threading

import pytest

import paddle.v2 as paddle
from paddle.v2 import reader
from paddle.v2.minibatch import batch
from paddle.v2.reader.flow import Tracked

SEEDS = range(300)


class Record:
    """A record of a task; not a tuple, so that no decorator takes it apart."""

    def __init__(self, task):
        self.task = task


class Ledger:
    """What was handed out, what the consumer is done with, and which tasks are called consumed."""

    def __init__(self):
        self.handed_out = collections.defaultdict(list)
        self.done = set()
        self.consumed = []
        self.too_early = []

    def source(self, sizes):
        """A reader of tasks with so many records each."""

        def begin(downstream):
            for number, size in enumerate(sizes):
                task = (begin, number)
                self.handed_out[task] = [Record(task) for _ in range(size)]
                yield from self.handed_out[task]
                downstream.mark(lambda task=task: self.consume(task))

        return Tracked(begin)

    def consume(self, task):
        if not self.done.issuperset(self.handed_out[task]):
            self.too_early.append(task)
        self.consumed.append(task)

    def read(self, samples, count=None):
        """Takes `count` items, or all; returns how many there were."""
        held, taken = [], 0
        samples = iter(samples)
        while taken != count:
            # Whoever asks for the next one is done with the one before.
            self.done.update(held)
            item = next(samples, None)
            if item is None:
                break
            held = list(records_in(item))
            taken += 1
        getattr(samples, "close", lambda: None)()
        return taken

    def check(self):
        assert not self.too_early
        assert len(self.consumed) == len(set(self.consumed)), "a mark was called twice"


def records_in(item):
    if isinstance(item, Record):
        yield item
    else:
        for part in item:
            yield from records_in(part)


def random_source(draw, ledger):
    """One source, or several that are chained, composed or mapped together."""
    sizes = [draw.randint(0, 6) for _ in range(draw.randint(1, 8))]
    kind = draw.choice(["one", "one", "chain", "compose", "map"])
    if kind == "one":
        return ledger.source(sizes)
    if kind == "chain":
        return reader.chain(ledger.source(sizes), random_source(draw, ledger))
    other = ledger.source(draw.sample(sizes, len(sizes)))
    if kind == "compose":
        # One of them may read ahead of the other.
        return reader.compose(ledger.source(sizes), reader.buffered(other, draw.randint(1, 5)))
    return reader.map_readers(lambda a, b: [a, b], other, ledger.source(sizes))


DECORATORS = {
    "shuffle": lambda inner, size: reader.shuffle(inner, size),
    "buffered": lambda inner, size: reader.buffered(inner, size),
    "xmap": lambda inner, size: reader.xmap_readers(lambda a: a, inner, 2, size),
    "xmap in order": lambda inner, size: reader.xmap_readers(lambda a: a, inner, 3, size, True),
    "batch": lambda inner, size: batch(inner, size),
    "map": lambda inner, size: reader.map_readers(lambda a: [a], inner),
    "cache": lambda inner, size: reader.cache(inner),
    "chain": lambda inner, size: reader.chain(inner),
}


def random_pipeline(draw, ledger):
    pipeline = random_source(draw, ledger)
    for name in draw.choices(list(DECORATORS), k=draw.randint(0, 4)):
        pipeline = DECORATORS[name](pipeline, draw.randint(1, 9))
    return pipeline


@pytest.mark.parametrize("seed", SEEDS)
def test_all_tasks_are_consumed_when_a_reader_is_read_to_its_end(seed):
    ledger = Ledger()
    pipeline = random_pipeline(random.Random(seed), ledger)
    ledger.read(pipeline())
    ledger.check()
    assert set(ledger.consumed) == set(ledger.handed_out)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_consumed_that_was_not_asked_for(seed):
    draw = random.Random(seed)
    whole, part = Ledger(), Ledger()
    items = whole.read(random_pipeline(random.Random(seed), whole)())
    pipeline = random_pipeline(random.Random(seed), part)
    count = draw.randint(0, items)
    if draw.random() < 0.5:
        part.read(reader.firstn(pipeline, count)())
    else:
        part.read(pipeline(), count)
    part.check()


def consumed_while_reading(pipeline, ledger):
    """How many tasks are consumed at each item, and at the end."""
    counts = []
    for _ in pipeline():
        counts.append(len(ledger.consumed))
        ledger.done.update(*ledger.handed_out.values())
    return [*counts, len(ledger.consumed)]


def test_a_task_is_consumed_when_the_sample_after_it_is_asked_for():
    ledger = Ledger()
    assert consumed_while_reading(ledger.source([2, 1]), ledger) == [0, 0, 1, 2]


def test_a_task_is_consumed_when_the_batch_after_its_last_is_asked_for():
    ledger = Ledger()
    # Batches of 2: the first task ends with the first, the second in the third.
    batches = batch(ledger.source([2, 3, 1]), 2)
    assert consumed_while_reading(batches, ledger) == [0, 1, 1, 3]


def test_tasks_without_records_are_consumed():
    ledger = Ledger()
    assert ledger.read(batch(ledger.source([0, 0]), 2)()) == 0
    assert len(ledger.consumed) == 2


def test_records_of_a_batch_that_is_dropped_are_done_with():
    ledger = Ledger()
    assert ledger.read(batch(ledger.source([2, 1]), 2, drop_last=True)()) == 1
    assert len(ledger.consumed) == 2


def test_every_call_of_a_reader_is_followed_on_its_own():
    ledger = Ledger()
    pipeline = batch(reader.shuffle(ledger.source([3, 3]), 4), 2)
    first, second = iter(pipeline()), iter(pipeline())
    next(first)
    ledger.read(second)
    assert len(ledger.consumed) == 2
    first.close()
    assert len(ledger.consumed) == 2


def test_an_iteration_that_fails_consumes_no_more():
    ledger = Ledger()

    def fail(sample):
        raise OSError("cannot decode")

    with pytest.raises(OSError):
        ledger.read(batch(reader.xmap_readers(fail, ledger.source([1, 1]), 2, 4), 2)())
    assert not ledger.consumed


def test_a_function_around_a_reader_ends_what_is_followed():
    ledger = Ledger()
    inner = reader.shuffle(ledger.source([4]), 2)

    def lists_all():
        return iter(list(inner()))

    assert not isinstance(batch(lists_all, 2), Tracked)
    next(iter(batch(lists_all, 2)()))
    assert len(ledger.consumed) == 1


def test_training_asks_for_a_batch_when_it_is_done_with_the_one_before():
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
    y = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
    cost = paddle.layer.square_error_cost(input=paddle.layer.fc(input=x, size=1), label=y)
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Momentum(learning_rate=1e-3))
    ledger = Ledger()
    samples = reader.map_readers(lambda record: ([1.0], [2.0]), ledger.source([2, 2, 2]))
    seen = []

    def look(event):
        if isinstance(event, (paddle.event.EndIteration, paddle.event.EndPass)):
            seen.append(len(ledger.consumed))

    trainer.train(batch(samples, 2), num_passes=2, event_handler=look)
    assert seen == [0, 1, 2, 3, 3, 4, 5, 6]


@pytest.mark.parametrize("name", DECORATORS)
def test_a_reader_whose_source_does_not_ask_is_not_followed(name):
    plain = DECORATORS[name](lambda: iter([Record(0)] * 5), 2)
    assert not isinstance(plain, Tracked)
    assert len(list(plain())) > 0


def test_a_cache_is_consumed_with_its_first_pass_and_read_no_more():
    ledger = Ledger()
    cached = reader.cache(ledger.source([2, 2]))
    assert consumed_while_reading(cached, ledger) == [0, 0, 0, 0, 2]
    assert consumed_while_reading(cached, ledger) == [2, 2, 2, 2, 2]


def test_no_thread_is_left_of_readers_that_are_followed():
    ledger = Ledger()
    ledger.read(reader.buffered(ledger.source([9]), 1)(), 1)
    threads = [thread for thread in threading.enumerate() if thread.name == "reader"]
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
