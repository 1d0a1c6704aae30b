"""A receiver of `paddle cluster_train` in a process of its own, with stores and queues, and a toy
training for it: a straight line through points in files."""

import contextlib
import gzip
import os
import re
import signal
import socket
import subprocess
import time

import processes

CONFIG = """
from paddle.trainer_config_helpers import *

cluster_config(
    fs_name=get_config_arg("fs_name", str, "file://"),
    fs_ugi="paddle,sesame-of-the-store",
    work_dir=get_config_arg("work_dir", str, ""),
    has_meta_data=True,
    decompress=get_config_arg("decompress", bool, False),
)
define_py_data_sources2(
    "./train.list", "./test.list", module="toy_provider", obj="process",
    args={"meta": "./train_data_dir/toy/train_meta"},
)
settings(batch_size=4, learning_rate=0.01)
x = data_layer(name="x", size=2)
y = data_layer(name="y", size=1)
outputs(mse_cost(input=fc_layer(input=x, size=1, act=LinearActivation()), label=y))
"""

PROVIDER = """
import gzip
from paddle.trainer.PyDataProvider2 import *

def hook(settings, meta, file_list, is_train, **rest):
    with open(meta) as file:
        settings.scale = float(file.read())
    print("files", "train" if is_train else "test", *sorted(file_list), flush=True)
    settings.input_types = [dense_vector(2), dense_vector(1)]

@provider(init_hook=hook)
def process(settings, file_name):
    with (gzip.open if file_name.endswith(".gz") else open)(file_name, "rt") as file:
        for line in file:
            a, b, y = (settings.scale * float(part) for part in line.split())
            yield [a, b], [y]
"""

HOOK = """
function private_script()
{
  local l_thirdparty_dir=$1
  local l_workspace_dir=$2
  echo "hook $l_thirdparty_dir $l_workspace_dir"
  cp $l_thirdparty_dir/*.py $l_workspace_dir/
}
"""
# Nodes go on when the test says so.
WAITING_HOOK = HOOK.replace("echo", "while ! [ -e /pfs/public/go ]; do sleep 0.1; done; echo")


def free_port():
    """A port on which nobody listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(condition, pause=0.2):
    """Waits until a condition holds."""
    deadline = time.monotonic() + processes.DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(pause)  # polled until the deadline


def write_points(folder, name, count, packed=False):
    """A file of points on a plane."""
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{i % 7} {i % 5} {2 * (i % 7) - 3 * (i % 5)}\n" for i in range(count))
    with (gzip.open if packed else open)(folder / name, "wt", encoding="utf-8") as file:
        file.write(text)


def make_data(folder, files=4, packed=False):
    """The data of a toy training, `folder` being called toy."""
    ending = ".gz" if packed else ""
    for number in range(files):
        write_points(folder / "train", f"part-{number:05d}{ending}", 40, packed)
    write_points(folder / "test", f"part-00000{ending}", 10, packed)
    (folder / "train_meta").write_text("1.0")
    return folder


class Receiver:
    """A server, somebody who is logged in there, and their trainings."""

    def __init__(self, folder, config):
        self.folder = folder
        self.port = free_port()
        self.data = folder / "data"
        self.config = folder / "cloud.yaml"
        self.config.write_text(config)
        self.process = None
        self.start()
        password = (self.data / "admin_password").read_text().strip()
        home = folder / "home"
        (home / ".paddle").mkdir(parents=True)
        (home / ".paddle" / "config").write_text(
            "datacenters:\n- name: local\n  username: admin\n"
            f"  password: {password}\n  endpoint: http://127.0.0.1:{self.port}\n"
        )
        self.home = home
        self.programs = folder / "programs"
        self.programs.mkdir()

    def start(self):
        """Starts it, again if it was killed, and waits until it can be reached."""
        self.log = open(self.folder / "server.log", "ab")  # noqa: SIM115 (closed with the server)
        command = ["paddlecloud", "serve", "-listen", f"127.0.0.1:{self.port}"]
        command += ["-data_dir", str(self.data), "-config", str(self.config)]
        environment = {**os.environ, "PATH": processes.PATH}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment
        )
        assert "listening on" in self.process.stdout.readline(), self.said()

    def kill(self):
        """`kill -9`."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def stop(self):
        """Ends it; jobs that run are killed first."""
        for line in self.run("paddlecloud", "get", "jobs", "-o", "json", check=False)[1:2]:
            for name in set(re.findall(r'"uid": *"([^"]+)"', line)):
                self.run("paddlecloud", "kill", name, check=False)
        self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()
        self.log.close()

    def said(self):
        """The server's log."""
        return (self.folder / "server.log").read_text()

    def run(self, *command, check=True, folder=None, **more):
        """Exit code, standard output and standard error of a command of the user."""
        environment = {**os.environ, "PATH": processes.PATH, "HOME": str(self.home), **more}
        environment.pop("PADDLECLOUD_TOKEN", None)
        ended = subprocess.run(
            command,
            cwd=folder or self.programs,
            env=environment,
            capture_output=True,
            text=True,
            timeout=processes.DEADLINE_SECONDS,
            check=False,
        )
        if check:
            assert ended.returncode == 0, (ended.stdout, ended.stderr, self.said()[-4000:])
        return ended.returncode, ended.stdout, ended.stderr

    def program(self, config=CONFIG, hook=HOOK, **files):
        """Writes a configuration and its `thirdparty`."""
        (self.programs / "conf.py").write_text(config)
        thirdparty = self.programs / "thirdparty"
        thirdparty.mkdir(exist_ok=True)
        for old in thirdparty.iterdir():
            old.unlink()
        (thirdparty / "toy_provider.py").write_text(PROVIDER)
        if hook:
            (thirdparty / "before_hook.sh").write_text(hook)
        for name, text in files.items():
            (thirdparty / name).write_text(text)

    def train(self, work_dir, *flags, nodes=2, name="toy_job", check=True):
        """Hands the training in; the id of the job, or what was refused."""
        code, output, error = self.run(
            "paddle", "cluster_train", "--config", "conf.py", "--job_name", name,
            "--num_nodes", str(nodes), "--num_passes", "1", "--thirdparty", "./thirdparty",
            f"--config_args=work_dir={work_dir}", *flags, check=False,
        )  # fmt: skip
        if not check:
            assert code != 0, output
            return error
        assert code == 0, (output, error, self.said()[-4000:])
        self.printed = output
        return re.search(r"^jobid=(\S+)$", output, re.MULTILINE).group(1)

    def workspaces(self, name):
        """What nodes of a job on this machine have left."""
        found = sorted((self.data / f"files/local/home/admin/jobs/{name}").glob("rank-*"))
        assert found
        return found

    def state(self, job):
        """The state of a job, and why."""
        _, output, _ = self.run("paddle", "cluster_status", job, check=False)
        return re.search(r"state=(\S+)", output).group(1), output

    def wait(self, job, *states):
        """Waits until a job is in one of these states."""
        deadline = time.monotonic() + processes.DEADLINE_SECONDS
        while time.monotonic() < deadline:
            state, output = self.state(job)
            if state in states:
                return output
            assert state not in ("succeeded", "failed", "killed"), (output, self.logs(job))
            time.sleep(0.2)  # polled until the deadline
        raise AssertionError(self.state(job))

    def logs(self, job):
        """What the nodes printed."""
        return self.run("paddle", "cluster_log", job)[1]

    def wait_for_line(self, job, text):
        """Waits until a node has printed something."""
        deadline = time.monotonic() + processes.DEADLINE_SECONDS
        while time.monotonic() < deadline:
            if text in self.logs(job):
                return
            state, output = self.state(job)
            assert state not in ("succeeded", "failed", "killed"), (output, self.logs(job))
            time.sleep(0.2)  # polled until the deadline
        raise AssertionError(self.logs(job))


@contextlib.contextmanager
def running(folder, config):
    """A receiver that is gone afterwards."""
    receiver = Receiver(folder, config)
    try:
        yield receiver
    finally:
        if receiver.process.poll() is None:
            receiver.stop()
