"""Training in one process: that it learns, what it tells, and how it fails."""

import gzip
import io
import json
import multiprocessing
import os
import pty
import signal
import subprocess
import sys

import numpy
import pytest

import paddle.v2 as paddle
from paddle import errors
from paddle.v2 import config, naming, progress


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Names, settings and counts as in a new program."""
    naming.reset()
    for name in list(os.environ):
        if name.startswith("PADDLE_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(config, "_current", None)
    monkeypatch.setattr(progress, "_totals", progress.Totals())


def line_data(count=200, seed=7):
    """Points of y = 2·x0 − 3·x1 + 0.5."""
    points = numpy.random.default_rng(seed).normal(size=(count, 2)).astype("float32")
    return [(point, [2 * point[0] - 3 * point[1] + 0.5]) for point in points]


def line_network():
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(2))
    y = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
    prediction = paddle.layer.fc(input=x, size=1, act=paddle.activation.Linear())
    return prediction, paddle.layer.square_error_cost(input=prediction, label=y)


def line_trainer(rate=0.01, **extra):
    prediction, cost = line_network()
    parameters = paddle.parameters.create(cost)
    optimizer = paddle.optimizer.Momentum(momentum=0, learning_rate=rate)
    return prediction, parameters, paddle.trainer.SGD(cost, parameters, optimizer, **extra)


def batches(data, size=10):
    return paddle.batch(lambda: iter(data), size)


def test_a_line_is_learnt_exactly():
    prediction, parameters, trainer = line_trainer()
    trainer.train(batches(line_data()), num_passes=20)
    numpy.testing.assert_allclose(parameters["___fc_layer_0__.w0"], [[2], [-3]], atol=1e-4)
    numpy.testing.assert_allclose(parameters["___fc_layer_0__.wbias"], [[0.5]], atol=1e-4)
    answers = paddle.infer(prediction, parameters, [([1.0, 1.0],), ([0.0, 2.0],)])
    numpy.testing.assert_allclose(answers, [[-0.5], [-5.5]], atol=1e-3)


def test_events_come_in_order_with_means_and_outputs():
    _, parameters, trainer = line_trainer(rate=0.0)
    seen = []

    def handler(event):
        seen.append(type(event).__name__)
        if isinstance(event, paddle.event.EndForwardBackward):
            outputs = event.gm.getLayerOutputs("__fc_layer_0__")
            assert outputs["__fc_layer_0__"]["value"].shape == (10, 1)
        if isinstance(event, paddle.event.EndIteration):
            expected = trainer.test(batches(line_data()[event.batch_id * 10 :][:10])).cost
            assert event.cost == pytest.approx(expected, rel=1e-5)

    trainer.train(batches(line_data(20)), num_passes=2, event_handler=handler)
    one = ["BeginIteration", "EndForwardBackward", "EndIteration"]
    assert seen == (["BeginPass", *one, *one, "EndPass"]) * 2
    assert parameters.get_grad("___fc_layer_0__.w0").shape == (2, 1)


def test_two_runs_with_one_seed_are_equal_and_another_seed_differs():
    def run(seed):
        naming.reset()
        paddle.init(seed=seed)
        x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(2))
        y = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
        dropped = paddle.attr.ExtraAttr(drop_rate=0.5)
        hidden = paddle.layer.fc(input=x, size=8, layer_attr=dropped)
        cost = paddle.layer.square_error_cost(
            input=paddle.layer.fc(input=hidden, size=1, act=paddle.activation.Linear()), label=y
        )
        parameters = paddle.parameters.create(cost)
        optimizer = paddle.optimizer.Adam(learning_rate=0.01)
        paddle.trainer.SGD(cost, parameters, optimizer).train(batches(line_data(50)))
        return parameters["___fc_layer_0__.w0"]

    assert numpy.array_equal(run(3), run(3))
    assert not numpy.array_equal(run(3), run(4))


def test_models_survive_tar_safetensors_and_pass_directories(tmp_path):
    _, parameters, trainer = line_trainer()
    trainer.train(batches(line_data(50)))
    with gzip.open(tmp_path / "model.tar.gz", "wb") as file:
        trainer.save_parameter_to_tar(file)
    parameters.to_safetensors(tmp_path / "model.safetensors")
    saved = parameters.save_pass(tmp_path, 3)
    assert saved.endswith("pass-00003")

    with gzip.open(tmp_path / "model.tar.gz", "rb") as file:
        from_tar = paddle.parameters.Parameters.from_tar(file)
    assert from_tar.names() == parameters.names()
    others = [from_tar]
    for load in (
        lambda other: other.init_from_safetensors(tmp_path / "model.safetensors"),
        lambda other: other.load_pass(saved),
    ):
        naming.reset()
        other = paddle.parameters.create(line_network()[1])
        load(other)
        others.append(other)
    for other in others:
        for name in parameters:
            assert numpy.array_equal(other[name], parameters[name])


def test_values_that_are_set_are_where_training_begins():
    _, parameters, trainer = line_trainer()
    parameters["___fc_layer_0__.w0"] = numpy.array([[2.0], [-3.0]])
    parameters.set("___fc_layer_0__.wbias", [[0.5]])
    assert trainer.test(batches(line_data())).cost == pytest.approx(0, abs=1e-10)


def test_metrics_are_written_for_each_pass(tmp_path):
    paddle.init(log_dir=str(tmp_path / "log"))
    line_trainer()[2].train(batches(line_data(30)), num_passes=2)
    lines = (tmp_path / "log" / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [records[0]["step"], records[-1]["step"]] == [1, 6]
    assert {record["pass"] for record in records} == {0, 1}
    assert records[-1]["samples"] == 60
    assert all(record["cost"] >= 0 and record["rank"] == 0 for record in records)


PROGRAM = """
import paddle.v2 as paddle
{init}
x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
cost = paddle.layer.square_error_cost(input=paddle.layer.fc(input=x, size=1), label=x)
parameters = paddle.parameters.create(cost)
trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Momentum(learning_rate=1e-3))
def reader():
    print("ready", flush=True)
    for _ in range({batches}):
        yield [([1.0],)]
trainer.train(reader, feeding={{"x": 0}})
"""


@pytest.mark.parametrize(("flag", "is_shown"), [("", True), ("show_progress=False", False)])
def test_progress_is_drawn_on_a_terminal_unless_told_otherwise(flag, is_shown):
    leader, follower = pty.openpty()
    program = PROGRAM.format(init=f"paddle.init({flag})", batches=3)
    subprocess.run([sys.executable, "-c", program], stderr=follower, check=True, timeout=600)
    os.close(follower)
    drawn = b""
    while True:
        try:
            piece = os.read(leader, 4096)
        except OSError:
            break
        if not piece:
            break
        drawn += piece
    os.close(leader)
    assert (b"pass 0  batch 0  cost " in drawn) == is_shown
    assert (b"samples/s" in drawn) == is_shown


def test_an_interrupt_ends_the_program_as_python_does():
    program = PROGRAM.format(init="paddle.init()", batches=10**12)
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test runner in the background may ignore interrupts, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    _, errors_shown = child.communicate(timeout=600)
    assert child.returncode == -signal.SIGINT
    assert errors_shown.rstrip().endswith("KeyboardInterrupt")


def test_a_cost_that_is_no_number_names_the_layer():
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
    logarithm = paddle.layer.fc(
        input=x,
        size=1,
        name="risky",
        act=paddle.activation.Log(),
        param_attr=paddle.attr.ParamAttr(initial_mean=1.0, initial_std=0.0),
    )
    cost = paddle.layer.square_error_cost(input=logarithm, label=x)
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Momentum(learning_rate=0.1))
    before = parameters["_risky.w0"]
    with pytest.raises(errors.InvalidError, match="output of layer: risky"):
        trainer.train(lambda: iter([[([-1.0],)]]))
    assert numpy.array_equal(parameters["_risky.w0"], before)
    with pytest.raises(errors.InvalidError, match="data of: x"):
        trainer.train(lambda: iter([[([float("nan")],)]]))


def _train_in_child(trainer, queue):
    try:
        trainer.train(batches(line_data(10)))
        queue.put("trained")
    except errors.ConflictError as error:
        queue.put(str(error))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_network_that_was_used_refuses_to_run_in_a_forked_child():
    _, _, trainer = line_trainer()
    trainer.train(batches(line_data(10)))
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_train_in_child, args=(trainer, queue))
    child.start()
    assert "forked" in queue.get(timeout=600)
    child.join()


def test_sparse_tables_learn_only_the_rows_they_see():
    word = paddle.layer.data(name="word", type=paddle.data_type.integer_value(1000))
    label = paddle.layer.data(name="label", type=paddle.data_type.dense_vector(1))
    table = paddle.attr.ParamAttr(name="table", sparse_update=True, initial_std=0.1)
    vector = paddle.layer.embedding(input=word, size=4, param_attr=table)
    output = paddle.layer.fc(input=vector, size=1, act=paddle.activation.Linear())
    cost = paddle.layer.square_error_cost(input=output, label=label)
    parameters = paddle.parameters.create(cost)
    before = parameters["table"].copy()
    trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.AdaGrad(learning_rate=0.1))
    data = [(word, [word / 10]) for word in (3, 5, 7)]
    trainer.train(lambda: iter([data]), num_passes=60)
    assert trainer.test(lambda: iter([data])).cost < 0.01
    changed = numpy.flatnonzero((parameters["table"] != before).any(axis=1))
    assert list(changed) == [3, 5, 7]
    assert parameters.get_rows("table", [3]).shape == (1, 4)


def test_keys_without_a_bound_are_looked_up_and_saved():
    key = paddle.layer.data(name="key", type=paddle.data_type.integer_value(None))
    table = paddle.attr.ParamAttr(name="table", sparse_update=True)
    vector = paddle.layer.embedding(input=key, size=2, param_attr=table)
    label = paddle.layer.data(name="label", type=paddle.data_type.dense_vector(2))
    cost = paddle.layer.square_error_cost(input=vector, label=label)
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(cost, parameters, paddle.optimizer.Momentum(learning_rate=0.25))
    huge = 2**63 + 11
    trainer.train(lambda: iter([[(huge, [1.0, 2.0]), (5, [3.0, 4.0])]]), num_passes=30)
    file = io.BytesIO()
    parameters.to_tar(file)
    file.seek(0)
    loaded = paddle.parameters.Parameters.from_tar(file)
    rows = loaded.get_rows("table", numpy.array([huge, 5], dtype="uint64"))
    numpy.testing.assert_allclose(rows, [[1, 2], [3, 4]], atol=1e-5)
    with pytest.raises(errors.UnsupportedError, match="table"):
        loaded.get("table")


def test_a_reader_that_nobody_made_batches_of_says_so():
    _, _, trainer = line_trainer()
    with pytest.raises(errors.InvalidError, match=r"wrap the reader with paddle.batch\(reader, "):
        trainer.train(lambda: iter(line_data()))


def test_arguments_that_train_does_not_have_are_told():
    _, _, trainer = line_trainer()
    with pytest.raises(
        errors.WrongTypeError, match="SGD.train has no argument 'epochs'; it takes r"
    ):
        trainer.train(batches(line_data()), epochs=3)


def test_a_training_without_any_batch_is_warned_of(caplog):
    _, _, trainer = line_trainer()
    trainer.train(batches([]), num_passes=2)
    assert "the reader gave no batch, so nothing was trained (passes: 2, at: " in caplog.text
