"""Data that a real `paddle master` deals out to real processes that come, go and are killed."""

import contextlib
import gzip
import json
import os
import pathlib
import pickle
import socket
import subprocess
import sys

import processes
import pytest

import paddle.v2 as paddle
import recordio
from paddle import errors
from paddle.v2 import config, master
from paddle.v2.reader import cloud

READING = pathlib.Path(__file__).with_name("reading_process.py")
TASK_RECORDS = 5
TASKS = 12
RECORDS = TASK_RECORDS * TASKS


@pytest.fixture
def dataset(tmp_path):
    """Three files of four chunks of five records."""
    for number in range(3):
        records = [pickle.dumps(number * RECORDS // 3 + record) for record in range(RECORDS // 3)]
        path = str(tmp_path / f"part-{number:05}")
        with recordio.writer(path, chunk_bytes=TASK_RECORDS * len(records[0])) as file:
            for record in records:
                file.write(record)
    return str(tmp_path / "part-*")


class Master:
    """A master that can be killed and started again at the same place."""

    def __init__(self, folder, *arguments):
        self._command = [processes.PADDLE, "master", "--chunk_per_task=1", f"--state_dir={folder}"]
        self._command += arguments
        self.port = 0
        self.start()

    def start(self):
        self.server = processes.Server([*self._command, f"--port={self.port}"], {})
        self.port = self.server.port

    def kill(self):
        self.server.process.kill()
        self.server.process.communicate()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def status(self):
        return json.loads(cloud.connect(self.address).status())


@contextlib.contextmanager
def started_master(folder, *arguments):
    started = Master(folder, *arguments)
    try:
        yield started
    finally:
        started.kill()


class Trainer:
    """A process of `reading_process.py`."""

    def __init__(self, endpoint, rank=0, dataset=None):
        environment = {"PADDLE_MASTER_ENDPOINT": endpoint, "PADDLE_INIT_TRAINER_ID": str(rank)}
        if dataset is not None:
            environment["DATASET"] = dataset
        self.process = subprocess.Popen(
            [sys.executable, str(READING)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        assert self.process.stdout.readline() == "ready\n"

    def ask(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def take(self, what):
        self.ask(what)
        return self.answer()

    def kill(self):
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def started_trainers(count, endpoint, dataset):
    trainers = []
    try:
        trainers += [Trainer(endpoint, rank, dataset) for rank in range(count)]
        yield trainers
    finally:
        for trainer in trainers:
            trainer.kill()


@pytest.fixture
def alone(monkeypatch):
    """This process as a trainer, with nothing in its environment."""
    monkeypatch.setattr(config, "_current", config.read({}, {}))


def test_no_record_is_lost_when_a_trainer_is_killed_and_another_comes_late(tmp_path, dataset):
    with (
        started_master(tmp_path / "state", "--task_timeout=1") as server,
        started_trainers(3, server.address, dataset) as trainers,
    ):
        first = [trainer.take(8) for trainer in trainers]
        # Each has finished one task and is in the midst of another.
        killed = first[2]
        trainers[2].kill()
        late = Trainer(server.address, rank=3, dataset=dataset)
        trainers.append(late)
        others = [trainers[0], trainers[1], late]
        for trainer in others:
            trainer.ask("pass")
        rest = [trainer.answer() for trainer in others]
        assert all(taken[-1] is None for taken in rest)
        seen = [record for taken in first + rest for record in taken if record is not None]
        assert set(seen) == set(range(RECORDS))
        twice = {record for record in seen if seen.count(record) > 1}
        # Perhaps also those of a survivor that could not renew its lease for a second.
        assert twice >= set(killed[TASK_RECORDS:])
        assert server.status()["pass"] == 1


def test_trainers_wait_for_a_master_that_is_killed_and_comes_back(tmp_path, dataset):
    with (
        started_master(tmp_path / "state", f"--dataset={dataset}") as server,
        started_trainers(2, server.address, None) as trainers,
    ):
        seen = [record for trainer in trainers for record in trainer.take(8)]
        server.kill()
        for trainer in trainers:
            trainer.ask("pass")
        server.start()
        for trainer in trainers:
            taken = trainer.answer()
            assert taken.pop() is None
            seen += taken
        # Nobody died but the master, so nothing was done twice.
        assert sorted(seen) == list(range(RECORDS))
        taken = [record for trainer in trainers for record in trainer.take(3)]
        assert len(set(taken)) == 6, "the second pass has begun"


def test_every_pass_has_every_record_and_the_last_one_ends_the_reading(tmp_path, dataset, alone):
    with started_master(tmp_path / "state", "--passes=2", "--shuffle_seed=7") as server:
        reader = paddle.reader.creator.cloud_reader(dataset, server.address)
        passes = [list(reader()) for _ in range(3)]
    assert sorted(passes[0]) == sorted(passes[1]) == list(range(RECORDS))
    assert passes[0] != passes[1] and passes[0] != sorted(passes[0]), "tasks are shuffled"
    assert passes[2] == []


def test_a_trainer_of_a_finished_job_is_told_so_at_once(tmp_path, dataset, alone, caplog):
    caplog.set_level("INFO", logger="paddle")
    said = "nothing left to train: all 2 passes were finished"
    with started_master(tmp_path / "state", "--passes=2", f"--dataset={dataset}") as server:
        reader = paddle.reader.creator.cloud_reader(master_endpoint=server.address)
        assert [len(list(reader())) for _ in range(2)] == [RECORDS, RECORDS]
        assert said not in caplog.text
        server.kill()
        server.start()
        again = paddle.reader.creator.cloud_reader(master_endpoint=server.address)
        assert [list(again()), list(again())] == [[], []]
    assert caplog.text.count(said) == 1


def test_four_trainers_share_one_large_chunk(tmp_path, alone):
    path = str(tmp_path / "part-00000")
    with recordio.writer(path) as file:
        for number in range(1000):
            file.write(pickle.dumps(number))
    command = [processes.PADDLE, "master", "--port=0", f"--dataset={path}"]
    told = {"PADDLE_INIT_NUM_GRADIENT_SERVERS": "4"}
    with processes.started_servers(1, command, told) as (server,):
        status = json.loads(cloud.connect(server.address).status())
        assert status["tasks"] == 32
        reader = paddle.reader.creator.cloud_reader(master_endpoint=server.address)
        assert sorted(reader()) == list(range(1000))


def test_half_a_batch_at_the_end_does_not_keep_a_pass_open(tmp_path, dataset, alone):
    with started_master(tmp_path / "state") as server:
        source = paddle.reader.creator.cloud_reader(dataset, server.address)
        batches = paddle.batch(paddle.reader.buffered(source, 100), 7)
        first = [record for batch in batches() for record in batch]
        # This trainer is alone: what its decorators hold is all that the pass waits for.
        assert sorted(first) == list(range(RECORDS))
        second = [record for batch in batches() for record in batch]
        assert sorted(second) == list(range(RECORDS))


def test_a_pass_that_another_loop_left_open_is_not_waited_for(tmp_path, dataset, alone):
    with started_master(tmp_path / "state") as server:
        other = cloud.connect(server.address)
        other.set_dataset([dataset])
        held = other.next_task(0.0)
        abandoned = paddle.reader.creator.cloud_reader(dataset, server.address)
        batches = paddle.batch(abandoned, RECORDS)
        assert sum(map(len, batches())) == RECORDS - TASK_RECORDS, "the pass is still open"
        x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
        cost = paddle.layer.square_error_cost(input=paddle.layer.fc(input=x, size=1), label=x)
        optimizer = paddle.optimizer.Momentum(learning_rate=1e-3)
        trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
        seen = []
        trainer.train(
            lambda: iter([[([1.0],)]]), event_handler=lambda event: seen.append(type(event))
        )
        assert seen.count(paddle.event.EndIteration) == 1
        assert held.give_back()


def test_a_task_is_finished_when_it_was_consumed_not_when_it_was_read(tmp_path, dataset, alone):
    with started_master(tmp_path / "state") as server:
        source = paddle.reader.creator.cloud_reader(dataset, server.address)
        batches = iter(paddle.batch(source, 2 * TASK_RECORDS)())
        next(batches)
        assert server.status()["done"] == 0, "who got the batch may be killed while it trains"
        next(batches)
        assert server.status()["done"] == 2
        del batches
        assert server.status()["pending"] == 0, "what is not wanted any more is given back"


def test_lines_of_texts_and_of_gzipped_texts_are_records(tmp_path, alone):
    lines = [f"line {number} ü" for number in range(2000)]
    (tmp_path / "a.txt").write_text("\n".join(lines[:1000]), encoding="utf-8")
    with gzip.open(tmp_path / "b.txt.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines[1000:]) + "\n")
    paths = [str(tmp_path / "a.txt"), str(tmp_path / "b.txt.gz")]
    with started_master(tmp_path / "state") as server:
        reader = paddle.reader.creator.cloud_reader(paths, server.address, loader=bytes.decode)
        assert sorted(reader()) == sorted(lines)


def test_a_damaged_file_is_set_aside_and_reported(tmp_path, dataset, alone, caplog):
    damaged = tmp_path / "part-00001"
    content = bytearray(damaged.read_bytes())
    with started_master(tmp_path / "state", f"--dataset={dataset}") as server:
        # After the master has seen it: the first chunk's last byte.
        content[len(content) // 4 - 1] ^= 0xFF
        damaged.write_bytes(content)
        reader = paddle.reader.creator.cloud_reader(master_endpoint=server.address)
        seen = list(reader())
        status = server.status()
    missing = set(range(RECORDS)) - set(seen)
    assert missing == set(range(RECORDS // 3, RECORDS // 3 + TASK_RECORDS))
    assert status["pass"] == 1, "the pass is over all the same"
    assert [task["task"] for task in status["set_aside_tasks"]] == [4]
    assert "part-00001" in caplog.text


def test_a_loader_that_fails_raises_and_the_task_goes_back(tmp_path, dataset, alone):
    def load(_):
        raise ZeroDivisionError("mine")

    with started_master(tmp_path / "state") as server:
        reader = paddle.reader.creator.cloud_reader(dataset, server.address, loader=load)
        with pytest.raises(ZeroDivisionError):
            list(reader())
        assert server.status()["pending"] == 0


class Consumer:
    """Parameter servers that have checkpoints, as a trainer sees them."""

    def __init__(self):
        self.cut = 1
        self.epoch = None

    def rest(self):
        pass

    def next_cut(self):
        return self.cut

    def restored(self):
        return self.epoch


def test_what_was_learnt_after_a_checkpoint_is_read_again_when_servers_go_back_to_it(
    tmp_path, dataset, alone
):
    consumer = Consumer()
    with started_master(tmp_path / "state") as server:
        cloud.set_consumer(consumer)
        try:
            samples = iter(paddle.reader.creator.cloud_reader(dataset, server.address)())
            before = [next(samples) for _ in range(2 * TASK_RECORDS + 1)]
            consumer.cut = 2
            after = [next(samples) for _ in range(2 * TASK_RECORDS)]
            consumer.epoch = (1, 77)
            rest = list(samples)
        finally:
            cloud.set_consumer(None)
    # Two tasks were finished before checkpoint 1; two after it, and the one in hand, come again.
    again = set(before[2 * TASK_RECORDS :] + after)
    assert not set(rest) & set(before[: 2 * TASK_RECORDS])
    assert again <= set(rest)
    assert set(before + after + rest) == set(range(RECORDS))


def test_one_trainer_saves_the_model(tmp_path, dataset, alone):
    with started_master(tmp_path / "state") as server:
        clients = [master.client(server.address) for _ in range(2)]
        assert clients[0].request_save_model("a", 60_000) == 1
        assert clients[1].request_save_model("b", 60_000) == 0
        assert clients[0].request_save_model("a", 60_000) == 1
        assert clients[1].request_save_model("", 60_000) == -1


def test_the_originals_client_reads_records_one_by_one(tmp_path, dataset, alone):
    with started_master(tmp_path / "state") as server:
        client = master.client(server.address, 5)
        client.set_dataset([dataset])
        client.paddle_start_get_records(0)
        records = []
        while (answer := client.next_record())[1] == 0:
            records.append(pickle.loads(answer[0]))
        assert answer == (None, -2)
        assert sorted(records) == list(range(RECORDS))
        client.release()


def test_who_does_not_know_the_token_gets_nothing(tmp_path, dataset, monkeypatch):
    command = [processes.PADDLE, "master", "--port=0", f"--dataset={dataset}"]
    with processes.started_servers(1, command, {"PADDLE_JOB_TOKEN": "secret"}) as (server,):
        monkeypatch.setattr(config, "_current", config.read({"job_token": "guess"}, {}))
        with pytest.raises(errors.UnauthenticatedError):
            paddle.reader.creator.cloud_reader(master_endpoint=server.address)
        monkeypatch.setattr(config, "_current", config.read({"job_token": "secret"}, {}))
        reader = paddle.reader.creator.cloud_reader(master_endpoint=server.address)
        assert sorted(reader()) == list(range(RECORDS))


def test_etcd_is_not_used_and_the_program_is_told(tmp_path, dataset, alone, monkeypatch, caplog):
    with pytest.raises(errors.InvalidError, match="PADDLE_MASTER_ENDPOINT"):
        paddle.reader.creator.cloud_reader(dataset, "http://127.0.0.1:2379")
    with started_master(tmp_path / "state") as server:
        settings = config.read({"master_endpoint": server.address}, {})
        monkeypatch.setattr(config, "_current", settings)
        reader = paddle.reader.creator.cloud_reader(dataset, etcd_endpoints="http://127.0.0.1:2379")
        assert f"the master is at {server.address}" in caplog.text
        assert len(list(reader())) == RECORDS


def test_a_master_that_is_not_there_is_named_with_its_variable(dataset, alone, monkeypatch, caplog):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        settings = config.read({}, {"PADDLE_MASTER_ENDPOINT": address})
        monkeypatch.setattr(config, "_current", settings)
        monkeypatch.setattr(cloud, "SILENT_SECONDS", 0.1)
        monkeypatch.setattr(cloud, "FIRST_CONTACT_SECONDS", 0.5)
        wanted = rf"no master answers at {address} \(PADDLE_MASTER_ENDPOINT.*paddle launch --master"
        with pytest.raises(errors.UnavailableError, match=wanted):
            paddle.reader.creator.cloud_reader(dataset)
        assert f"no master answers at {address}" in caplog.text
        monkeypatch.setattr(config, "_current", config.read({}, {}))
        with pytest.raises(errors.UnavailableError, match=f"no master answers at {address};"):
            paddle.reader.creator.cloud_reader(dataset, address, timeout_sec=0.1)


def test_a_pattern_without_files_is_an_error_that_names_it(tmp_path, alone):
    with (
        started_master(tmp_path / "state") as server,
        pytest.raises(errors.NotFoundError, match="nothing-here"),
    ):
        paddle.reader.creator.cloud_reader(str(tmp_path / "nothing-here-*"), server.address)


def test_a_pass_that_is_taken_up_again_does_not_shorten_the_one_after_it(tmp_path, dataset, alone):
    consumer = Consumer()
    with started_master(tmp_path / "state") as server:
        cloud.set_consumer(consumer)
        try:
            reader = paddle.reader.creator.cloud_reader(dataset, server.address)
            assert len(list(reader())) == RECORDS
            samples = iter(reader())
            first = next(samples)
            # Nothing of the first pass is in the checkpoint that the servers go back to.
            consumer.epoch = (0, 77)
            second = [first, *samples]
        finally:
            cloud.set_consumer(None)
        assert server.status()["pass"] == 2
    # What is left of the task in hand, the first pass once more, and the second.
    assert len(second) == TASK_RECORDS + 2 * RECORDS
