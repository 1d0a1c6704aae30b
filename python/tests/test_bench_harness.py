"""The harness of the benchmarks: turns, paired ratios, verdicts, and what it refuses to keep."""

import argparse
import os
import pathlib
import subprocess
import sys

import pytest

from harness import Bench, HarnessError, Program, alternate, at_least, at_most, machine, report
from harness import bench as bench_module

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Makes benchmarks whose files are in a temporary folder."""
    monkeypatch.setattr(bench_module, "SCRATCH", tmp_path / "bench" / "scratch")
    (tmp_path / "bench" / "trial").mkdir(parents=True)

    def start(**options):
        given = {"smoke": False, "save": False, "rounds": None} | options
        return Bench("trial", "A trial", argparse.Namespace(**given))

    return start


def one_row(bench):
    bench.compare({"limit": lambda: 10.0, "ours": lambda: 8.0}, "MiB/s", base="limit")


def test_each_contender_goes_first_in_its_turn():
    order = []
    contenders = {name: lambda name=name: order.append(name) or 1.0 for name in "abc"}
    alternate(contenders, rounds=3, warm_up=0)
    assert "".join(order) == "abcbcacab"


def test_ratios_are_paired_within_a_round_and_the_warm_up_does_not_count():
    ours, theirs = iter([9.0, 1.0, 20.0, 300.0]), iter([1.0, 1.0, 10.0, 100.0])
    rounds = alternate({"ours": lambda: next(ours), "theirs": lambda: next(theirs)}, 3)
    ratio = rounds.ratio("ours", "theirs")
    assert (ratio.median, ratio.low, ratio.high) == (2.0, 1.0, 3.0)
    # The ratio of the medians happens to be the same here; that of one contender's is not.
    assert rounds.figure("ours").median == 20.0


def test_a_contender_may_answer_several_figures():
    rounds = alternate({"ours": lambda: {"pull": 4.0, "limit": 2.0}}, 1, warm_up=0)
    assert rounds.ratio("ours", "ours", "pull", "limit").median == 2.0


@pytest.mark.parametrize(
    ("value", "aim", "verdict"),
    [
        (0.7, at_least(0.7), "met"),
        (0.69, at_least(0.7), "**missed**"),
        (1.3, at_most(1.3), "met"),
        (1.31, at_most(1.3), "**missed**"),
        (float("nan"), at_least(0.7), "**missed**"),
        (0.1, None, "–"),
    ],
)
def test_every_row_says_whether_its_aim_is_met(value, aim, verdict):
    lines = []
    table = report.Table(["what"], "ratio", False, lines.append)
    table.row(["ours"], value, aim)
    assert lines[-1].split(" | ")[-1] == f"{verdict} |"
    assert len(table.missed) == (verdict == "**missed**")


def test_a_row_that_does_not_fit_its_table_is_refused():
    table = report.Table(["what", "MiB/s"], "ratio", False, lambda _: None)
    with pytest.raises(ValueError, match="1 cells, its table 2 columns"):
        table.row(["ours"], 1.0)


def test_numbers_keep_three_digits_that_count():
    shown = [report.number(value) for value in (0.01234, 0.25, 3.14159, 42.31, 1234567.8, 12, "x")]
    assert shown == ["0.0123", "0.25", "3.14", "42.3", "1,234,568", "12", "x"]


def test_results_are_kept_with_command_date_and_machine(started, monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "others_share_now", lambda: 0.0)
    monkeypatch.setattr(machine.Watch, "others_share", lambda self: 0.0)
    started(save=True).run(one_row, "python bench/run.py trial")
    kept = (tmp_path / "bench" / "trial" / "RESULTS.md").read_text()
    assert kept.startswith("# A trial\n\n`python bench/run.py trial`, 20")
    assert f"{os.cpu_count()} cores" in kept and "| ours | 8.00 | 0.80 |" in kept
    assert "Load average" in kept


@pytest.mark.parametrize(("before", "during"), [(0.5, 0.0), (0.0, 0.5)])
def test_results_of_a_busy_machine_are_not_kept(started, monkeypatch, tmp_path, before, during):
    monkeypatch.setattr(machine, "others_share_now", lambda: before)
    monkeypatch.setattr(machine.Watch, "others_share", lambda self: during)
    with pytest.raises(HarnessError, match="other processes used 50% of the processors"):
        started(save=True).run(one_row, "python bench/run.py trial")
    assert not (tmp_path / "bench" / "trial" / "RESULTS.md").exists()


def test_a_smoke_run_judges_nothing(started, capsys):
    def run(bench):
        bench.table(["what"]).row(["ours"], 0.1, at_least(0.7))

    started(smoke=True).run(run, "python bench/run.py trial --smoke")
    printed = capsys.readouterr().out
    assert "| 0.10 | – | ≥ 0.70 | not judged |" in printed and "missed" not in printed


def test_a_benchmark_without_a_table_fails(started):
    with pytest.raises(HarnessError, match="printed no table"):
        started().run(lambda bench: bench.say("nothing"), "python bench/run.py trial")


def test_processor_time_of_waited_children_is_ours():
    before = machine._own_seconds()
    subprocess.run([sys.executable, "-c", "sum(range(10_000_000))"], check=True)
    assert machine._own_seconds() > before


def test_a_program_answers_rounds_and_its_failure_is_an_error():
    echo = "import sys\nfor line in sys.stdin: print('{\"figure\": %s}' % line.strip(), flush=True)"
    with Program([sys.executable, "-c", echo]) as program:
        assert [program.round("1")["figure"], program.round("2")["figure"]] == [1, 2]
    with pytest.raises(RuntimeError, match="exit code 3"):
        with Program([sys.executable, "-c", "raise SystemExit(3)"]) as program:
            program.round()


def test_a_program_that_does_not_answer_is_ended():
    silent = "import sys\nfor line in sys.stdin: pass"
    with pytest.raises(RuntimeError, match="did not answer within 0 s"):
        with Program([sys.executable, "-c", silent], limit_seconds=0.1) as program:
            program.round()


def front(*words):
    command = [sys.executable, str(BENCH / "run.py"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_wrong_calls_are_refused_by_name():
    done = front("nothing")
    assert done.returncode == 2 and "no benchmark is named nothing; there are" in done.stderr
    done = front("--smoke", "--save")
    assert done.returncode == 2 and "--save with --smoke" in done.stderr
    done = front("--rounds", "0")
    assert done.returncode == 2 and "--rounds is 0; give at least 1" in done.stderr
