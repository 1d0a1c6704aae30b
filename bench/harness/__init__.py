"""What all benchmarks share: how contenders are run, compared, judged and reported.

README.md beside it says how to write a benchmark. It needs Python's standard library only.
"""

from harness.bench import Bench, HarnessError
from harness.contender import Program, build, command_output, environment, figures_of
from harness.report import Aim, at_least, at_most, number
from harness.rounds import Measured, Rounds, alternate

__all__ = [
    "Aim",
    "Bench",
    "HarnessError",
    "Measured",
    "Program",
    "Rounds",
    "alternate",
    "at_least",
    "at_most",
    "build",
    "command_output",
    "environment",
    "figures_of",
    "number",
]
