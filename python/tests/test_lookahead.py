"""Batches ahead: which are looked for, and what their source hears of them."""

import pytest

import paddle.v2 as paddle
from paddle import _native
from paddle.v2 import naming
from paddle.v2.lookahead import batches
from paddle.v2.reader.flow import Tracked


class Learner:
    """Wants to know some batches, and has the last one of each step under way."""

    def __init__(self, lookahead, overlaps):
        self._lookahead = lookahead
        self._overlaps = overlaps
        self.learnt = 0
        self.sure = 0

    def learn(self):
        self.learnt += 1
        self.sure = self.learnt - self._overlaps

    def lookahead(self):
        return self._lookahead

    def under_way(self):
        return self.learnt - self.sure

    def settle(self):
        self.sure = self.learnt


@pytest.fixture(params=[(1, 0), (2, 1)], ids=["in step", "overlapping"])
def learner(request):
    return Learner(*request.param)


@pytest.fixture
def convert():
    """Makes a batch of samples that are numbers, ready to run."""
    naming.reset()
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
    y = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
    cost = paddle.layer.square_error_cost(input=paddle.layer.fc(input=x, size=1), label=y)
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Momentum(), is_local=True)
    feeder = trainer.feeder()
    return lambda *numbers: feeder([([number], [number]) for number in numbers])


def test_a_batch_that_was_converted_comes_with_those_that_follow(convert, learner):
    given = [convert(1.0), convert(2.0, 3.0), convert(4.0), convert(5.0)]
    found = list(batches(lambda: iter(given), learner))
    assert [batch for batch, _ in found] == given
    count = learner.lookahead()
    assert [following for _, following in found] == [
        given[number + 1 : number + 1 + count] for number in range(4)
    ]


def test_a_reader_in_python_is_asked_only_when_its_batch_is_wanted(learner):
    asked = []

    def reader():
        for number in range(3):
            asked.append(number)
            yield [number]

    for number, (batch, following) in enumerate(batches(reader, learner)):
        assert (batch, following) == ([number], [])
        assert asked == list(range(number + 1))
        learner.learn()
    assert asked == [0, 1, 2]


def test_what_was_read_before_an_error_is_given_first(convert, learner):
    finished = []

    def begin(downstream):
        yield convert(1.0)
        yield convert(2.0)
        downstream.mark(lambda: finished.append("both"))
        raise ValueError("damaged")

    given = []
    with pytest.raises(ValueError, match="damaged"):
        for batch, _ in batches(Tracked(begin), learner):
            given.append(batch)
            learner.learn()
    assert len(given) == 2
    assert learner.under_way() == 0
    assert finished == ["both"]


def test_a_task_is_finished_when_its_last_batch_is_learnt_and_not_when_it_was_read(
    convert, learner
):
    finished = []

    def begin(downstream):
        for task in range(5):
            yield convert(float(task))
            downstream.mark(lambda task=task: finished.append(task))

    for batch, _ in batches(Tracked(begin), learner):
        assert isinstance(batch, _native.Batch)
        assert finished == list(range(learner.sure))
        learner.learn()
    assert finished == [0, 1, 2, 3, 4]
    assert learner.under_way() == 0


def test_an_iteration_that_is_given_up_finishes_nothing_that_is_under_way(convert, learner):
    finished = []

    def begin(downstream):
        for task in range(5):
            yield convert(float(task))
            downstream.mark(lambda task=task: finished.append(task))

    known = batches(Tracked(begin), learner)
    for _ in range(3):
        next(known)
        learner.learn()
    known.close()
    assert len(finished) == 2 - learner.under_way()
