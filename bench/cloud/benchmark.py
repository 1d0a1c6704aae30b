"""The cloud: from submit to the first step, lists over a long history, followers, running jobs."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from postgres import Postgres

from harness import Program, at_most, build

TITLE = "The cloud"
HERE = pathlib.Path(__file__).resolve().parent
FIRST_STEP = HERE.parent / "launch" / "first_step.py"
# What a list of the newest hundred costs should not depend on how many there are.
HISTORY, SHORT_HISTORY = 10_000, 100
FOLLOWERS = 200
RUNNING = 1000
NO_JOBS = 0


def run(bench):
    first_step(bench)
    program = build("cloud_load")
    history(bench, program)
    followers(bench, program)
    running_jobs(bench, program)


def first_step(bench):
    """From the command to the end of the first batch, of `submit` and of `paddle launch`."""
    bench.section("From submit to the first step")
    with Cloud() as cloud:
        sizes = bench.size([(1, 1), (2, 2)], smoke=[(1, 1)])
        table = bench.table(["pservers + trainers", "submit, s", "launch, s"], judged="submit, s")
        for pservers, trainers in sizes:
            counts = (pservers, trainers)
            rounds = bench.alternate(
                {
                    "submit": lambda counts=counts: cloud.submit(*counts),
                    "launch": lambda counts=counts: launch(*counts),
                }
            )
            cells = [f"{pservers} + {trainers}", rounds.figure("submit"), rounds.figure("launch")]
            table.row(cells, rounds.figure("submit"), at_most(2.0))


def history(bench, program):
    """`get jobs` as fast as eight connections ask for it."""
    bench.section(f"`get jobs`, the newest 100 of {HISTORY} in history")
    seconds = bench.size(4.0, smoke=0.2)
    size = bench.size(HISTORY, smoke=200)
    columns = ["database", "requests/s", "p50, ms", "p99, ms", f"p99 of {SHORT_HISTORY}, ms"]
    table = bench.table([*columns, "/healthz requests/s"], judged="p99, long to short history")
    for name, database in databases(bench):
        with (
            database as url,
            Load(program, url("long"), size, NO_JOBS) as long,
            Load(program, url("short"), SHORT_HISTORY, NO_JOBS) as short,
        ):
            rounds = bench.alternate(
                {
                    "long": lambda long=long: long.round(f"jobs {seconds}"),
                    "short": lambda short=short: short.round(f"jobs {seconds}"),
                    "health": lambda long=long: long.round(f"health {seconds}"),
                }
            )
        table.row(
            [
                name,
                rounds.figure("long", "requests_per_second"),
                rounds.figure("long", "p50_ms"),
                rounds.figure("long", "p99_ms"),
                rounds.figure("short", "p99_ms"),
                rounds.figure("health", "requests_per_second"),
            ],
            rounds.ratio("long", "short", "p99_ms"),
            at_most(1.5),
        )


def followers(bench, program):
    """`get jobs` at a fixed rate while many follow a log."""
    bench.section(f"`get jobs` while {FOLLOWERS} follow a log that grows")
    seconds = bench.size(8.0, smoke=0.5)
    table = bench.table(
        ["database", "p50 idle, ms", "p50 followed, ms", "p99 idle, ms", "p99 followed, ms"],
        judged="p99, followed to idle",
    )
    size = bench.size(HISTORY, smoke=200)
    for name, database in databases(bench):
        with database as url, Load(program, url("followed"), size, 1) as load:
            rounds = bench.alternate(
                {
                    "idle": lambda load=load: load.round(f"paced 0 {seconds}"),
                    "followed": lambda load=load: load.round(f"paced {FOLLOWERS} {seconds}"),
                }
            )
        cells = [
            rounds.figure(contender, figure)
            for figure in ("p50_ms", "p99_ms")
            for contender in ("idle", "followed")
        ]
        ratio = rounds.ratio("followed", "idle", "p99_ms")
        table.row([name, *cells], ratio, at_most(2.0))


def running_jobs(bench, program):
    """What the server uses of a core while nothing happens to its jobs."""
    running = bench.size(RUNNING, smoke=20)
    bench.section(f"{running} running jobs")
    seconds = bench.size(10.0, smoke=0.5)
    table = bench.table(["database"], judged="of a core")
    for name, database in databases(bench):
        with database as url, Load(program, url("running"), NO_JOBS, running) as load:
            rounds = bench.alternate({"rest": lambda load=load: load.round(f"rest {seconds}")})
        table.row([name], rounds.figure("rest", "core"), at_most(0.1))


def databases(bench):
    """Names, and contexts that make a database's URL of a name."""
    yield "SQLite", contextlib.nullcontext(lambda _: "embedded")
    if Postgres.programs() is None:
        bench.leave_out("Postgres", "it is not installed")
    else:
        yield "Postgres", Postgres()


class Load(Program):
    """A server with jobs, and those who use it."""

    def __init__(self, program, database, ended, running):
        self.folder = tempfile.mkdtemp()
        words = [program, "load", self.folder, database, ended, running]
        super().__init__(words, limit_seconds=600)

    def __exit__(self, *error):
        try:
            super().__exit__(*error)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


class Cloud:
    """An embedded cloud, and somebody who may submit."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        commands = pathlib.Path(sys.executable).parent
        self.paddlecloud = commands / "paddlecloud"
        serve = [self.paddlecloud, "serve", "--listen=127.0.0.1:0"]
        data = self.folder / "cloud"
        self.log = (self.folder / "serve.log").open("wb")
        self.server = subprocess.Popen(
            [*serve, f"--data_dir={data}"], stdout=subprocess.PIPE, stderr=self.log, text=True
        )
        endpoint = self.server.stdout.readline().removeprefix("listening on ").strip()
        if not endpoint:
            raise RuntimeError((self.folder / "serve.log").read_text())
        self.config = self.folder / "config"
        password = (data / "admin_password").read_text().strip()
        own = {"name": "local", "username": "admin", "password": password, "endpoint": endpoint}
        config = {"datacenters": [own], "current-datacenter": "local"}
        # JSON is YAML.
        self.config.write_text(json.dumps(config))
        self.home = data / "files" / "local" / "home" / "admin" / "jobs"
        package = self.folder / "package"
        package.mkdir()
        shutil.copy(FIRST_STEP, package)
        return self

    def submit(self, pservers, trainers):
        command = [self.paddlecloud, "submit", f"--config={self.config}", "--jobname=first-step"]
        sizes = [f"--pservers={pservers}", f"--parallelism={trainers}", "--wait"]
        entry = f"{sys.executable} first_step.py"
        start = time.time()
        done = subprocess.run(
            [*command, *sizes, f"--entry={entry}", self.folder / "package"],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        return latest_step(self.home / "first-step", trainers) - start

    def __exit__(self, *error):
        self.server.terminate()
        self.server.wait(60)
        self.server.stdout.close()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def launch(pservers, trainers):
    """The same program by the launcher, without a service between."""
    paddle = pathlib.Path(sys.executable).parent / "paddle"
    with tempfile.TemporaryDirectory() as folder:
        sizes = [f"--pservers={pservers}", f"--trainers={trainers}", "--quiet"]
        start = time.time()
        command = [paddle, "launch", *sizes, "--", sys.executable, FIRST_STEP]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return latest_step(pathlib.Path(folder), trainers) - start


def latest_step(folder, trainers):
    """When the last trainer had made its first step."""
    files = [folder / f"times-{rank}.json" for rank in range(trainers)]
    return max(json.loads(file.read_text())["first_step"] for file in files)
