"""The client of the cloud against a real server that runs real jobs, and its data sets."""

import hashlib
import json
import os
import pathlib
import pickle
import pty
import re
import signal
import subprocess
import sys
import termios
import urllib.request

import clouds
import pytest

from paddle import cloud, errors
from paddle.cloud.client import Event
from paddle.cloud.dataset import common, uci_housing

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home directory with the configuration of a cloud of its own."""
    with clouds.serving(tmp_path, "dc"):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("PADDLECLOUD_TOKEN", raising=False)
        yield tmp_path


def package(home, script):
    """The directory of a program that is a shell script."""
    folder = home / "package"
    folder.mkdir(exist_ok=True)
    (folder / "run.sh").write_text(script)
    return folder


def test_a_job_is_submitted_followed_and_waited_for(home):
    client = cloud.Client()
    job = client.submit(
        package(home, "echo hello $NAME\n"), name="hello", entry="sh run.sh", env={"NAME": "you"}
    )
    assert (job.name, job.user, job.trainers) == ("hello", "admin", 1)
    text = "".join(piece.text for piece in client.logs("hello", role="trainer", follow=True))
    assert text.endswith("hello you\n")
    detail = client.wait("hello", timeout=60)
    assert (detail.state, detail.exit_code, detail.has_ended) == ("succeeded", 0, True)
    assert {worker.role for worker in detail.workers} == {"trainer", "pserver"}
    assert detail.package["files"] == 1
    last = list(client.logs("hello", lines=1, worker="trainer-0"))
    assert "".join(piece.text for piece in last) == "hello you\n"
    assert [job.uid for job in client.jobs()] == [detail.uid]
    assert client.events("hello")[0].number == 1
    again = client.resubmit("hello", new_name="again")
    assert client.wait(again.uid).package == detail.package


def test_a_package_in_the_cloud_has_the_configurations_name_of_the_datacenter(home):
    client = cloud.Client()
    assert client.datacenter == "local"
    client.submit(package(home, "echo first\n"), name="first", entry="sh run.sh")
    client.wait("first", timeout=60)
    there = client.submit(
        "/pfs/dc/home/admin/jobs/first", name="there", entry="sh run.sh", min_instance=1
    )
    detail = client.wait(there.uid, timeout=60)
    assert (detail.state, detail.package) == ("succeeded", None)
    assert detail.spec["package"] == "/pfs/local/home/admin/jobs/first"


def test_failures_are_exceptions_and_reasons(home):
    client = cloud.Client(datacenter="dc")
    folder = package(home, "exit 3\n")
    client.submit(folder, name="broken", entry="sh run.sh")
    assert client.wait("broken").state == "failed"
    assert "3" in str(client.why("broken"))
    for call in (client.job, client.why, client.kill):
        with pytest.raises(errors.NotFoundError, match="no such job"):
            call("nothing")
    with pytest.raises(errors.NotFoundError):
        list(client.logs("nothing", follow=True))
    with pytest.raises(errors.InvalidError, match="job name"):
        client.submit(folder, name="a_b", entry="sh run.sh")
    with pytest.raises(errors.NotFoundError, match="no such directory"):
        client.submit(home / "nowhere", name="x", entry="sh run.sh")
    with pytest.raises(errors.InvalidError, match="faulttolerant"):
        client.submit(folder, name="x", entry="sh run.sh", max_instance=3)
    with pytest.raises(errors.InvalidError, match="datacenters"):
        cloud.Client(config=home / "package" / "run.sh")
    with pytest.raises(errors.NotFoundError, match="no such datacenter"):
        cloud.Client("other")


def test_a_job_is_killed(home):
    client = cloud.Client()
    client.submit(package(home, "echo begun\nsleep 100\n"), name="long", entry="sh run.sh")
    for piece in client.logs("long", role="trainer", follow=True):
        if "begun\n" in piece.text:
            break
    with pytest.raises(errors.ConflictError):
        client.submit(package(home, "true\n"), name="long", entry="sh run.sh")
    with pytest.raises(errors.DeadlineError):
        client.wait("long", timeout=0.1)
    assert client.kill("long").state in ("killing", "killed")
    assert client.wait("long").state == "killed"


def test_a_wait_ends_by_ctrl_c(home):
    client = cloud.Client()
    client.submit(package(home, "sleep 100\n"), name="long", entry="sh run.sh")
    program = (
        "import os, signal, threading\n"
        "from paddle import cloud\n"
        "client = cloud.Client()\n"
        "client.job('long')\n"
        # A shell's background jobs ignore it, and so would their children.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    client.wait('long')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "interrupted\n", done.stderr
    client.kill("long", force=True)
    client.wait("long")


@pytest.fixture
def public(tmp_path, monkeypatch):
    """The public folder of a datacenter."""
    monkeypatch.setattr(common, "data_home", lambda: str(tmp_path))
    return tmp_path


def test_a_public_data_set_is_shared_out_to_trainers(public, monkeypatch):
    folder = public / "uci_housing"
    folder.mkdir()
    for number in range(4):
        (folder / f"train-{number:05}.pickle").write_bytes(pickle.dumps([number, number + 10]))
    (folder / "test-00000.pickle").write_bytes(pickle.dumps([7]))
    assert list(uci_housing.train()()) == [0, 10, 1, 11, 2, 12, 3, 13]
    monkeypatch.setenv("PADDLE_INIT_NUM_GRADIENT_SERVERS", "2")
    monkeypatch.setenv("PADDLE_INIT_TRAINER_ID", "1")
    assert list(uci_housing.train()()) == [1, 11, 3, 13]
    assert list(uci_housing.test()()) == [7]


def test_the_reader_of_the_documents_reads_a_public_data_set(public, monkeypatch):
    folder = public / "uci_housing"
    folder.mkdir()
    for number in range(4):
        (folder / f"train-{number:05}.pickle").write_bytes(pickle.dumps([number]))
    monkeypatch.setenv("PADDLE_INIT_NUM_GRADIENT_SERVERS", "2")
    monkeypatch.setenv("PADDLE_INIT_TRAINER_ID", "1")
    # As it is written there, but for the case of a name.
    train_files_pattern = os.path.join(common.DATA_HOME, "uci_housing/train-*.pickle")

    def train():
        return common.cluster_files_reader(
            train_files_pattern,
            trainer_count=int(os.getenv("PADDLE_INIT_NUM_GRADIENT_SERVERS", "1")),
            trainer_id=int(os.getenv("PADDLE_INIT_TRAINER_ID", "0")),
        )

    assert list(train()()) == [1, 3]
    with pytest.raises(AttributeError, match="NOTHING"):
        common.NOTHING


def test_a_data_set_is_written_as_its_reader_wants_it(public, monkeypatch):
    samples = [(number, number) for number in range(1200)]
    monkeypatch.setattr("paddle.v2.dataset.uci_housing.train", lambda: lambda: iter(samples))
    monkeypatch.setattr("paddle.v2.dataset.uci_housing.test", lambda: lambda: iter(samples[:3]))
    uci_housing.fetch()
    names = sorted(os.listdir(public / "uci_housing"))
    train = [f"train-{number:05}.pickle" for number in range(3)]
    assert names == ["test-00000.pickle", *train]
    assert list(uci_housing.train()()) == samples
    with pytest.raises(errors.NotFoundError, match="no such data set"):
        common.write("nothing", str(public))


READING = """
import glob, os, pickle
from paddle.cloud.dataset import uci_housing
count, rank = (
    int(os.environ[f"PADDLE_INIT_{name}"]) for name in ("NUM_GRADIENT_SERVERS", "TRAINER_ID")
)
folder = f"/pfs/{os.environ['PADDLE_CLOUD_CURRENT_DATACENTER']}/public/dataset/uci_housing"
samples = []
for number, path in enumerate(sorted(glob.glob(f"{folder}/train-*.pickle"))):
    if number % count == rank:
        with open(path, "rb") as file:
            samples += pickle.load(file)
read = list(uci_housing.train()())
assert [(list(x), list(y)) for x, y in read] == [(list(x), list(y)) for x, y in samples]
print("samples", len(read), "of tests", len(list(uci_housing.test()())))
"""


def test_a_data_set_is_put_and_read_by_the_trainers_of_a_job(home, monkeypatch):
    """Python is the one beside the command, whatever PATH has."""
    cache = home / ".cache" / "paddle" / "dataset" / "uci_housing"
    cache.mkdir(parents=True)
    text = "".join(" ".join(str(row + place) for place in range(14)) + "\n" for row in range(900))
    (cache / "housing.data").write_text(text)
    checksum = hashlib.md5(text.encode()).hexdigest()
    (home / "sitecustomize.py").write_text(
        f"from paddle.v2.dataset import uci_housing\nuci_housing.MD5 = {checksum!r}\n"
    )
    wrong = home / "wrong"
    wrong.mkdir()
    for name in ("python", "python3"):
        (wrong / name).write_text("#!/bin/sh\nexit 7\n")
        (wrong / name).chmod(0o755)
    put = subprocess.run(
        [clouds.PADDLECLOUD, "dataset", "put", "uci_housing"],
        env={**os.environ, "PYTHONPATH": str(home), "PATH": f"{wrong}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert put.returncode == 0, put.stderr
    assert put.stdout.endswith("\n/pfs/local/public/dataset/uci_housing: 3 files\n")
    folder = package(home, "")
    (folder / "read.py").write_text(READING)
    client = cloud.Client()
    client.submit(folder, name="reader", entry="python read.py", parallelism=2, pservers=0)
    assert client.wait("reader", timeout=120).state == "succeeded", client.why("reader")
    for worker, expected in (("trainer-0", 500), ("trainer-1", 220)):
        last = "".join(piece.text for piece in client.logs("reader", lines=1, worker=worker))
        assert last == f"samples {expected} of tests 180\n"


def test_ctrl_c_at_a_password_leaves_a_terminal_that_shows_what_is_typed(home):
    ours, theirs = pty.openpty()
    with (
        open(ours, "r+b", buffering=0) as terminal,
        open(theirs, "r+b", buffering=0) as there,
        subprocess.Popen(
            [clouds.PADDLECLOUD, "user", "add", "wu"],
            stdin=there,
            stderr=there,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process,
    ):
        shown = b""
        while not shown.endswith(b": "):
            shown += terminal.read(1)
        while termios.tcgetattr(theirs)[3] & termios.ECHO:
            pass
        terminal.write(b"secret\x03")
        assert process.wait(60) == -signal.SIGINT
        assert termios.tcgetattr(theirs)[3] & termios.ECHO
        assert b"secret" not in shown


def test_an_answer_that_lacks_something_is_an_error_that_names_it():
    with pytest.raises(errors.UnsupportedError, match="the answer has no `number`"):
        Event._of({"at_ms": 1, "text": "submitted", "colour": "red"})


def test_outside_of_the_cloud_there_is_no_public_data_set(monkeypatch):
    monkeypatch.delenv("PADDLE_CLOUD_CURRENT_DATACENTER", raising=False)
    with pytest.raises(errors.NotFoundError, match="PADDLE_CLOUD_CURRENT_DATACENTER"):
        uci_housing.train()


def test_the_api_answers_as_its_description_says(home):
    """Schemathesis sends what the description allows, and what it forbids."""
    client = cloud.Client()
    client.submit(package(home, "echo hello\n"), name="known", entry="sh run.sh")
    client.wait("known", timeout=60)
    config = (home / ".paddle" / "config").read_text()
    endpoint, password = (
        re.search(rf"{key}: (\S+)", config)[1] for key in ("endpoint", "password")
    )
    request = urllib.request.Request(
        f"{endpoint}/api/v2/login",
        json.dumps({"username": "admin", "password": password}).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        token = json.load(answer)["token"]
    # What exists, so that calls get past the first check. The user is not the one who asks: a
    # change of password would revoke the token.
    subprocess.run(
        [clouds.PADDLECLOUD, "user", "add", "probe", "-generate"], check=True, capture_output=True
    )
    settings = home / "schemathesis.toml"
    settings.write_text(
        '[parameters]\n"path.datacenter" = "local"\n"path.job" = "known"\n"path.user" = "probe"\n'
        # These answers have no end.
        '"query.watch" = false\n"query.follow" = false\n'
    )
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(settings), "run"),
            *(f"{endpoint}/api/v2/openapi.json", "--header", f"Authorization: Token {token}"),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", "5", "--seed", "1"),
            # Logging out would be the end of it; names have rules that a schema cannot say, and
            # the original's clients send bodies that are empty.
            *("--exclude-path", "/api/v2/logout"),
            *("--exclude-checks", "positive_data_acceptance,negative_data_rejection"),
            *("--generation-database", "none", "--request-timeout", "60", "--no-color"),
        ],
        cwd=home,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]


# The commands of the documents as they are written there, with a name and a user.
PACKAGE = "/pfs/datacenter1/home/wuyi@example.com/ctr_demo_package"
SUBMIT = [
    *("submit", "-jobname", "my-paddlecloud-job", "-cpu", "1", "-gpu", "0", "-memory", "1Gi"),
    *("-parallelism", "10", "-pscpu", "1", "-pservers", "3", "-psmemory", "1Gi"),
]
SUBMIT_V1 = [*SUBMIT, "-entry", "python trainer_config.py", PACKAGE]
SUBMIT_V2 = [*SUBMIT, "-passes", "1", "-entry", "python trainer_config.py", PACKAGE]
# A program that takes its settings from itself.
TRAINER_CONFIG = """import runpy, sys
sys.argv = ["train.py", "--preset", "test", *{arguments}]
runpy.run_path("train.py", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("example", "prepare", "arguments", "submit", "prints"),
    [
        (
            "word2vec",
            "prepare.py --generate --sentences 300 --split_count 10",
            [],
            SUBMIT_V1,
            "Test",
        ),
        ("ctr", "generate.py criteo --rows 2000", ["--batch_size", "20"], SUBMIT_V2, "TEST -->"),
    ],
)
def test_the_submit_commands_of_the_documents(home, example, prepare, arguments, submit, prints):
    def run(*words, text=None, code=0):
        ended = subprocess.run(
            [clouds.PADDLECLOUD, *words],
            cwd=home,
            input=text,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout

    run("user", "add", "wuyi@example.com", text="a password\n")
    config = home / ".paddle" / "config"
    endpoint = re.search(r"endpoint: (\S+)", config.read_text())[1]
    config.write_text(
        "datacenters:\n- name: datacenter1\n  username: wuyi@example.com\n"
        f"  password: a password\n  endpoint: {endpoint}\ncurrent-datacenter: datacenter1\n"
    )
    folder = home / "ctr_demo_package"
    folder.mkdir()
    for file in (EXAMPLES / example).glob("*.py"):
        (folder / file.name).write_text(file.read_text())
    subprocess.run([sys.executable, *prepare.split()], cwd=folder, check=True)
    (folder / "trainer_config.py").write_text(TRAINER_CONFIG.format(arguments=arguments))
    run("file", "put", "ctr_demo_package", "/pfs/datacenter1/home/wuyi@example.com/")
    run(*submit)
    run("wait", "my-paddlecloud-job", "-timeout", "280s")
    header, row = run("get", "jobs").splitlines()
    assert header.split()[:7] == "NUM NAME SUCC FAIL START COMP ACTIVE".split()
    assert row.split()[:4] == ["0", "my-paddlecloud-job", "10", "0"]
    header, *rows = run("get", "workers", "my-paddlecloud-job").splitlines()
    assert header.split()[:3] == ["NAME", "STATUS", "START"]
    assert len(rows) == 13
    log = run("logs", "-w", "my-paddlecloud-job-trainer-3", "-all", "my-paddlecloud-job")
    home_there = "/pfs/local/home/wuyi@example.com"
    for line in (
        "label selector: paddle-job-pserver=my-paddlecloud-job, desired: 3\nrunning pod list:  [('",
        "label selector: paddle-job=my-paddlecloud-job, desired: 10\nrunning pod list:  [('",
        f"Starting training job:  {home_there}/ctr_demo_package, num_gradient_servers: 10, "
        "trainer_id:  3, version:  v2\n",
        prints,
    ):
        assert line in log
    run("submit", "-jobname", "endless", "-entry", "sleep 1000", PACKAGE)
    run("kill", "-wait", "endless")
    assert "Killed" in run("get", "jobs").splitlines()[1]
