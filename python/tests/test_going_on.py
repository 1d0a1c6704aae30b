"""Trainers that are started again: the same batches, and servers that are still there."""

import collections
import os
import subprocess

import processes
import pytest

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
            os.kill(os.getpid(), signal.SIGKILL)

trainer.train(paddle.batch(samples, 4), num_passes=3, event_handler=note)
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


def test_other_batches_than_before_fail_the_job_with_that_reason(tmp_path):
    ended = launch(tmp_path, "--pservers", "1", "--restarts", "1", DIES="1/2", MODE="another")
    assert ended.returncode == 1
    expected = "goes on behind batch 3 of pass 1, but its batch 0 is not the one that was trained"
    assert expected in ended.stderr


def test_a_program_that_fails_after_its_training_finds_its_servers_again(tmp_path):
    ended = launch(tmp_path, "--pservers", "1", "--restarts", "1", MODE="raise")
    assert ended.returncode == 0, ended.stderr
    assert "the model cannot be saved" in ended.stdout
    assert "trainer-0 | saved" in ended.stdout.splitlines()


def test_a_program_that_ends_badly_after_its_goodbye_is_not_started_again(tmp_path):
    ended = launch(tmp_path, "--pservers", "1", "--restarts", "5", MODE="exit")
    assert ended.returncode == 3
    assert "trainer-0 failed after its training was over" in ended.stderr
