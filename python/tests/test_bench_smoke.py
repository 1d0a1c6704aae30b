"""Every benchmark runs at its smallest size, so that none rots; nothing is timed here."""

import pathlib
import re
import subprocess
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
NAMES = sorted(path.parent.name for path in BENCH.glob("*/benchmark.py"))
LIMIT_SECONDS = 600


def test_there_are_benchmarks():
    assert {"ctr", "engine", "recordio"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_benchmark_runs_at_its_smallest_size(name):
    kept = BENCH / name / "RESULTS.md"
    before = kept.read_bytes() if kept.exists() else None
    command = [sys.executable, str(BENCH / "run.py"), name, "--smoke"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    tables = re.findall(r"\|.*\| aim \| met \|\n\|[-:|]+\|\n((?:\|.*\n)+)", done.stdout)
    assert tables, done.stdout
    assert not re.search(r"\| (nan|inf) \|", done.stdout), done.stdout
    # The reason why a contender is missing belongs into the log of the tests.
    print("\n".join(line for line in done.stdout.splitlines() if line.startswith("Left out")))
    assert (kept.read_bytes() if kept.exists() else None) == before


def test_every_benchmark_is_on_the_harness():
    folders = {path.name for path in BENCH.iterdir() if path.is_dir()}
    assert folders - {"harness", "scratch", "__pycache__"} == set(NAMES)
