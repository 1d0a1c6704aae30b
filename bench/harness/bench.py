"""One benchmark's run: its size, its contenders, and the report that is printed and kept."""

import argparse
import datetime
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from harness import machine
from harness.contender import SCRATCH, environment
from harness.report import Aim, Table, number
from harness.rounds import Contenders, Rounds, alternate

ROUNDS = 7
Size = TypeVar("Size")


class HarnessError(Exception):
    """The benchmark cannot be run, or its results cannot be kept; the message says why."""


class Bench:
    """What a benchmark is given: how large it shall be, and where its tables go."""

    def __init__(self, name: str, title: str, options: argparse.Namespace):
        self.name = name
        self.title = title
        self.options = options
        self.is_smoke: bool = options.smoke
        self.rounds: int = options.rounds or (1 if self.is_smoke else ROUNDS)
        self.scratch = SCRATCH / (f"{name}-smoke" if self.is_smoke else name)
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.lines: list[str] = []
        self.tables: list[Table] = []
        self.others_share = 0.0
        # A benchmark whose own servers count as others may set it higher.
        self.others_share_max = machine.OTHERS_SHARE_MAX

    def size(self, full: Size, smoke: Size) -> Size:
        """The first, or the second when only a sign of life is wanted."""
        return smoke if self.is_smoke else full

    def say(self, text: str = "") -> None:
        """Adds a paragraph, or a line of a table, to the report."""
        self.lines.append(text)
        print(text, flush=True)

    def section(self, title: str) -> None:
        """Begins a part of the report."""
        self.say(f"\n## {title}")

    def table(self, columns: Sequence[str], judged: str = "ratio") -> Table:
        """Begins a table; see `Table.row`."""
        self.say()
        self.tables.append(Table(columns, judged, self.is_smoke, self.say))
        return self.tables[-1]

    def alternate(
        self, contenders: Contenders, rounds: int | None = None, warm_up: int = 1
    ) -> Rounds:
        """Runs contenders in turns, as often as the options say; a smoke run does not warm up."""
        if self.options.rounds or self.is_smoke:
            rounds = self.rounds
        return alternate(contenders, rounds or self.rounds, 0 if self.is_smoke else warm_up)

    def compare(
        self,
        contenders: Mapping[str, Callable[[], float]],
        unit: str,
        base: str,
        aims: Mapping[str, Aim] | None = None,
    ) -> Rounds:
        """Runs contenders that answer one figure, and adds a table of them as shares of one."""
        rounds = self.alternate(contenders)
        table = self.table(["", unit], judged=f"ratio to {base}")
        for name in contenders:
            ratio = None if name == base else rounds.ratio(name, base)
            table.row([name, rounds.figure(name)], ratio, (aims or {}).get(name))
        return rounds

    def large_environment(
        self, name: str, requirements: Sequence[str], python: str = sys.executable
    ) -> pathlib.Path | None:
        """A peer's interpreter; none in a smoke run, which does not install gigabytes."""
        if self.is_smoke:
            self.leave_out(name, "a smoke run installs no large packages")
            return None
        return environment(name, requirements, python)

    def leave_out(self, contender: str, reason: str) -> None:
        """Says that a contender does not take part."""
        self.say(f"\nLeft out: {contender}: {reason}.")

    def run(self, benchmark: Callable[["Bench"], None], command: str) -> None:
        """Runs it, reports, and keeps the report if that was asked for."""
        if self.options.save:
            share = machine.others_share_now()
            if share > machine.OTHERS_SHARE_MAX:
                raise HarnessError(_busy(share, "just now"))
        load, watch = machine.load(), machine.Watch()
        self.say(f"# {self.title}\n")
        kind = ", smallest size" if self.is_smoke else ""
        self.say(
            f"`{command}`{kind}, {datetime.datetime.now(datetime.UTC):%F}, {machine.describe()}. "
            "Medians of rounds in turns; ratios are those of the rounds, the spread from the "
            "lowest to the highest of them."
        )
        benchmark(self)
        if not self.tables:
            raise HarnessError(f"bench/{self.name} printed no table")
        self.others_share = watch.others_share()
        self.say(
            f"\nLoad average {load:.2f} at the start, {machine.load():.2f} at the end; other "
            f"processes used {self.others_share:.0%} of the processors. {self._summary()}"
        )
        if self.options.save:
            self._save()

    def _summary(self) -> str:
        if self.is_smoke:
            return "Aims are not judged at this size."
        aims = sum(table.aims for table in self.tables)
        missed = [text for table in self.tables for text in table.missed]
        return f"Aims met: {aims - len(missed)} of {aims}." + "".join(
            f"\n- missed: {text}" for text in missed
        )

    def _save(self) -> None:
        if self.others_share > self.others_share_max:
            raise HarnessError(_busy(self.others_share, "during the run", self.others_share_max))
        target = SCRATCH.parent / self.name / "RESULTS.md"
        with tempfile.NamedTemporaryFile("w", dir=target.parent, delete=False) as file:
            file.write("\n".join(self.lines) + "\n")
            os.fchmod(file.fileno(), 0o644)
        os.replace(file.name, target)
        print(f"kept in {target.relative_to(SCRATCH.parents[1])}", file=sys.stderr)


def _busy(share: float, when: str, limit: float = machine.OTHERS_SHARE_MAX) -> str:
    return (
        f"results are not kept: other processes used {share:.0%} of the processors {when}, more "
        f"than {limit:.0%} (load average {number(machine.load())}); wait until the machine is "
        "quiet, or run without --save"
    )
