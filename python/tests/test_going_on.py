"""Trainers that are started again: the same batches, and servers that are still there."""

import collections
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time
import types

import processes
import pytest
import v1_programs

from paddle import errors
from paddle.v2 import config, parameters, trail

TRAIN = """
import os, random, signal, sys
import paddle.v2 as paddle

paddle.init(seed=1)
if "SEED" in os.environ:
    random.seed(int(os.environ["SEED"]))
x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
cost = paddle.layer.square_error_cost(input=paddle.layer.fc(input=x, size=1), label=x)
trainer = paddle.trainer.SGD(
    cost, paddle.parameters.create(cost), paddle.optimizer.Momentum(learning_rate=1e-6)
)
is_first = paddle.job.attempt == 0

def numbers():
    yield from range(40)

shuffled = paddle.reader.shuffle(numbers, 40)
given = []

def samples():
    given.clear()
    for number in shuffled():
        number += os.environ.get("MODE") == "another" and not is_first
        given.append(number)
        yield ([float(number)],)

def note(event):
    if isinstance(event, paddle.event.EndIteration):
        with open("seen", "a") as seen:
            for number in given[event.batch_id * 4 : event.batch_id * 4 + 4]:
                print(event.pass_id, number, file=seen)
        where = tuple(map(int, os.environ["DIES"].split("/")))
        if is_first and (event.pass_id, event.batch_id) == where:
            if os.environ.get("MODE") == "another" and form == "files":
                write_data(1)
            os.kill(os.getpid(), signal.SIGKILL)

def write_data(first):
    with open("data", "w") as file:
        file.writelines(f"1 {first + number}\\n" for number in range(40))

form, reader = os.environ.get("FORM"), paddle.batch(samples, 4)
if form == "converted":
    feeder, plain = trainer.feeder(), reader
    reader = lambda: map(feeder, plain())
if form == "files":
    if is_first:
        write_data(0)
    reader = paddle.feed.files("data", ["x"], 4)

passes, start_pass = int(os.environ.get("PASSES", 3)), int(os.environ.get("START_PASS", 0))
trainer.train(reader, num_passes=passes, event_handler=note, start_pass=start_pass)
if os.environ.get("MODE") == "another sgd":
    again = paddle.trainer.SGD(
        cost, paddle.parameters.create(cost), paddle.optimizer.Momentum(learning_rate=1e-6)
    )
    again.train(reader, num_passes=passes)
if os.environ.get("MODE") == "raise" and is_first:
    raise RuntimeError("the model cannot be saved")
if os.environ.get("MODE") == "exit":
    sys.exit(3)
print("saved")
"""


def launch(folder, *flags, **environment):
    (folder / "train.py").write_text(TRAIN)
    return subprocess.run(
        ["paddle", "launch", *flags, "python", "train.py"],
        cwd=folder,
        env={**os.environ, "PATH": processes.PATH, "DIES": "9/9", **environment},
        capture_output=True,
        text=True,
        timeout=processes.DEADLINE_SECONDS,
        check=False,
    )


# What is learnt, what is measured (batch_norm), and what chance decides (dropout).
MODEL = """
import os, pathlib, signal, time
import numpy as np
import paddle.v2 as paddle

paddle.init(seed=1)
x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(2))
word = paddle.layer.data(name="word", type=paddle.data_type.integer_value(10))
y = paddle.layer.data(name="y", type=paddle.data_type.dense_vector(1))
table = paddle.layer.embedding(
    input=word, size=3, param_attr=paddle.attr.Param(sparse_update=True)
)
hidden = paddle.layer.fc(input=[x, table], size=4, act=paddle.activation.Linear())
hidden = paddle.layer.batch_norm(input=hidden, act=paddle.activation.Relu())
hidden = paddle.layer.dropout(input=hidden, dropout_rate=0.5)
cost = paddle.layer.square_error_cost(input=paddle.layer.fc(input=hidden, size=1), label=y)
parameters = paddle.parameters.create(cost)
trainer = paddle.trainer.SGD(
    cost, parameters, paddle.optimizer.Adam(learning_rate=1e-2)
)
faults = os.environ.get("FAULTS", "").split()

def cuts():
    return list(pathlib.Path("checkpoints").glob("cut-*/*.json"))

def strikes(what):
    if what not in faults or pathlib.Path(what.replace("/", "-")).exists():
        return False
    pathlib.Path(what.replace("/", "-")).touch()
    return True

def samples():
    numbers = np.random.RandomState(7)
    for number in range(80):
        at = numbers.rand(2) * 3 + 5
        yield at.tolist(), number % 10, [float(at.sum())]

def act(event):
    if isinstance(event, paddle.event.EndIteration):
        where = f"{event.pass_id}/{event.batch_id}"
        if strikes(f"trainer/{where}"):
            os.kill(os.getpid(), signal.SIGKILL)
        if strikes(f"server/{where}"):
            while not pathlib.Path("server-is-dead").exists():
                time.sleep(0.01)
        if os.environ.get("WAITS") and event.pass_id == 1:
            # A checkpoint comes after a second, two steps after it was announced.
            deadline = time.monotonic() + 0.2
            while not cuts() and time.monotonic() < deadline:
                time.sleep(0.01)
        assert cuts() or not os.environ.get("WAITS") or event.pass_id < 2
    if isinstance(event, paddle.event.EndPass):
        if strikes(f"end/{event.pass_id}"):
            os.kill(os.getpid(), signal.SIGKILL)
        if strikes(f"full/{event.pass_id}"):
            raise OSError(28, "No space left on device")
        with open(f"model-{event.pass_id}.tar", "wb") as file:
            trainer.save_parameter_to_tar(file)

trainer.train(paddle.batch(samples, 4), num_passes=3, event_handler=act)
"""


def start_model(folder, *flags, **environment):
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(MODEL)
    return subprocess.Popen(
        ["paddle", "launch", *flags, "python", "train.py"],
        cwd=folder,
        env={**os.environ, "PATH": processes.PATH, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def models_of(folder, started):
    """The models of all passes, as numbers."""
    said, _ = started.communicate(timeout=processes.DEADLINE_SECONDS)
    assert started.returncode == 0, said
    found = {}
    for number in range(3):
        with open(folder / f"model-{number}.tar", "rb") as file:
            model = parameters.Parameters.from_tar(file)
        found[number] = {name: model.get(name).tobytes() for name in model.names()}
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    found = models_of(folder, start_model(folder, "--pservers", "1"))
    averages = [name for name in found[2] if name.endswith(("w1", "w2")) and "batch_norm" in name]
    assert averages and all(any(found[2][name]) for name in averages)
    return found


@pytest.mark.parametrize(
    "faults",
    ["trainer/0/0", "trainer/1/7 trainer/1/9", "end/0 trainer/2/19", "end/2", "full/1 end/2"],
)
def test_a_trainer_that_dies_changes_no_bit_of_any_model_that_is_saved(
    tmp_path, undisturbed, faults
):
    started = start_model(tmp_path, "--pservers", "1", "--restarts", "3", FAULTS=faults)
    assert models_of(tmp_path, started) == undisturbed


def kill_server(folder):
    """Kills the parameter server of the job whose trainer has asked for it."""
    for process in map(pathlib.Path, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            place = pathlib.Path("/proc") / process
            if not process.name.isdigit() or os.readlink(place / "cwd") != str(folder):
                continue
            command = (place / "cmdline").read_bytes().split(b"\0")
            if len(command) > 1 and command[1] == b"pserver":
                os.kill(int(process.name), signal.SIGKILL)
                return True
    return False


# Back to the first values, and to a checkpoint.
@pytest.mark.parametrize("interval", ["600", "1"])
def test_a_server_that_dies_changes_no_bit_of_any_model_that_is_saved(
    tmp_path, undisturbed, interval
):
    flags = ("--checkpoint_dir", "checkpoints", "--checkpoint_interval", interval)
    fault, asked = "server/2/3", tmp_path / "server-2-3"
    waits = {"WAITS": "1"} if interval == "1" else {}
    started = start_model(
        tmp_path, "--pservers", "1", "--restarts", "3", *flags, FAULTS=fault, **waits
    )
    deadline = time.monotonic() + processes.DEADLINE_SECONDS
    while not asked.exists() and started.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert kill_server(tmp_path.resolve())
    (tmp_path / "server-is-dead").touch()
    assert models_of(tmp_path, started) == undisturbed


def test_moving_averages_that_are_lost_fail_the_job_with_that_reason(tmp_path):
    flags = ("--pservers", "1", "--checkpoint_dir", "checkpoints")
    started = start_model(tmp_path, *flags, FAULTS="trainer/1/7")
    started.communicate(timeout=processes.DEADLINE_SECONDS)
    assert started.returncode == 137
    shutil.rmtree(tmp_path / "checkpoints/trail-0/averages")
    started = start_model(tmp_path, *flags, "--restore")
    said, _ = started.communicate(timeout=processes.DEADLINE_SECONDS)
    assert started.returncode == 1
    assert "goes on after batch 8 of pass 1, but the moving averages" in said
    assert "batch_norm" in said


@pytest.mark.parametrize("seed", [{}, {"SEED": "5"}])
@pytest.mark.parametrize("dies", ["0/2", "1/0", "1/9", "2/5"])
def test_data_that_is_shuffled_comes_in_the_same_order_again(tmp_path, seed, dies):
    ended = launch(tmp_path, "--pservers", "1", "--restarts", "1", DIES=dies, **seed)
    assert ended.returncode == 0, ended.stderr
    seen = collections.Counter((tmp_path / "seen").read_text().splitlines())
    assert seen == {f"{number} {sample}": 1 for number in range(3) for sample in range(40)}


def test_a_job_that_is_restored_goes_on_with_the_order_it_had(tmp_path):
    flags = ("--pservers", "1", "--checkpoint_dir", "checkpoints")
    # Servers that are asked to end write a checkpoint.
    assert launch(tmp_path, *flags, DIES="1/4").returncode == 137
    ended = launch(tmp_path, *flags, "--restore")
    assert ended.returncode == 0, ended.stderr
    seen = collections.Counter((tmp_path / "seen").read_text().splitlines())
    assert seen == {f"{number} {sample}": 1 for number in range(3) for sample in range(40)}


# Batches that were converted ahead, by a V1 provider for example, are announced to the trainer.
@pytest.mark.parametrize("form", ["plain", "converted", "files"])
def test_other_batches_than_before_fail_the_job_with_that_reason(tmp_path, form):
    flags = ("--pservers", "1", "--restarts", "1")
    ended = launch(tmp_path, *flags, DIES="1/2", MODE="another", FORM=form)
    assert ended.returncode == 1
    expected = "goes on behind batch 3 of pass 1, but its batch 0 is not the one that was trained"
    assert expected in ended.stderr


def test_a_program_that_fails_after_its_training_finds_its_servers_again(tmp_path):
    ended = launch(tmp_path, "--pservers", "1", "--restarts", "1", MODE="raise")
    assert ended.returncode == 0, ended.stderr
    assert "the model cannot be saved" in ended.stdout
    assert "trainer-0 | saved" in ended.stdout.splitlines()


def test_a_second_sgd_on_the_same_servers_is_refused(tmp_path):
    ended = launch(tmp_path, "--pservers", "1", MODE="another sgd")
    assert ended.returncode == 1
    assert "has trained on these parameter servers with another SGD" in ended.stderr


def test_a_program_that_ends_badly_after_its_goodbye_is_not_started_again(tmp_path):
    ended = launch(tmp_path, "--pservers", "1", "--restarts", "5", MODE="exit")
    assert ended.returncode == 3
    assert "trainer-0 failed after its training was over" in ended.stderr


@pytest.mark.parametrize("form", ["converted", "files"])
def test_the_same_batches_go_on_where_they_were_converted_ahead(tmp_path, form):
    ended = launch(tmp_path, "--pservers", "1", "--restarts", "1", DIES="1/2", FORM=form)
    assert ended.returncode == 0, ended.stderr
    if form == "converted":
        seen = collections.Counter((tmp_path / "seen").read_text().splitlines())
        assert seen == {f"{number} {sample}": 1 for number in range(3) for sample in range(40)}


def test_start_pass_counts_from_where_the_job_began_and_not_from_its_restore(tmp_path):
    flags = ("--pservers", "1", "--checkpoint_dir", "checkpoints")
    assert launch(tmp_path, *flags, PASSES="2").returncode == 0
    flags = (*flags, "--restore")
    assert launch(tmp_path, *flags, START_PASS="2", PASSES="1").returncode == 0
    # The same job once more, which has died in its second pass.
    ended = launch(tmp_path, *flags, "--restarts", "1", START_PASS="3", PASSES="2", DIES="4/3")
    assert ended.returncode == 0, ended.stderr
    seen = collections.Counter((tmp_path / "seen").read_text().splitlines())
    assert seen == {f"{number} {sample}": 1 for number in range(5) for sample in range(40)}
    (tmp_path / "checkpoints/trail-0/start_pass").unlink()
    ended = launch(tmp_path, *flags, START_PASS="5", PASSES="1")
    assert ended.returncode == 1
    assert "which start_pass the job began with is not in the checkpoint folder" in ended.stderr


def test_the_pass_that_a_job_began_with_is_that_of_trainer_0(tmp_path):
    def first_pass(rank, start_pass, is_resumed):
        settings = types.SimpleNamespace(checkpoint_dir=tmp_path, log_dir=None, trainer_id=rank)
        return trail.first_pass(settings, start_pass, is_resumed)

    assert [first_pass(rank, 0, False) for rank in range(2)] == [0, 0]
    # A later job in the folder has one trainer at first.
    assert first_pass(0, 3, False) == 3
    assert [first_pass(rank, 3, True) for rank in range(2)] == [3, 3]
    (tmp_path / "trail-0/start_pass").unlink()
    assert first_pass(1, 3, True) == 0


def test_all_trainers_of_a_job_draw_the_same_seed(tmp_path):
    v1_programs.write(tmp_path)
    shown = processes.run(
        tmp_path,
        *("paddle", "launch", "--pservers", "1", "--trainers", "2", "--passes", "1", "--"),
        *("paddle", "train", "--config=trainer_config.py", "--seed=0"),
    )
    drawn = re.findall(r"the seed of this training is (\d+)", shown)
    assert len(drawn) == 2
    assert drawn[0] == drawn[1]


def test_a_seed_is_drawn_for_each_job_and_not_for_each_trainer(monkeypatch):
    monkeypatch.setenv("PADDLE_JOB_TOKEN", "one job")
    first = config.draw_seed(num_gradient_servers=2, trainer_id=0)
    assert first == config.draw_seed(num_gradient_servers=2, trainer_id=1)
    monkeypatch.setenv("PADDLE_JOB_TOKEN", "another job")
    assert first != config.draw_seed(num_gradient_servers=2)
    monkeypatch.delenv("PADDLE_JOB_TOKEN")
    with pytest.raises(errors.InvalidError, match="give all of them the same seed other than 0"):
        config.draw_seed(num_gradient_servers=2)
    assert config.draw_seed() < 2**32


def train_passes(settings, passes, batches):
    """What a trainer leaves that is killed in the last of these passes."""
    made = trail.Trail(settings, 0, 0)
    drawn = []
    for number in range(passes):
        made.begin_pass(number)
        drawn.append(random.random())
        for batch in range(batches):
            made.take(number, batch, 7 * number + batch, is_skipped=False)
        if number + 1 < passes:
            made.end_pass(number)
    made.close()
    return drawn


def test_a_trail_goes_on_with_every_call_of_train(tmp_path):
    settings = config.Settings(checkpoint_dir=str(tmp_path))
    made, drawn = trail.Trail(settings, 0, 0), []
    for number in range(3):
        made.open()
        made.begin_pass(number)
        drawn.append(random.random())
        made.take(number, 0, 7 + number, is_skipped=False)
        made.end_pass(number)
        made.close()
    # Servers may go back to a pass of any call.
    for number in (2, 1, 0):
        again = trail.Trail(settings, number, 1)
        again.begin_pass(number)
        assert random.random() == drawn[number]
        again.take(number, 0, 7 + number, is_skipped=True)
        with pytest.raises(errors.InvalidError, match="batch 0 is not the one that was trained"):
            again.take(number, 0, 99, is_skipped=True)
        again.close()


def test_a_trail_that_was_left_within_a_write_is_as_before(tmp_path):
    settings = config.Settings(checkpoint_dir=str(tmp_path))
    drawn = train_passes(settings, 3, 5)
    states = tmp_path / "trail-0/random.jsonl"
    # Killed while it noted another pass, and its successor while it wrote the file anew.
    states.write_text(states.read_text() + '{"pass": 3, "rand')
    (tmp_path / "trail-0/random.jsonl.partial").write_text('{"pa')
    for _ in range(2):
        again = trail.Trail(settings, 2, 4)
        again.begin_pass(2)
        assert random.random() == drawn[2]
        again.take(2, 3, 17, is_skipped=True)
        with pytest.raises(errors.InvalidError, match="batch 1 is not the one that was trained"):
            again.take(2, 1, 99, is_skipped=True)
        again.close()


@pytest.mark.parametrize("damage", ["", "no JSON\n", '{"pass": 9}\n', '{"pass": 0}\n'])
def test_a_trail_that_cannot_be_read_fails_the_job_with_that_reason(tmp_path, damage):
    settings = config.Settings(checkpoint_dir=str(tmp_path))
    train_passes(settings, 2, 5)
    (tmp_path / "trail-0/random.jsonl").write_text(damage)
    again = trail.Trail(settings, 1, 4)
    with pytest.raises(errors.InvalidError, match="what an earlier one has left to check"):
        again.begin_pass(1)


def test_a_trail_that_was_not_written_to_its_end_is_not_believed(tmp_path, caplog):
    settings = config.Settings(checkpoint_dir=str(tmp_path))
    made = trail.Trail(settings, 0, 0)
    made.begin_pass(0)
    made.close()
    made._file = os.open("/dev/full", os.O_WRONLY)
    made.take(0, 0, 1, is_skipped=False)
    assert "may give other batches" in caplog.text
    caplog.clear()
    again = trail.Trail(settings, 0, 3)
    again.begin_pass(0)
    assert "may give other batches" in caplog.text
    again.take(0, 1, 99, is_skipped=True)


def test_states_of_long_ago_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(trail, "STATES_BYTES_MAX", 100_000)
    settings = config.Settings(checkpoint_dir=str(tmp_path))
    drawn = train_passes(settings, 50, 1)
    assert (tmp_path / "trail-0/random.jsonl").stat().st_size < 150_000
    again = trail.Trail(settings, 49, 1)
    again.begin_pass(49)
    assert random.random() == drawn[49]
