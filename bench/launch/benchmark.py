"""Times `paddle launch` to the first training step, where the time goes, the launcher alone, and
`paddle jobs`."""

import functools
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from harness import at_most, command_output

TITLE = "From paddle launch to the first training step"
HERE = pathlib.Path(__file__).resolve().parent
PADDLE = str(pathlib.Path(sys.executable).parent / "paddle")
PARTS = ["launch to program", "its imports", "imports to first step", "not imports", "whole job"]
AIM_MS = 2000
JOBS_AIM_MS = 100
LIMIT_SECONDS = 120


def options(parser):
    parser.add_argument(
        "--against", action="append", default=[], metavar="PADDLE", help="another release's command"
    )


def run(bench):
    to_first_step(bench)
    launcher_alone(bench, [PADDLE, *map(os.path.abspath, bench.options.against)])
    list_of_jobs(bench)


def to_first_step(bench):
    bench.section("To the first step, ms")
    sizes = bench.size([(1, 1), (2, 2), (4, 4)], smoke=[(1, 1)])
    jobs = {f"{servers} + {trainers}": (servers, trainers) for servers, trainers in sizes}
    asked = {name: functools.partial(train, *job) for name, job in jobs.items()}
    rounds = bench.alternate(asked, rounds=9)
    table = bench.table(["servers + trainers", *PARTS], judged="launch to first step")
    for name in jobs:
        parts = [rounds.figure(name, part) for part in PARTS]
        table.row([name, *parts], rounds.figure(name, "launch to first step"), at_most(AIM_MS))


def train(servers, trainers):
    """The parts of one launch in milliseconds; where trainers differ, the slowest counts."""
    with tempfile.TemporaryDirectory() as folder:
        flags = [f"--pservers={servers}", f"--trainers={trainers}", "--quiet"]
        program = ["--", sys.executable, str(HERE / "first_step.py")]
        start = time.time()
        command_output(
            [PADDLE, "launch", *flags, *program], cwd=folder, limit_seconds=LIMIT_SECONDS
        )
        end = time.time()
        files = [pathlib.Path(folder, f"times-{rank}.json") for rank in range(trainers)]
        all_times = [json.loads(file.read_text()) for file in files]
    times = {name: max(times[name] for times in all_times) for name in all_times[0]}
    imports = times["imported"] - times["begun"]
    first_step = times["first_step"] - start
    seconds = {
        "launch to program": times["begun"] - start,
        "its imports": imports,
        "imports to first step": times["first_step"] - times["imported"],
        "launch to first step": first_step,
        "not imports": first_step - imports,
        "whole job": end - start,
    }
    return {name: 1e3 * value for name, value in seconds.items()}


def launcher_alone(bench, commands):
    """A shell program that only notes when it began: neither Python nor training is in it."""
    bench.section("The launcher alone, one server and one trainer, ms")
    asked = {command: functools.partial(launch, command) for command in commands}
    rounds = bench.alternate(asked, rounds=30 if len(commands) > 1 else 9)
    figures = ["launch to program", "whole job", "processor time"]
    table = bench.table(["command", *figures], judged="whole job, ratio to ours")
    for command in commands:
        ratio = rounds.ratio(command, PADDLE, "whole job") if command != PADDLE else None
        name = "this build" if command == PADDLE else f"`{command}`"
        table.row([name, *(rounds.figure(command, figure) for figure in figures)], ratio)


def launch(command):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PADDLE_JOBS_DIR": f"{folder}/jobs"}
        words = [command, "launch", "--quiet", "--pservers=1", "--trainers=1", *allowed(command)]
        before, begin = processor_seconds(), time.time_ns()
        note = ["sh", "-c", "date +%s%N > began"]
        command_output([*words, "--", *note], folder, environment, LIMIT_SECONDS)
        end = time.time_ns()
        began = int(pathlib.Path(folder, "began").read_text())
        return {
            "launch to program": (began - begin) / 1e6,
            "whole job": (end - begin) / 1e6,
            "processor time": (processor_seconds() - before) * 1e3,
        }


def list_of_jobs(bench):
    """Detached jobs stay in the list when they have ended."""
    count = bench.size(100, smoke=2)
    bench.section(f"paddle jobs with {count} detached jobs in history, ms")
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PADDLE_JOBS_DIR": f"{folder}/jobs"}
        for number in range(count):
            # Jobs that run at the same time share no log directory.
            workspace = pathlib.Path(folder, str(number))
            workspace.mkdir()
            words = [PADDLE, "launch", "--detach", "--quiet", "--pservers=0", "--", "true"]
            command_output(words, workspace, environment, LIMIT_SECONDS)
        jobs = functools.partial(command_output, cwd=folder, limit_seconds=LIMIT_SECONDS)
        deadline = time.monotonic() + LIMIT_SECONDS
        while [job["state"] for job in listed(jobs, environment)] != ["succeeded"] * count:
            if time.monotonic() > deadline:
                raise RuntimeError("the jobs do not end")

        def once():
            before, begin = processor_seconds(), time.perf_counter()
            jobs([PADDLE, "jobs"], env=environment)
            seconds = time.perf_counter() - begin
            processor = processor_seconds() - before
            return {"paddle jobs": 1e3 * seconds, "processor time": 1e3 * processor}

        rounds = bench.alternate({"jobs": once}, rounds=30)
    table = bench.table(["jobs", "processor time"], judged="paddle jobs")
    figure = functools.partial(rounds.figure, "jobs")
    table.row([str(count), figure("processor time")], figure("paddle jobs"), at_most(JOBS_AIM_MS))


def listed(jobs, environment):
    return json.loads(jobs([PADDLE, "jobs", "-o", "json"], env=environment))


@functools.cache
def allowed(command):
    """The program uses no server, which newer releases want to be told."""
    page = subprocess.run([command, "launch", "--help"], capture_output=True, text=True).stdout
    return ["--allow-idle"] if "--allow-idle" in page else []


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
