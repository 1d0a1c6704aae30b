"""Times `paddle launch` to the first training step, and prints where the time goes."""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SIZES = [(1, 1), (2, 2), (4, 4)]
COLUMNS = [
    "launch to program",
    "its imports",
    "imports to first step",
    "launch to first step",
    "of that, not imports",
    "the whole job",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paddle", help="the command to measure")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    print("| " + " | ".join(["pservers", "trainers", *COLUMNS]) + " |")
    print("|" + "--:|" * (2 + len(COLUMNS)))
    for pservers, trainers in SIZES:
        # The first round warms the cache and is not counted.
        counts = range(arguments.rounds + 1)
        rounds = [measure(arguments.paddle, pservers, trainers) for _ in counts]
        columns = zip(*rounds[1:], strict=True)
        cells = " | ".join(f"{statistics.median(column) * 1000:.0f} ms" for column in columns)
        print(f"| {pservers} | {trainers} | {cells} |", flush=True)


def measure(paddle, pservers, trainers):
    """The parts of one launch, in seconds; where trainers differ, the slowest counts."""
    with tempfile.TemporaryDirectory() as folder:
        command = [paddle, "launch", f"--pservers={pservers}", f"--trainers={trainers}", "--quiet"]
        program = ["--", sys.executable, HERE / "first_step.py"]
        start = time.time()
        subprocess.run(command + program, cwd=folder, check=True)
        end = time.time()
        files = [pathlib.Path(folder, f"times-{rank}.json") for rank in range(trainers)]
        all_times = [json.loads(file.read_text()) for file in files]
    times = {name: max(times[name] for times in all_times) for name in all_times[0]}
    imports = times["imported"] - times["begun"]
    first_step = times["first_step"] - start
    return (
        times["begun"] - start,
        imports,
        times["first_step"] - times["imported"],
        first_step,
        first_step - imports,
        end - start,
    )


if __name__ == "__main__":
    main()
