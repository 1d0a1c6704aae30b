"""Elastic jobs, with the real wheel: trainers that die, join and leave while others train."""

import os
import subprocess
import time

import processes
import pytest

import recordio

PROGRAM = """
import os, pathlib, time
import paddle.v2 as paddle

paddle.init(seed=1)
x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
cost = paddle.layer.square_error_cost(input=paddle.layer.fc(input=x, size=1), label=x)
trainer = paddle.trainer.SGD(
    cost, paddle.parameters.create(cost), paddle.optimizer.Momentum(learning_rate=1e-6),
    is_local=False,
)
rank, what = os.environ["PADDLE_INIT_TRAINER_ID"], os.environ["WHAT"]
seen = open(f"seen-{rank}", "a")

def remember(record):
    number = float(record)
    print(int(number), file=seen, flush=True)
    return [number]

def act(event):
    if what == "end" and rank == "0" and isinstance(event, paddle.event.EndPass):
        if event.pass_id == 1 and paddle.job.attempt == 0:
            os._exit(1)
        pathlib.Path(f"saved-{event.pass_id}").touch()
    if not isinstance(event, paddle.event.EndIteration):
        return
    if what == "die" and rank == "1" and event.batch_id == 2:
        # As a shell says that a program is missing: it is not started again.
        os._exit(127)
    if what == "grow" and rank == "0" and event.batch_id == 2:
        pathlib.Path("going").touch()
        deadline = time.monotonic() + 300
        while not pathlib.Path("seen-2").exists() and time.monotonic() < deadline:
            time.sleep(0.01)

if what == "own":
    records = lambda: iter([[float(number)] for number in range(8)])
else:
    records = paddle.reader.creator.cloud_reader("data-*", loader=remember)
samples = paddle.reader.map_readers(lambda number: (number,), records)
trainer.train(paddle.batch(samples, 4), num_passes=2, event_handler=act)
"""

RECORDS = 400
FLAGS = "--pservers 2 --trainers 2 --master --min_trainers 1 --max_trainers 3".split()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    for number in range(4):
        with recordio.writer(tmp_path / f"data-{number}", chunk_bytes=40) as file:
            for record in range(number * RECORDS // 4, (number + 1) * RECORDS // 4):
                file.write(f"{record:04}".encode())
    return tmp_path


def counts(folder):
    """How often each record was read."""
    seen = [int(line) for file in folder.glob("seen-*") for line in file.read_text().splitlines()]
    return [seen.count(record) for record in range(RECORDS)]


def test_the_others_train_what_a_dead_trainer_had_not_finished(folder):
    processes.run(folder, "paddle", "launch", *FLAGS, "--", "python", "train.py", WHAT="die")
    found = counts(folder)
    assert min(found) >= 2
    # Only what was open at the death was read again.
    assert sum(found) - 2 * RECORDS < RECORDS // 4


def test_the_model_is_saved_by_a_trainer_0_that_died_when_the_last_pass_had_ended(folder):
    processes.run(folder, "paddle", "launch", *FLAGS, "--", "python", "train.py", WHAT="end")
    assert sorted(file.name for file in folder.glob("saved-*")) == ["saved-0", "saved-1"]
    assert counts(folder) == [2] * RECORDS


def test_a_trainer_that_is_added_takes_its_share(folder):
    jobs = {"PADDLE_JOBS_DIR": str(folder / "jobs"), "WHAT": "grow"}

    def run(*command):
        return processes.run(folder, "paddle", *command, **jobs)

    job = run("launch", "--detach", *FLAGS, "--", "python", "train.py").strip()
    deadline = time.monotonic() + processes.DEADLINE_SECONDS
    while not (folder / "going").exists():
        assert time.monotonic() < deadline, run("logs", job)
        time.sleep(0.01)
    assert "from 2 to 3 trainers" in run("scale", job, "--trainers", "3")
    run("attach", job)
    assert (folder / "seen-2").read_text()
    assert min(counts(folder)) >= 2


def test_a_reader_with_a_fixed_part_of_the_data_is_refused(folder):
    ended = subprocess.run(
        ["paddle", "launch", *FLAGS, "--restarts", "1", "--", "python", "train.py"],
        cwd=folder,
        env={**os.environ, "PATH": processes.PATH, "WHAT": "own"},
        capture_output=True,
        text=True,
        timeout=processes.DEADLINE_SECONDS,
        check=False,
    )
    assert ended.returncode == 1
    assert "let the master deal it out, with cloud_reader" in ended.stderr
