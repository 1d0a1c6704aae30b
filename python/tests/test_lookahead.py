"""Batches one ahead: which are looked for, and what their source hears of them."""

import pytest

import paddle.v2 as paddle
from paddle import _native
from paddle.v2 import naming
from paddle.v2.lookahead import pairs
from paddle.v2.reader.flow import Tracked


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


def test_a_batch_that_was_converted_comes_with_the_next_one(convert):
    batches = [convert(1.0), convert(2.0, 3.0), convert(4.0)]
    found = list(pairs(lambda: iter(batches)))
    assert [batch for batch, _ in found] == batches
    assert [following for _, following in found] == [*batches[1:], None]


def test_a_reader_in_python_is_asked_only_when_its_batch_is_wanted():
    asked = []

    def reader():
        for number in range(3):
            asked.append(number)
            yield [number]

    for number, (batch, following) in enumerate(pairs(reader)):
        assert (batch, following) == ([number], None)
        assert asked == list(range(number + 1))
    assert asked == [0, 1, 2]


def test_what_was_read_before_an_error_is_given_first(convert):
    def reader():
        yield convert(1.0)
        yield convert(2.0)
        raise ValueError("damaged")

    given = []
    with pytest.raises(ValueError, match="damaged"):
        for batch, _ in pairs(reader):
            given.append(batch)
    assert len(given) == 2


def test_a_task_is_finished_when_its_last_batch_was_trained_and_not_when_it_was_read(convert):
    finished = []

    def begin(downstream):
        for task in range(3):
            yield convert(float(task))
            downstream.mark(lambda task=task: finished.append(task))

    for number, (batch, following) in enumerate(pairs(Tracked(begin))):
        assert isinstance(batch, _native.Batch)
        assert (following is None) == (number == 2)
        assert finished == list(range(number))
    assert finished == [0, 1, 2]
