"""Times the launchers of several releases in turn, with a program that only notes when it began.

    python bench/launch/compare.py OLD_PADDLE NEW_PADDLE

A round is one job of one server and one trainer for each. What is measured is the launcher alone:
neither Python nor training is in it, and the load of the machine is the same for all.
"""

import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 30
PROGRAM = ["sh", "-c", "date +%s%N > began"]
FLAGS = ["--quiet", "--pservers=1", "--trainers=1"]


def main():
    commands = [os.path.abspath(command) for command in sys.argv[1:]]
    flags = {command: [*FLAGS, *allowed(command)] for command in commands}
    rounds = {command: [] for command in commands}
    for _ in range(ROUNDS):
        for command in commands:
            rounds[command].append(launch(command, flags[command]))
    print("| command | launch to program | the whole job | processor time |")
    print("|---|--:|--:|--:|")
    for command, figures in rounds.items():
        medians = [statistics.median(column) for column in zip(*figures, strict=True)]
        print(f"| `{command}` | " + " | ".join(f"{median:.1f} ms" for median in medians) + " |")


def launch(command, flags):
    """Milliseconds from the launch to the program, to its own end, and of all processes."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PADDLE_JOBS_DIR": f"{folder}/jobs"}
        before, begin = processor_seconds(), time.time_ns()
        subprocess.run(
            [command, "launch", *flags, "--", *PROGRAM],
            cwd=folder,
            env=environment,
            check=True,
            stderr=subprocess.DEVNULL,
        )
        end = time.time_ns()
        began = int(pathlib.Path(folder, "began").read_text())
        used = processor_seconds() - before
        return (began - begin) / 1e6, (end - begin) / 1e6, used * 1e3


def allowed(command):
    """The program uses no server, which newer releases want to be told."""
    page = subprocess.run([command, "launch", "--help"], capture_output=True, text=True).stdout
    return ["--allow-idle"] if "--allow-idle" in page else []


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
