"""Times `paddle launch` to the first training step on Kubernetes and on this machine, and counts
what is asked of the API server meanwhile."""

import contextlib
import ctypes
import fcntl
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from harness import HarnessError, at_most, command_output

TITLE = "From paddle launch to the first step, on Kubernetes"
HERE = pathlib.Path(__file__).resolve().parent
PADDLE = str(pathlib.Path(sys.executable).parent / "paddle")
FIRST_STEP = HERE.parent / "launch" / "first_step.py"
IMAGE = "paddlecloud/paddle:v1"
AIM_MS = 15_000
# Accepting a job, a list and a watch of each kind, following three pods, removing everything.
AIM_REQUESTS = 40
AIM_REQUESTS_PER_MINUTE = 3
LIMIT_SECONDS = 600
# Longer than a watch lives, which is 290 s: each is renewed in it.
IDLE_SECONDS = 330
SCRIPTS = HERE.parent.parent / "scripts" / "clusters"
PR_SET_CHILD_SUBREAPER = 36
STOP_SECONDS_MAX = 10


# What the cluster itself takes of two cores: containers are nobody's children that we wait for.
CLUSTER_SHARE = 0.10


def run(bench):
    bench.others_share_max += CLUSTER_SHARE
    with running(bench) as cluster:
        measure(bench, cluster)


def measure(bench, cluster):
    contenders = {"local": functools.partial(train, [])}
    if cluster is not None:
        contenders["kubernetes"] = functools.partial(train, on_cluster(cluster))
    bench.section("To the first step of 2 servers and 2 trainers, ms")
    rounds = bench.alternate(contenders, rounds=5)
    table = bench.table(["place", "launch to program", "whole job"], judged="launch to first step")
    for name in contenders:
        parts = [rounds.figure(name, part) for part in ("launch to program", "whole job")]
        aim = at_most(AIM_MS) if name == "kubernetes" else None
        table.row([name, *parts], rounds.figure(name, "launch to first step"), aim)
    if cluster is not None:
        requests(bench, cluster)


@contextlib.contextmanager
def running(bench):
    """Where a cluster has its files: one that runs, or one for the time of this benchmark."""
    named = os.environ.get("PADDLE_TEST_KUBERNETES")
    if named is not None:
        yield pathlib.Path(named)
        return
    script = ["bash", str(SCRIPTS / "kubernetes.sh")]
    why = None
    if bench.is_smoke:
        why = "no cluster runs, and none is started for the smallest size"
    elif os.geteuid() != 0:
        why = "no cluster runs, and only root can start one"
    elif subprocess.run([*script, "cached"]).returncode != 0:
        why = "its programs are not built: run scripts/clusters/kubernetes.sh build"
    if why is not None:
        bench.leave_out("kubernetes", why)
        yield None
        return
    # The cluster becomes a child of this process, so that what it uses is not that of others.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with turn():
        try:
            variable = tool([*script, "start", "unused"]).strip()
            with tempfile.TemporaryDirectory() as folder:
                archive = str(pathlib.Path(folder, "image.tar"))
                tool([str(HERE.parent.parent / "deploy/image/build.sh"), IMAGE, archive])
                home = pathlib.Path(variable.removeprefix("PADDLE_TEST_KUBERNETES="))
                os.environ["KUBE_HOME"] = str(home)
                tool([str(SCRIPTS / "kubernetes/cluster.sh"), "load", archive])
            yield home
        finally:
            tool([*script, "stop", "unused"])
            # Their times count once they were waited for.
            deadline = time.monotonic() + STOP_SECONDS_MAX
            with contextlib.suppress(ChildProcessError):
                while time.monotonic() < deadline:
                    if os.waitpid(-1, os.WNOHANG)[0] == 0:
                        time.sleep(0.1)


@contextlib.contextmanager
def turn():
    """Waits until no other run, such as scripts/clusters/run.sh, has the machine's one cluster."""
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    with open(cache / "paddlecloud/kubernetes.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def tool(command):
    """What a script prints; its progress goes to our standard error."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise HarnessError(f"{' '.join(pathlib.Path(word).name for word in command)} failed")
    return done.stdout


def on_cluster(cluster, kubeconfig="run/admin.kubeconfig"):
    """The flags that make a job one of pods."""
    config = pathlib.Path(cluster) / kubeconfig
    return ["--backend=kubernetes", f"--image={IMAGE}", f"--kubeconfig={config}"]


def train(place):
    """The parts of one launch in milliseconds; where trainers differ, the slowest counts."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(FIRST_STEP, folder)
        flags = ["--pservers=2", "--trainers=2", "--quiet", *place]
        if place:
            flags.append(f"--volume={folder}:/shared")
        script = f"{sys.executable} first_step.py"
        if place:
            # Where both can see it.
            script = "python3 first_step.py && cp times-*.json /shared"
        start = time.time()
        command_output(
            [PADDLE, "launch", *flags, "--", "sh", "-c", script],
            cwd=pathlib.Path(folder),
            limit_seconds=LIMIT_SECONDS,
        )
        end = time.time()
        times = [json.loads(file.read_text()) for file in pathlib.Path(folder).glob("times-*.json")]
    latest = {name: max(own[name] for own in times) for name in times[0]}
    return {
        "launch to program": 1e3 * (latest["begun"] - start),
        "launch to first step": 1e3 * (latest["first_step"] - start),
        "whole job": 1e3 * (end - start),
    }


def requests(bench, cluster):
    """Counts what passes a proxy between `paddle` and the API server."""
    bench.section("Requests to the API server")
    idle = bench.size(IDLE_SECONDS, smoke=2)
    figures = bench.alternate({"ours": functools.partial(count, cluster, idle)}, rounds=3)
    table = bench.table(["what", "watches among them"], judged="requests")
    whole, watches = figures.figure("ours", "short"), figures.figure("ours", "watches")
    table.row(["a whole short job", watches], whole, at_most(AIM_REQUESTS))
    minute = figures.figure("ours", "minute")
    table.row(["each further minute", ""], minute, at_most(AIM_REQUESTS_PER_MINUTE))


def count(cluster, idle):
    """Requests of a job that ends at once, and how many more a longer one makes."""
    short, watches = proxied(cluster, "true")
    long, _ = proxied(cluster, f"sleep {idle}")
    return {"short": short, "watches": watches, "minute": max(0, long - short) * 60 / idle}


def proxied(cluster, script):
    """How many requests, and watches among them, a job makes."""
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder, "log")
        with log.open("w") as errors:
            proxy = subprocess.Popen(
                [cluster / "bin/kubectl", "proxy", "--port=0", "-v=6"],
                env={**os.environ, "KUBECONFIG": str(cluster / "run/admin.kubeconfig")},
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            try:
                # Starting to serve on 127.0.0.1:41267
                address = proxy.stdout.readline().split()[-1]
                config = pathlib.Path(folder, "kubeconfig")
                config.write_text(kubeconfig(address))
                workspace = pathlib.Path(folder, "work")
                workspace.mkdir()
                place = on_cluster(folder, "kubeconfig")
                flags = ["--pservers=1", "--trainers=2", "--quiet", "--allow_idle", *place]
                command_output(
                    [PADDLE, "launch", *flags, "--", "sh", "-c", script],
                    cwd=workspace,
                    limit_seconds=LIMIT_SECONDS,
                )
            finally:
                proxy.terminate()
                proxy.wait()
        asked = re.findall(r"(?:GET|POST|PATCH|DELETE|PUT) http\S+", log.read_text())
    return len(asked), sum("watch=true" in one for one in asked)


def kubeconfig(address):
    """One that leads to a proxy."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": f"http://{address}"}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "me"}}],
            "users": [{"name": "me", "user": {}}],
            "current-context": "proxy",
        }
    )
