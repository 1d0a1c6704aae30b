"""`paddle launch`, with the real wheel: a program on this machine, on ssh hosts, under MPI."""

import contextlib
import gzip
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import numpy as np
import processes
import pytest

import recordio
from paddle.v2.parameters import Parameters

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
MODEL = "output/word2vec_pass_00001.tar.gz"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def launch(folder, *arguments, **environment):
    """What `paddle launch` prints in a folder. It must succeed."""
    return processes.run(folder, "paddle", "launch", *arguments, **environment)


def needs(*commands):
    """Skips the test, or in CI fails it, where a command is missing."""
    # sshd is not where users look for commands.
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    for command in commands:
        if shutil.which(command, path=path) is None:
            if os.environ.get("CI") == "true":
                pytest.fail(f"{command} is not installed; .ci/run should have done it")
            pytest.skip(f"{command} is not installed")
    return shutil.which(commands[0], path=path)


@contextlib.contextmanager
def started_hosts(folder, count):
    """Ssh servers on this machine, with keys of their own: `--hosts`, and the ssh configuration."""
    sshd = needs("sshd", "ssh", "ssh-keygen")
    folder.mkdir()
    for name in ("host_key", "user_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    config = folder / "ssh_config"
    config.write_text(
        f"IdentityFile {folder}/user_key\nIdentitiesOnly yes\nStrictHostKeyChecking accept-new\n"
        f"UserKnownHostsFile {folder}/known_hosts\n"
    )
    # Where a server of root keeps its children apart; its packages make it at boot.
    os.makedirs("/run/sshd", exist_ok=True)
    with contextlib.ExitStack() as stack:
        hosts = []
        for _ in range(count):
            port = free_port()
            home = folder / f"home-{port}"
            home.mkdir()
            server = folder / f"sshd_config-{port}"
            server.write_text(
                f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host_key\nUsePAM no\n"
                f"AuthorizedKeysFile {folder}/user_key.pub\nStrictModes no\nPidFile none\n"
                f"PermitRootLogin yes\nSetEnv HOME={home} PATH={processes.PATH}\n"
            )
            process = subprocess.Popen(
                [sshd, "-D", "-e", "-f", str(server)], stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            wait_for(port)
            hosts.append(f"127.0.0.1:{port}")
        yield ",".join(hosts), config


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(port):
    deadline = time.monotonic() + processes.DEADLINE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as peer:
            if peer.recv(4) == b"SSH-":
                return
        time.sleep(0.01)  # polled until the deadline
    raise AssertionError(f"no ssh server at port {port}")


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The word2vec example as a workspace to submit, with a part of the data for each trainer."""
    folder = tmp_path_factory.mktemp("word2vec")
    for name in ("train.py", "prepare.py", "generate.py"):
        shutil.copy(EXAMPLES / "word2vec" / name, folder)
    prepare = "prepare.py --generate --sentences 400 --min_word_freq 5 --split_count 2"
    subprocess.run([sys.executable, *prepare.split()], cwd=folder, check=True)
    return folder


TRAIN = ["python", "train.py", *"--preset test --drop_rate 0 --num_passes 2".split()]


@pytest.fixture(scope="module")
def local_model(package, tmp_path_factory):
    """What two servers and two trainers learn on this machine."""
    folder = tmp_path_factory.mktemp("local") / "job"
    shutil.copytree(package, folder)
    launch(folder, "--pservers", "2", "--trainers", "2", "--", *TRAIN)
    return load(folder / MODEL)


def load(path):
    with gzip.open(path) as file:
        parameters = Parameters.from_tar(file)
    return {name: parameters.get(name) for name in parameters.names()}


def check_same(model, expect):
    assert model.keys() == expect.keys()
    for name, values in expect.items():
        np.testing.assert_array_equal(model[name], values, err_msg=name)


def test_ssh_hosts_learn_what_this_machine_does(package, local_model, tmp_path):
    with started_hosts(tmp_path / "cluster", 2) as (hosts, config):
        flags = ["--hosts", hosts, "--ssh_config", str(config), "--port", "0"]
        folder = tmp_path / "here"
        folder.mkdir()
        launch(folder, *flags, "--job_dispatch_package", str(package), "--", *TRAIN)
        check_same(load(folder / MODEL), local_model)


def test_mpi_ranks_learn_what_this_machine_does(package, local_model, tmp_path):
    needs("mpirun")
    folder = tmp_path / "job"
    shutil.copytree(package, folder)
    (folder / "machines").write_text("127.0.0.1 slots=2\n")
    flags = ["--backend", "mpi", "-n", "2", "--port", "0", "--mpi_port", str(free_port())]
    launch(folder, *flags, "--", *TRAIN, **AS_ROOT)
    check_same(load(folder / MODEL), local_model)


def test_a_run_writes_figures_beside_its_logs(local_model, tmp_path, package):
    folder = tmp_path / "job"
    shutil.copytree(package, folder)
    launch(folder, "--pservers", "1", "--trainers", "2", "--", *TRAIN)
    for rank in range(2):
        lines = (folder / f"log/trainer-{rank}/metrics.jsonl").read_text().splitlines()
        assert json.loads(lines[-1])["pass"] == 1
        assert "Test 1" in (folder / f"log/trainer-{rank}.log").read_text()


DIES_ONCE = """
import os, signal
import paddle.v2 as paddle

paddle.init(seed=1)
x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
cost = paddle.layer.square_error_cost(input=paddle.layer.fc(input=x, size=1), label=x)
trainer = paddle.trainer.SGD(
    cost, paddle.parameters.create(cost), paddle.optimizer.Momentum(learning_rate=1e-3),
    is_local=False,
)
is_victim = os.environ["PADDLE_INIT_TRAINER_ID"] == "1" and os.environ["PADDLE_ATTEMPT"] == "0"
seen = open(f"seen-{os.environ['PADDLE_INIT_TRAINER_ID']}", "a")

def remember(record):
    number = float(record)
    print(int(number), file=seen, flush=True)
    return [number]

def kill_one(event):
    if isinstance(event, paddle.event.EndIteration) and is_victim and event.batch_id == 2:
        os.kill(os.getpid(), signal.SIGKILL)

records = paddle.reader.creator.cloud_reader("data-*", loader=remember)
samples = paddle.reader.map_readers(lambda number: (number,), records)
trainer.train(paddle.batch(samples, 4), event_handler=kill_one)
"""


def test_a_killed_trainer_is_started_again_and_no_task_is_skipped(tmp_path):
    (tmp_path / "train.py").write_text(DIES_ONCE)
    count = 400
    for number in range(4):
        with recordio.writer(tmp_path / f"data-{number}", chunk_bytes=40) as file:
            for record in range(number * count // 4, (number + 1) * count // 4):
                file.write(f"{record:04}".encode())
    launch(
        tmp_path, *"--pservers 2 --trainers 2 --master --restarts 1".split(), "--", "python",
        "train.py",
    )  # fmt: skip
    seen = [
        int(line)
        for rank in range(2)
        for line in (tmp_path / f"seen-{rank}").read_text().splitlines()
    ]
    assert set(seen) == set(range(count))


RESUMES = """
import os, signal
import paddle.v2 as paddle

paddle.init(seed=1)
x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(1))
cost = paddle.layer.square_error_cost(input=paddle.layer.fc(input=x, size=1), label=x)
trainer = paddle.trainer.SGD(
    cost, paddle.parameters.create(cost), paddle.optimizer.Momentum(learning_rate=1e-3),
    is_local=False,
)
is_first = os.environ["PADDLE_ATTEMPT"] == "0"

def samples():
    short = os.environ.get("SHORT") and not is_first
    yield from ([float(number)] for number in range(2 if short else 8))

def note(event):
    if isinstance(event, paddle.event.EndIteration):
        with open("seen", "a") as seen:
            print(event.pass_id, event.batch_id, file=seen)
        if is_first and (event.pass_id, event.batch_id) == (1, 2):
            os.kill(os.getpid(), signal.SIGKILL)

reader = paddle.reader.map_readers(lambda number: (number,), samples)
trainer.train(paddle.batch(reader, 2), num_passes=3, event_handler=note)
"""


def test_a_killed_trainer_goes_on_behind_its_last_batch(tmp_path):
    (tmp_path / "train.py").write_text(RESUMES)
    launch(tmp_path, *"--pservers 2 --trainers 1 --restarts 1 -- python train.py".split())
    expected = [f"{number} {batch}" for number in range(3) for batch in range(4)]
    assert (tmp_path / "seen").read_text().splitlines() == expected


def test_a_reader_that_cannot_be_repeated_fails_the_job_with_that_reason(tmp_path):
    (tmp_path / "train.py").write_text(RESUMES)
    flags = "--pservers 1 --trainers 1 --restarts 1 -- python train.py".split()
    ended = subprocess.run(
        ["paddle", "launch", *flags],
        cwd=tmp_path,
        env={**os.environ, "PATH": processes.PATH, "SHORT": "1"},
        capture_output=True,
        text=True,
        timeout=processes.DEADLINE_SECONDS,
        check=False,
    )
    assert ended.returncode == 1
    assert "goes on behind batch 3 of the pass, but the reader gave only 1" in ended.stderr
