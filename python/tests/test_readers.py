"""Readers, batches, events and curves: what a program is built of around its network."""

import gzip
import pickle
import random
import shlex
import sys
import threading
import time

import numpy as np
import pytest

import recordio
from paddle import errors
from paddle.v2 import event, plot, reader
from paddle.v2.minibatch import batch

DEADLINE_SECONDS = 300


def counting(count):
    """A reader of the numbers below `count`."""
    return lambda: iter(range(count))


def failing(count):
    """A reader that fails after `count` samples."""

    def samples():
        yield from range(count)
        raise OSError("the disk is gone")

    return samples


def wait_until(condition):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.001)  # polled until the deadline


@pytest.fixture(autouse=True)
def no_threads_are_left():
    """Whatever a test does with readers, their threads end."""
    before = set(threading.enumerate())
    yield
    wait_until(lambda: set(threading.enumerate()) <= before)


def test_the_last_batch_may_be_shorter():
    assert list(batch(counting(5), 2)()) == [[0, 1], [2, 3], [4]]
    assert list(batch(counting(4), 2)()) == [[0, 1], [2, 3]]
    assert list(batch(counting(5), 2, drop_last=True)()) == [[0, 1], [2, 3]]
    assert list(batch(counting(0), 2)()) == []


def test_a_batch_reader_can_be_read_again():
    batches = batch(counting(3), 2)
    assert list(batches()) == list(batches())


@pytest.mark.parametrize("size", [0, -1, 1.5, "2", True])
def test_a_batch_size_that_cannot_be_is_refused(size):
    with pytest.raises((errors.InvalidError, TypeError), match="batch_size"):
        batch(counting(3), size)


def test_giving_what_a_reader_returns_is_explained():
    with pytest.raises(TypeError, match="give the function itself, without calling it"):
        batch(counting(3)(), 2)
    with pytest.raises(TypeError, match="reader 1 must be a reader"):
        reader.chain(counting(3), [1, 2])


def test_a_wrong_argument_name_is_explained():
    with pytest.raises(TypeError, match="shuffle has no argument 'buffer_size'"):
        reader.shuffle(counting(3), buffer_size=2)


def test_readers_are_mapped_together():
    assert list(reader.map_readers(lambda a, b: a * b, counting(3), counting(9))()) == [0, 1, 4]


def test_readers_are_chained():
    assert list(reader.chain(counting(2), counting(3))()) == [0, 1, 0, 1, 2]


def test_samples_are_composed_to_one_tuple():
    pairs = reader.map_readers(lambda a: (a, -a), counting(2))
    assert list(reader.compose(pairs, counting(2))()) == [(0, 0, 0), (1, -1, 1)]


def test_composing_readers_of_different_lengths_is_noticed():
    uneven = reader.compose(counting(2), counting(3))()
    assert [next(uneven), next(uneven)] == [(0, 0), (1, 1)]
    with pytest.raises(reader.ComposeNotAligned, match="reader 0 of 2 ends after 2 samples"):
        next(uneven)
    assert issubclass(reader.ComposeNotAligned, ValueError)
    cut = reader.compose(counting(2), counting(3), check_alignment=False)
    assert list(cut()) == [(0, 0), (1, 1)]


def test_composing_takes_none_for_a_sample():
    assert list(reader.compose(lambda: iter([None, 1]), counting(2))()) == [(None, 0), (1, 1)]


def test_shuffling_keeps_to_its_buffer_and_is_repeatable():
    shuffled = reader.shuffle(counting(25), 10)
    random.seed(3)
    first = list(shuffled())
    random.seed(3)
    assert list(shuffled()) == first
    assert first != list(range(25))
    blocks = [first[:10], first[10:20], first[20:]]
    assert [sorted(block) for block in blocks] == [
        list(range(10)),
        list(range(10, 20)),
        list(range(20, 25)),
    ]


def test_the_first_samples_are_taken_and_no_more_are_read():
    assert list(reader.firstn(failing(3), 3)()) == [0, 1, 2]
    assert list(reader.firstn(counting(3), 9)()) == [0, 1, 2]
    assert list(reader.firstn(counting(3), 0)()) == []


def test_a_cache_reads_once_and_not_before_it_is_asked():
    calls = []

    def samples():
        calls.append(1)
        return iter(range(3))

    cached = reader.cache(samples)
    assert not calls
    assert list(cached()) == list(cached()) == [0, 1, 2]
    assert len(calls) == 1


def test_a_cache_does_not_keep_a_pass_that_failed():
    attempts = iter([failing(2), counting(3)])
    cached = reader.cache(lambda: next(attempts)())
    with pytest.raises(OSError):
        cached()
    assert list(cached()) == [0, 1, 2]


def test_reading_ahead_changes_nothing():
    ahead = reader.buffered(counting(1000), 7)
    assert list(ahead()) == list(ahead()) == list(range(1000))


def test_reading_ahead_stays_within_its_size():
    taken = []

    def samples():
        for number in range(100):
            taken.append(number)
            yield number

    ahead = reader.buffered(samples, 5)()
    assert next(ahead) == 0
    # One is in the consumer's hands, five in the buffer, one in the producer's.
    wait_until(lambda: len(taken) == 7)
    ahead.close()
    wait_until(lambda: "reader" not in {thread.name for thread in threading.enumerate()})
    assert len(taken) == 7


def test_an_error_of_a_reader_comes_after_its_samples():
    ahead = reader.buffered(failing(3), 2)()
    assert [next(ahead) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        next(ahead)


@pytest.mark.parametrize("order", [False, True])
def test_samples_are_mapped_in_threads(order):
    doubled = reader.xmap_readers(lambda a: 2 * a, counting(500), 3, 8, order)
    assert list(doubled()) == list(doubled()) == [2 * a for a in range(500)]


def test_the_threads_of_a_mapping_work_at_the_same_time():
    together = threading.Barrier(4)

    def meet(sample):
        together.wait(DEADLINE_SECONDS)
        return sample

    assert list(reader.xmap_readers(meet, counting(8), 4, 4)()) == list(range(8))


def test_errors_of_mapper_and_reader_reach_the_consumer():
    inverse = reader.xmap_readers(lambda a: 1 / (3 - a), counting(9), 2, 4)()
    assert [next(inverse) for _ in range(3)] == [1 / 3, 1 / 2, 1]
    with pytest.raises(ZeroDivisionError):
        next(inverse)
    mapped = reader.xmap_readers(abs, failing(3), 2, 4)
    with pytest.raises(OSError, match="the disk is gone"):
        list(mapped())


def test_a_consumer_that_stops_early_ends_reading_and_mapping():
    closed = threading.Event()

    def endless():
        try:
            while True:
                yield 1
        finally:
            closed.set()

    mapped = reader.xmap_readers(abs, endless, 3, 5)()
    assert next(mapped) == 1
    mapped.close()
    assert closed.wait(DEADLINE_SECONDS)


def python(program):
    """A command line that runs a small program."""
    return shlex.join([sys.executable, "-c", program])


@pytest.mark.parametrize("bufsize", [1, 3, 8192])
def test_lines_of_a_command_are_read(bufsize):
    pipe = reader.PipeReader(python("print('één\\n\\ntwo\\nthree', end='')"), bufsize)
    assert list(pipe.get_line()) == list(pipe.get_line()) == ["één", "", "two", "three"]


def test_compressed_output_is_uncompressed(tmp_path):
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(b"one\ntw") + gzip.compress(b"o\n"))
    show = python(f"import sys; sys.stdout.buffer.write(open({str(path)!r}, 'rb').read())")
    assert list(reader.PipeReader(show, 10, "gzip").get_line()) == ["one", "two"]
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(errors.DamagedError, match="ends in the middle"):
        list(reader.PipeReader(show, 10, "gzip").get_line())


def test_a_command_that_fails_is_noticed():
    lines = reader.PipeReader(python("print('one'); raise SystemExit(3)")).get_line()
    assert next(lines) == "one"
    with pytest.raises(errors.SystemError, match="exit code: 3"):
        next(lines)


def test_a_command_is_ended_when_nobody_reads_on():
    endless = "import itertools\nfor i in itertools.count(): print(i)"
    lines = reader.PipeReader(python(endless)).get_line()
    assert next(lines) == "0"
    lines.close()


def test_a_parser_makes_samples_of_a_commands_lines():
    numbers = reader.pipe_reader(python("print('1 2\\n3 4')"), lambda lines: map(str.split, lines))
    assert list(numbers()) == [["1", "2"], ["3", "4"]]
    pieces = reader.pipe_reader(python("print('ab')"), lambda text: [text], cut_lines=False)
    assert "".join(pieces()) == "ab\n"


def test_rows_of_an_array_are_samples():
    rows = list(reader.creator.np_array(np.arange(6).reshape(3, 2))())
    assert [row.tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]
    assert list(reader.creator.np_array(np.float32(2))()) == [2]


def test_lines_of_a_text_are_samples(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("one \n\nthree", encoding="utf-8")
    lines = reader.creator.text_file(path)
    assert list(lines()) == list(lines()) == ["one ", "", "three"]


def test_pickled_records_are_samples(tmp_path):
    for number in range(2):
        with recordio.writer(tmp_path / f"part-{number:05}") as file:
            for sample in range(3):
                file.write(pickle.dumps((number, [sample])))
    samples = reader.creator.recordio(str(tmp_path / "part-*"))
    expect = [(number, [sample]) for number in range(2) for sample in range(3)]
    assert list(samples()) == list(samples()) == expect
    paths = [tmp_path / "part-00001", tmp_path / "part-00000"]
    assert list(reader.creator.recordio(paths)()) == expect[3:] + expect[:3]
    assert list(reader.creator.recordio(",".join(map(str, paths)))()) == expect[3:] + expect[:3]


def test_records_are_samples_as_they_are_or_as_a_function_makes_them(tmp_path):
    path = tmp_path / "data"
    with recordio.writer(path) as file:
        for record in [b"", b"\x00\xff", b"abc"]:
            file.write(record)
    assert list(reader.creator.recordio(path, loader=None)()) == [b"", b"\x00\xff", b"abc"]
    assert list(reader.creator.recordio(path, loader=len)()) == [0, 2, 3]
    with pytest.raises(TypeError, match="loader must be a function of a record, or None"):
        reader.creator.recordio(path, loader="pickle")


def test_a_name_that_is_not_there_says_so():
    with pytest.raises(errors.UnsupportedError, match="did you mean 'cloud_reader'"):
        reader.creator.cloud_redaer
    with pytest.raises(AttributeError, match="did you mean 'shuffle'"):
        reader.shufle


def test_events_have_their_fields():
    done = event.EndIteration(1, 2, 0.5, {"error": 0.25}, gm=None)
    assert (done.pass_id, done.batch_id, done.cost, done.metrics) == (1, 2, 0.5, {"error": 0.25})
    assert done.evaluator == "error=0.25 "
    assert event.TestResult({"error": 1.0}, 0.5).cost == 0.5
    assert event.EndPass(3, {}).pass_id == 3
    assert isinstance(event.EndPass(3, {}), event.WithMetric)
    assert event.BeginIteration(1, 2).batch_id == event.EndForwardBackward(1, 2).batch_id == 2


def test_curves_collect_points_without_matplotlib(monkeypatch):
    monkeypatch.setenv("DISABLE_PLOT", "True")
    ploter = plot.Ploter("train cost", "test cost")
    ploter.append("train cost", 0, 1.5)
    ploter.plot("curves.png")
    ploter.reset()
    with pytest.raises(ValueError, match="did you mean 'train cost'"):
        ploter.append("train cots", 0, 1.5)


def test_a_missing_matplotlib_is_said_once(monkeypatch):
    monkeypatch.delenv("DISABLE_PLOT", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    plot._pyplot.cache_clear()
    ploter = plot.Ploter("cost")
    with pytest.warns(UserWarning, match="matplotlib is not installed"):
        ploter.plot("curves.png")
    ploter.plot("curves.png")
    plot._pyplot.cache_clear()
