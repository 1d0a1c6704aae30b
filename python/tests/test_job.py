"""`paddle.job`, the choice of parameter servers, and what a trainer writes at its end."""

import contextlib
import json
import os
import socket
import subprocess
import sys

import processes
import pytest

import paddle.v2 as paddle
from paddle import errors, job
from paddle.v2 import config, feeding, naming, progress, servers


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Names, settings and counts as in a new program that nobody launched."""
    naming.reset()
    for name in list(os.environ):
        if name.startswith(("PADDLE_", "OMPI_", "PMI_", "SLURM_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(config, "_current", None)
    monkeypatch.setattr(progress, "_totals", progress.Totals())


@pytest.fixture
def told(monkeypatch):
    """A function that sets variables, as a launcher does."""

    def tell(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(config, "_current", None)

    return tell


def facts():
    return {name: getattr(job, name) for name in job.__all__}


def test_alone_a_program_is_the_only_trainer_of_its_job():
    assert facts() == {
        "name": "", "user": "", "datacenter": "", "rank": 0, "trainers": 1, "is_chief": True,
        "attempt": 0, "passes": None, "output_dir": "output", "log_dir": None, "has_servers": False,
        "has_master": False,
    }  # fmt: skip


def test_a_launcher_tells_by_the_environment(told):
    told(
        PADDLE_JOB_NAME="ctr", PADDLE_CLOUD_USERNAME="wuyi", PADDLE_CLOUD_CURRENT_DATACENTER="dc1",
        PADDLE_INIT_TRAINER_ID="1", PADDLE_INIT_NUM_GRADIENT_SERVERS="3", PADDLE_ATTEMPT="2",
        PADDLE_INIT_NUM_PASSES="7", PADDLE_OUTPUT_DIR="/srv/out", PADDLE_LOG_DIR="/srv/log",
        PADDLE_INIT_PSERVERS="ps0,ps1:7170", PADDLE_MASTER_ENDPOINT="master:8080",
    )  # fmt: skip
    assert facts() == {
        "name": "ctr", "user": "wuyi", "datacenter": "dc1", "rank": 1, "trainers": 3,
        "is_chief": False, "attempt": 2, "passes": 7, "output_dir": "/srv/out",
        "log_dir": "/srv/log", "has_servers": True, "has_master": True,
    }  # fmt: skip


def test_ranks_of_mpi_are_found_without_a_launcher(told):
    told(OMPI_COMM_WORLD_RANK="3", OMPI_COMM_WORLD_SIZE="4")
    assert (job.rank, job.trainers, job.is_chief) == (3, 4, False)


def test_arguments_of_init_win_over_the_environment(told):
    told(PADDLE_INIT_NUM_PASSES="7", PADDLE_OUTPUT_DIR="/srv/out")
    paddle.init(num_passes=2, trainer_id=1, num_gradient_servers=2, output_dir="here")
    assert (job.passes, job.rank, job.trainers, job.output_dir) == (2, 1, 2, "here")
    assert paddle.job is job


def test_what_only_a_launcher_knows_is_no_argument_of_init():
    with pytest.raises(errors.WrongTypeError, match="init has no argument 'attempt'"):
        paddle.init(attempt=1)


def test_a_name_that_is_not_there_is_corrected():
    with pytest.raises(errors.MissingNameError, match="did you mean 'trainers'"):
        job.trainer
    assert not hasattr(job, "world_size")
    assert {"rank", "output_dir"} <= set(dir(job))


def test_importing_the_package_alone_loads_no_layers():
    program = "import sys, paddle; paddle.job; assert 'paddle.v2' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


def trainer(**arguments):
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
    cost = paddle.layer.square_error_cost(input=paddle.layer.fc(input=x, size=1), label=x)
    optimizer = paddle.optimizer.Momentum(learning_rate=1e-3)
    return paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer, **arguments)


def batches(count=3):
    return lambda: iter([[([1.0],), ([2.0],)]] * count)


def test_the_number_of_passes_is_the_jobs_unless_the_program_says_it(told):
    told(PADDLE_INIT_NUM_PASSES="3")
    passes = []

    def remember(event):
        if isinstance(event, paddle.event.EndPass):
            passes.append(event.pass_id)

    trainer().train(batches(), event_handler=remember)
    assert passes == [0, 1, 2]
    naming.reset()
    trainer().train(batches(), num_passes=1, event_handler=remember)
    assert passes == [0, 1, 2, 0]


def test_servers_that_nobody_named_are_refused_at_once():
    with pytest.raises(errors.InvalidError) as caught:
        trainer(is_local=False)
    assert "start the program with `paddle launch`" in str(caught.value)
    assert "PADDLE_INIT_PSERVERS=host:port" in str(caught.value)


def test_a_job_with_servers_whose_addresses_are_missing_is_not_trained_alone(told):
    told(PADDLE_CLUSTER_TRAIN="1")
    with pytest.raises(errors.InvalidError, match="needs their addresses"):
        trainer()


@contextlib.contextmanager
def unserved_address():
    """An address that refuses connections, as long as the context is open."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{holder.getsockname()[1]}"


@pytest.mark.parametrize("variable", config.SERVER_VARIABLES[:2])
@pytest.mark.parametrize("is_local", [None, False])
def test_servers_that_do_not_answer_are_named_with_their_variable(
    told, monkeypatch, variable, is_local
):
    monkeypatch.setattr(servers, "FIRST_CONTACT_SECONDS", 0.2)
    with unserved_address() as address:
        told(**{variable: address})
        with pytest.raises(errors.UnavailableError) as caught:
            trainer(is_local=is_local).train(batches())
    said = str(caught.value)
    assert f"no parameter server answers at {address}, the value of {variable};" in said
    assert "start the program with `paddle launch`" in said


def test_servers_of_arguments_are_trained_on_and_named(monkeypatch):
    monkeypatch.setattr(servers, "FIRST_CONTACT_SECONDS", 0.2)
    with unserved_address() as address:
        with pytest.raises(errors.UnavailableError, match="the value of pserver_spec"):
            trainer(pserver_spec=address).train(batches())
        paddle.init(pservers=address)
        naming.reset()
        with pytest.raises(errors.UnavailableError, match=r"value of paddle.init\(pservers=…\)"):
            trainer().train(batches())


@pytest.mark.parametrize(
    ("variables", "arguments", "connect_seconds"),
    [
        ({}, {}, servers.FIRST_CONTACT_SECONDS),
        # A server may be on its way back, too.
        ({"PADDLE_ATTEMPT": "1"}, {}, servers.TIMEOUT_SECONDS),
        ({"FLAGS_rpc_deadline": "180000"}, {}, 180),
        ({}, {"timeout_seconds": 3}, 3),
    ],
)
def test_the_first_connection_has_a_short_limit_unless_asked_otherwise(
    told, variables, arguments, connect_seconds
):
    told(PADDLE_INIT_PSERVERS="ps0", **variables)
    paddle.init(**arguments)
    chosen = servers.choose_servers(None, None, True)
    assert json.loads(chosen.describe(None))["connect_seconds"] == connect_seconds


def test_training_alone_beside_servers_is_warned_of_with_both_names(told, caplog):
    told(PADDLE_INIT_PSERVERS="ps0:7164")
    trainer(is_local=True).train(batches())
    assert "is_local=True trains in this process" in caplog.text
    assert "PADDLE_INIT_PSERVERS: ps0:7164, at: " in caplog.text


def test_a_job_that_says_it_has_no_servers_is_trained_alone_without_a_word(told, caplog):
    told(PADDLE_INIT_PSERVERS="ps0:7164", PADDLE_CLUSTER_TRAIN="0")
    trainer().train(batches())
    naming.reset()
    trainer(is_local=True).train(batches())
    assert caplog.text == ""


def test_several_trainers_without_servers_are_warned_of(told, caplog):
    told(OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2")
    trainer()
    assert "each trains a model of its own" in caplog.text
    caplog.clear()
    naming.reset()
    trainer(is_local=True)
    assert caplog.text == ""


def read_metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_more_threads_than_cores_are_warned_of_once_on_a_machine(told, caplog):
    cores = len(os.sched_getaffinity(0))
    words = f"trainers have {2 * cores + 2} threads that compute, but {cores} cores"

    def built(rank):
        caplog.clear()
        told(PADDLE_INIT_TRAINER_ID=str(rank), PADDLE_INIT_NUM_GRADIENT_SERVERS="3",
             PADDLE_INIT_TRAINER_COUNT=str(cores + 1), PADDLE_TRAINER_IPS="a,b,b")  # fmt: skip
        naming.reset()
        x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
        feeding.build_network(paddle.topology.Topology(paddle.layer.fc(input=x, size=1)))
        return words in caplog.text

    assert [built(rank) for rank in (0, 1, 2, 1)] == [False, True, False, False]


def test_every_line_of_the_metrics_says_whose_it_is(told, tmp_path):
    told(
        PADDLE_JOB_NAME="ctr", PADDLE_INIT_TRAINER_ID="1", PADDLE_INIT_NUM_GRADIENT_SERVERS="2",
        PADDLE_ATTEMPT="4", PADDLE_LOG_DIR=str(tmp_path),
    )  # fmt: skip
    trainer(is_local=True).train(batches(), num_passes=2)
    lines = read_metrics(tmp_path)
    assert {(line["job"], line["attempt"], line["rank"]) for line in lines} == {("ctr", 4, 1)}
    assert [line["event"] for line in lines[-2:]] == ["step", "end"]
    end = lines[-1]
    assert (end["samples"], end["passes"], end["remote"]) == (12, 2, False)
    # The newest figures stay at hand for whoever reads the last line alone.
    assert {"step", "pass", "batch", "cost", "metrics", "samples_per_second"} <= set(end)


def test_a_restarted_trainer_continues_the_file_and_a_second_training_the_count(told, tmp_path):
    for attempt in ("0", "1"):
        told(PADDLE_LOG_DIR=str(tmp_path), PADDLE_ATTEMPT=attempt)
        naming.reset()
        trainer().train(batches(1))
    ends = [line for line in read_metrics(tmp_path) if line["event"] == "end"]
    assert [(end["attempt"], end["samples"], end["passes"]) for end in ends] == [
        (0, 2, 1),
        (1, 4, 2),
    ]


def test_a_trainer_without_data_says_so_at_its_end(told, tmp_path):
    told(PADDLE_LOG_DIR=str(tmp_path))
    trainer().train(batches(0))
    (end,) = read_metrics(tmp_path)
    assert (end["event"], end["samples"], end["passes"], end["remote"]) == ("end", 0, 1, False)


def test_a_training_that_fails_still_says_how_far_it_came(told, tmp_path):
    told(PADDLE_LOG_DIR=str(tmp_path))
    with pytest.raises(errors.Error):
        trainer().train(lambda: iter([[([1.0],)], [(["one"],)]]))
    end = read_metrics(tmp_path)[-1]
    assert (end["event"], end["samples"], end["passes"]) == ("end", 1, 0)


def test_a_full_disk_ends_the_figures_and_not_the_training(told, tmp_path, caplog):
    told(PADDLE_LOG_DIR=str(tmp_path))
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    caplog.set_level("WARNING", "paddle")
    passes = []
    trainer().train(batches(), num_passes=3, event_handler=passes.append)
    assert sum(isinstance(event, paddle.event.EndPass) for event in passes) == 3
    assert caplog.text.count("figures are not written any more") == 1
    assert "No space left on device" in caplog.text


def test_a_directory_in_the_place_of_the_figures_does_not_end_the_training(told, tmp_path, caplog):
    told(PADDLE_LOG_DIR=str(tmp_path))
    (tmp_path / "metrics.jsonl" / "kept").mkdir(parents=True)
    caplog.set_level("WARNING", "paddle")
    passes = []
    trainer().train(batches(), num_passes=2, event_handler=passes.append)
    assert sum(isinstance(event, paddle.event.EndPass) for event in passes) == 2
    assert "figures are not written: " in caplog.text
    assert "Is a directory" in caplog.text


def test_figures_that_are_no_numbers_are_null():
    record = {"cost": float("nan"), "metrics": {"auc": float("inf"), "error": 0.5}}
    assert progress._without_nan(record) == {"cost": None, "metrics": {"auc": None, "error": 0.5}}


PROGRAM = """
import paddle.v2 as paddle

x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
cost = paddle.layer.square_error_cost(input=paddle.layer.fc(input=x, size=1), label=x)
trainer = paddle.trainer.SGD(
    cost, paddle.parameters.create(cost), paddle.optimizer.Momentum(learning_rate=1e-3)
)
trainer.train(lambda: iter([[([1.0],)]] * 2))
print("passes", paddle.job.passes, "rank", paddle.job.rank, "of", paddle.job.trainers)
"""


def test_a_launched_program_trains_on_the_servers_without_being_told(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    flags = "launch --pservers 1 --trainers 2 --passes 2 --name line".split()
    printed = processes.run(tmp_path, "paddle", *flags, "--", "python", "train.py")
    for rank in range(2):
        assert f"trainer-{rank} | passes 2 rank {rank} of 2" in printed
        end = read_metrics(tmp_path / f"log/trainer-{rank}")[-1]
        assert (end["event"], end["job"], end["rank"]) == ("end", "line", rank)
        assert (end["samples"], end["passes"], end["remote"]) == (4, 2, True)
    printed = (tmp_path / "log/pserver-0.log").read_text()
    assert '{"paddle_farewell":1,"trainers_joined":2,"goodbyes":[]}' in printed.splitlines()


def test_the_figures_of_an_earlier_launch_are_replaced(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    for name in ("first", "second"):
        processes.run(tmp_path, "paddle", "launch", "--name", name, "train.py")
        assert {line["job"] for line in read_metrics(tmp_path / "log/trainer-0")} == {name}


def test_a_launched_trainer_without_data_fails_the_job_by_its_name(tmp_path):
    program = PROGRAM.replace("* 2)", "* (2 if paddle.job.is_chief else 0))")
    assert program != PROGRAM
    (tmp_path / "train.py").write_text(program)
    launch = "paddle launch --pservers 1 --trainers 2"
    printed = processes.run(tmp_path, "sh", "-c", f"{launch} train.py 2>&1; test $? -eq 1")
    assert "trainer-1 got no data: make at least as many files or tasks" in printed
    assert "trainer-0 got no data" not in printed
    processes.run(tmp_path, "sh", "-c", f"{launch} --allow-idle train.py")


def test_restoring_a_finished_job_trains_nothing_and_says_so(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    flags = "--pservers 1 --trainers 2 --passes 2 --checkpoint_dir kept".split()
    processes.run(tmp_path, "paddle", "launch", *flags, "train.py")
    printed = processes.run(tmp_path, "paddle", "launch", *flags, "--restore", "train.py")
    for rank in range(2):
        assert f"trainer-{rank} | " in printed and "nothing left to train: the servers" in printed
        end = read_metrics(tmp_path / f"log/trainer-{rank}")[-1]
        assert (end["samples"], end["passes"], end["resumed"]) == (0, 0, True)


def test_a_master_that_nobody_asked_is_told(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    printed = processes.run(tmp_path, "sh", "-c", "paddle launch --master train.py 2>&1")
    assert "no trainer asked the master for data" in printed
