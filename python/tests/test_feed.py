"""`paddle.feed.files`: the same training as by a Python reader, in one process and in jobs."""

import gzip
import json
import os
import pickle
import sys

import numpy
import processes
import pytest

import paddle.v2 as paddle
import recordio
from paddle import errors
from paddle.v2 import config, naming, progress
from paddle.v2.dataset import criteo

SLOTS = ["dense", "word", "words", "label"]


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Names, settings and counts as in a new program."""
    naming.reset()
    for name in list(os.environ):
        if name.startswith("PADDLE_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(config, "_current", None)
    monkeypatch.setattr(progress, "_totals", progress.Totals())


def samples(count, seed=3):
    """Three numbers, a word, some words, a label that follows from them."""
    draw = numpy.random.default_rng(seed)
    for _ in range(count):
        dense = [round(float(number), 4) for number in draw.normal(size=3)]
        word, words = int(draw.integers(50)), [int(id) for id in draw.integers(0, 50, size=3)]
        yield dense, word, words[: word % 4], int(dense[0] + word / 25 - 1 > 0)


def to_line(sample):
    dense, word, words, label = sample
    values = [dense, [word], words, [label]]
    return " ".join(f"{len(slot)} {' '.join(map(str, slot))}".strip() for slot in values)


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


@pytest.fixture
def folder(tmp_path):
    """Four files of 100 samples."""
    lines = [to_line(sample) for sample in samples(400)]
    for number in range(4):
        write(tmp_path / f"part-{number}", lines[number::4])
    return tmp_path


def in_order(count=400, files=4):
    """The samples as the files have them."""
    all_samples = list(samples(count))
    return [sample for number in range(files) for sample in all_samples[number::files]]


def make_trainer(names=SLOTS):
    layer, types = paddle.layer, paddle.data_type
    kinds = {
        "dense": types.dense_vector(3),
        "word": types.integer_value(50),
        "words": types.sparse_binary_vector(50),
        "label": types.integer_value(2),
    }
    data = {name: layer.data(name=name, type=kinds[name]) for name in names}
    table = paddle.attr.ParamAttr(name="table", sparse_update=True, initial_std=0.1)
    wide = paddle.attr.ParamAttr(name="wide", sparse_update=True, initial_std=0.1)
    hidden = layer.concat(
        input=[
            layer.embedding(input=data["word"], size=4, param_attr=table),
            layer.fc(input=data["words"], size=4, param_attr=wide, bias_attr=False),
            data["dense"],
        ]
    )
    click = layer.fc(input=hidden, size=2, act=paddle.activation.Softmax())
    cost = layer.classification_cost(input=click, label=data["label"])
    parameters = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Adam(learning_rate=0.01)
    return parameters, paddle.trainer.SGD(cost, parameters, optimizer)


def trained(reader, passes=2, **more):
    """The values after training, and the cost of every batch."""
    naming.reset()
    parameters, trainer = make_trainer()
    costs = []

    def watch(event):
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)

    trainer.train(reader, num_passes=passes, event_handler=watch, **more)
    rows = numpy.arange(50, dtype="uint64")
    values = [parameters.native.get_rows(name, rows) for name in ("table", "wide")]
    values += [parameters[name] for name in parameters.names() if name not in ("table", "wide")]
    return costs, values


def assert_same(one, other):
    assert one[0] == other[0]
    for mine, theirs in zip(one[1], other[1], strict=True):
        numpy.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("threads", [1, 3])
def test_training_from_files_has_the_bits_of_training_by_a_python_reader(folder, threads):
    python = trained(paddle.batch(lambda: iter(in_order()), 64))
    native = trained(paddle.feed.files(f"{folder}/part-*", SLOTS, 64, threads=threads))
    assert_same(python, native)
    assert len(native[0]) == 2 * 7


def test_texts_gzip_and_recordio_are_told_apart(folder):
    expected = trained(paddle.feed.files(f"{folder}/part-*", SLOTS, 64))
    lines = [(folder / f"part-{number}").read_text().splitlines() for number in range(4)]
    with gzip.open(folder / "other-0", "wt") as file:
        file.write("\n".join(lines[0]))
    with recordio.writer(str(folder / "other-1")) as file:
        for line in lines[1]:
            file.write(line.encode())
    write(folder / "other-2", lines[2])
    with recordio.writer(str(folder / "other-3")) as file:
        for line in lines[3]:
            file.write(f"{line}\n".encode())
    assert_same(expected, trained(paddle.feed.files(f"{folder}/other-*", SLOTS, 64)))


def test_feeding_says_where_values_are_and_other_slots_are_passed_over(folder):
    expected = trained(paddle.feed.files(f"{folder}/part-*", SLOTS, 64))
    places = {name: place for place, name in enumerate(SLOTS)}
    by_feeding = paddle.feed.files(f"{folder}/part-*", None, 64)
    assert_same(expected, trained(by_feeding, feeding=places))
    with pytest.raises(errors.InvalidError, match="give one of them"):
        trained(paddle.feed.files(f"{folder}/part-*", SLOTS, 64), feeding=places)
    for number in range(4):
        lines = (folder / f"part-{number}").read_text().splitlines()
        write(folder / f"more-{number}", [f"3 a b c {line} 0" for line in lines])
    more = paddle.feed.files(f"{folder}/more-*", ["unused", *SLOTS, "empty"], 64)
    assert_same(expected, trained(more))


def test_samples_in_memory_are_shuffled_by_the_seed(folder):
    def shuffled(**more):
        reader = paddle.feed.files(f"{folder}/part-*", SLOTS, 64, in_memory=True, **more)
        return trained(reader)[0]

    in_files = trained(paddle.feed.files(f"{folder}/part-*", SLOTS, 64))[0]
    assert shuffled() == in_files
    local = shuffled(shuffle="local", seed=5)
    assert local == shuffled(shuffle="global", seed=5, threads=2)
    assert local != in_files
    assert local != shuffled(shuffle="local", seed=6)


def test_data_in_memory_of_a_job_with_a_master_is_said_not_to_be_dealt_by_it(
    folder, caplog, monkeypatch
):
    monkeypatch.setenv("PADDLE_MASTER_ENDPOINT", "127.0.0.1:1")
    trained(paddle.feed.files(f"{folder}/part-*", SLOTS, 64, in_memory=True))
    assert "each trainer reads its own files (deal='shard')" in caplog.text


def test_testing_reads_files_too(folder):
    _, trainer = make_trainer()
    native = trainer.test(paddle.feed.files(f"{folder}/part-*", SLOTS, 64))
    python = trainer.test(paddle.batch(lambda: iter(in_order()), 64))
    assert native.cost == python.cost


@pytest.mark.parametrize("is_in_memory", [False, True])
def test_a_pass_of_which_every_line_is_left_out_is_an_error(folder, is_in_memory):
    settings = {"malformed": "skip", "in_memory": is_in_memory}
    reader = paddle.feed.files(f"{folder}/part-*", ["other", *SLOTS], 64, **settings)
    with pytest.raises(errors.DamagedError, match="all 400 lines.*format and slots.*part-0, line"):
        trained(reader)


def test_a_record_that_is_a_pickle_is_named_as_one(folder):
    path = str(folder / "converted")
    for sample in (([0.5] * 3, 1, [2], 0), ([0.5] * 3, 10, [10], 0)):
        with recordio.writer(path) as file:
            file.write(pickle.dumps(sample))
        with pytest.raises(errors.DamagedError, match="it is a pickle.*reader.creator.recordio"):
            trained(paddle.feed.files(path, SLOTS, 64))


def test_what_a_master_deals_out_is_no_test(folder):
    _, trainer = make_trainer()
    files = paddle.feed.files(f"{folder}/part-*", SLOTS, 64, deal="master")
    with pytest.raises(errors.UnsupportedError, match="deal='all'"):
        trainer.test(files)


@pytest.mark.parametrize("is_in_memory", [False, True])
def test_a_malformed_line_is_named_or_skipped_and_counted(folder, caplog, is_in_memory):
    lines = (folder / "part-1").read_text().splitlines()
    lines[41] = lines[41].replace("3 ", "4 ", 1)
    write(folder / "part-1", lines)
    with pytest.raises(errors.DamagedError) as raised:
        trained(paddle.feed.files(f"{folder}/part-*", SLOTS, 64))
    message = str(raised.value)
    assert f"file: {folder}/part-1, line: 42, slot: 0, data layer: dense" in message, message
    assert "expected 3 values, got '4'" in message
    settings = {"malformed": "skip", "in_memory": is_in_memory}
    reader = paddle.feed.files(f"{folder}/part-*", SLOTS, 64, **settings)
    left = in_order()
    del left[141]
    assert_same(trained(paddle.batch(lambda: iter(left), 64)), trained(reader))
    assert reader.skipped == (1 if is_in_memory else 2)
    assert "1 malformed lines were left out" in caplog.text


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"pattern": "absent-*"}, errors.NotFoundError, "no file matches the pattern"),
        ({"format": "csv"}, errors.InvalidError, "format must be one of multislot, criteo"),
        ({"shuffle": "local"}, errors.UnsupportedError, "shuffle needs in_memory=True"),
        ({"seed": 3}, errors.InvalidError, "seed is for shuffle"),
        ({"deal": "master", "in_memory": True}, errors.UnsupportedError, "kept in memory"),
        ({"deal": "master"}, errors.InvalidError, "where the job's master is"),
        ({"batch_size": 0}, errors.InvalidError, "batch_size must be 1 or more"),
        ({"slots": ["label", "label"]}, errors.InvalidError, "'label' is there twice"),
        ({"slots": ["dense", "word", "label"]}, errors.InvalidError, "slots does not .*'words'"),
        ({"threads": 1000}, errors.InvalidError, "threads must be from 1 to 256"),
        ({"malformed": "ignore"}, errors.InvalidError, "malformed must be one of error, skip"),
        ({"in_memory": True, "memory_bytes_max": 10}, errors.LimitExceededError, "memory_bytes"),
        ({"format": "criteo", "slots": None}, errors.InvalidError, "a Criteo sample has here"),
    ],
)
def test_what_cannot_be_is_refused_by_name(folder, arguments, kind, message):
    given = {"pattern": f"{folder}/part-*", "slots": SLOTS, "batch_size": 64} | arguments
    with pytest.raises(kind, match=message):
        trained(paddle.feed.files(**given))


def test_decorators_are_told_that_no_samples_come_through_python(folder):
    reader = paddle.feed.files(f"{folder}/part-*", SLOTS, 64)
    with pytest.raises(errors.UnsupportedError, match="do not pass through Python"):
        trained(paddle.batch(reader, 64))


def test_criteo_files_give_what_the_python_reader_gives(tmp_path):
    draw = numpy.random.default_rng(5)
    lines = []
    for _ in range(100):
        numbers = ["" if value < 0 else str(value) for value in draw.integers(-5, 70000, size=13)]
        categories = ["" if value < 10 else f"{value:08x}" for value in draw.integers(0, 99, 26)]
        lines.append("\t".join([str(draw.integers(2)), *numbers, *categories]))
    path = write(tmp_path / "day", lines)

    def costs(reader):
        naming.reset()
        layer, types = paddle.layer, paddle.data_type
        dense = layer.data(name="dense", type=types.dense_vector(13))
        table = paddle.attr.ParamAttr(name="table", sparse_update=True, initial_std=0.1)
        rows = [
            layer.embedding(
                input=layer.data(name=f"C{number}", type=types.integer_value(1000)),
                size=4,
                param_attr=table,
            )
            for number in range(26)
        ]
        click = layer.fc(
            input=layer.concat(input=[dense, *rows]), size=2, act=paddle.activation.Softmax()
        )
        label = layer.data(name="click", type=types.integer_value(2))
        cost = layer.classification_cost(input=click, label=label)
        optimizer = paddle.optimizer.Momentum(momentum=0, learning_rate=1e-3)
        trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
        found = []

        def watch(event):
            if isinstance(event, paddle.event.EndIteration):
                found.append(event.cost)

        trainer.train(reader, num_passes=2, event_handler=watch)
        return found

    python = costs(paddle.batch(criteo.read(path, 1000), 16))
    assert len(python) == 14
    assert costs(criteo.files(path, 16, 1000)) == python


PROGRAM = """
import json, os, pathlib, signal, sys
sys.path.insert(0, {tests!r})
import test_feed
import paddle.v2 as paddle
from paddle.v2 import progress

settings = json.loads(sys.argv[1])
die_at, tested = settings.pop("die_at", None), settings.pop("tested", None)
parameters, trainer = test_feed.make_trainer()
reader = paddle.feed.files("part-*", test_feed.SLOTS, 16, **settings)
out = pathlib.Path(f"batches-{{paddle.job.rank}}-{{paddle.job.attempt}}")
steps = 0

def watch(event):
    global steps
    if isinstance(event, paddle.event.EndIteration):
        steps += 1
        with out.open("a") as file:
            file.write(f"{{event.pass_id}} {{event.batch_id}} {{event.cost!r}}\\n")
        if die_at == steps and paddle.job.attempt == 0 and paddle.job.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)

trainer.train(reader, event_handler=watch)
pathlib.Path(f"samples-{{paddle.job.rank}}").write_text(str(progress._totals.samples))
if tested is not None:
    cost = trainer.test(paddle.feed.files(tested, test_feed.SLOTS, 16)).cost
    pathlib.Path(f"tested-{{paddle.job.rank}}").write_text(repr(cost))
"""


def launch(folder, *flags, **settings):
    """Runs a job of two trainers; the batches of each, by rank and attempt."""
    tests = os.path.dirname(__file__)
    (folder / "program.py").write_text(PROGRAM.format(tests=tests))
    for old in folder.glob("batches-*"):
        old.unlink()
    processes.run(
        folder, processes.PADDLE, "launch", "--pservers", "1", "--trainers", "2",
        "--passes", "2", *flags, "--", sys.executable, "program.py", json.dumps(settings),
    )  # fmt: skip
    found = {}
    for path in sorted(folder.glob("batches-*")):
        _, rank, attempt = path.name.split("-")
        lines = [line.split() for line in path.read_text().splitlines()]
        found[int(rank), int(attempt)] = [(int(a), int(b), float(c)) for a, b, c in lines]
    return found


def test_trainers_of_a_job_share_files_and_a_killed_one_goes_on_behind_its_batches(folder):
    """Two files of 100 samples each: 13 batches of 16 a pass and trainer."""
    for settings in ({}, {"in_memory": True, "shuffle": "global"}):
        undisturbed = launch(folder, **settings)
        assert {key: len(rows) for key, rows in undisturbed.items()} == {(0, 0): 26, (1, 0): 26}
        disturbed = launch(folder, "--restarts", "2", die_at=17, **settings)
        assert len(disturbed[0, 0]) == 17
        assert len(disturbed[0, 1]) < 26, "the second process skips what the first has trained"
        # What was trained before the kill and after it is what would have been.
        rows = dict.fromkeys(disturbed[0, 0])
        rows.update(
            dict.fromkeys(row for key in disturbed if key[0] == 0 for row in disturbed[key])
        )
        assert sorted(rows) == undisturbed[0, 0]


def test_a_master_deals_files_out_and_every_sample_is_trained_once_a_pass(folder):
    write(folder / "valid", [to_line(sample) for sample in samples(50, seed=4)])
    found = launch(folder, "--master", "--async", tested="valid")
    assert {row[0] for rows in found.values() for row in rows} == {0, 1}
    assert sum(int(path.read_text()) for path in folder.glob("samples-*")) == 2 * 400
    assert len(list(folder.glob("tested-*"))) == 2


def test_trainers_share_the_lines_of_one_file_and_test_all_of_another(folder):
    for number in range(1, 4):
        (folder / f"part-{number}").unlink()
    write(folder / "valid", [to_line(sample) for sample in samples(50, seed=4)])
    found = launch(folder, deal="lines", tested="valid")
    # Of 100 lines each has 50, in 4 batches a pass.
    assert {key: len(rows) for key, rows in found.items()} == {(0, 0): 8, (1, 0): 8}
    assert found[0, 0] != found[1, 0]
    assert [int(path.read_text()) for path in folder.glob("samples-*")] == [100, 100]
    tested = [(folder / f"tested-{rank}").read_text() for rank in range(2)]
    assert tested[0] == tested[1]


@pytest.mark.parametrize("flags", [["--mode", "hybrid"], ["--mode", "stale:2"], ["--async"]])
@pytest.mark.parametrize("values", ["f32", "bf16"])
def test_trainers_learn_in_every_mode_whichever_way_values_travel(folder, flags, values):
    environment = ["--env", f"PADDLE_INIT_WIRE_VALUES={values}"]
    for rows in launch(folder, *flags, *environment).values():
        assert len(rows) == 26
        first, last = (sum(cost for _, _, cost in some) / 5 for some in (rows[:5], rows[-5:]))
        assert last < first


def test_values_of_a_sync_job_do_not_travel_as_bf16(folder):
    environment = ["--env", "PADDLE_INIT_WIRE_VALUES=bf16"]
    with pytest.raises(AssertionError, match="in sync mode runs are equal to the bit"):
        launch(folder, *environment)
