"""What a training shows and writes of itself: a line on the terminal, and `metrics.jsonl`.

The file has a line of JSON for some of the steps and one when a call of `train` is over
(`docs/launch.md` lists the fields). It is only ever appended to: a restarted trainer continues it
with another `attempt`.
"""

import contextlib
import dataclasses
import json
import math
import os
import sys
import time
from typing import Any, TextIO

from paddle.v2.config import Settings
from paddle.v2.log import LOGGER

DRAW_SECONDS = 0.1
WRITE_SECONDS = 0.5


@dataclasses.dataclass
class Totals:
    """What this process has trained so far, in all calls of `train`."""

    steps: int = 0
    samples: int = 0
    passes: int = 0
    is_remote: bool = False
    is_resumed: bool = False


_totals = Totals()


class Progress:
    """Counts steps and samples of one call of `train`, and shows them."""

    def __init__(self, settings: Settings, is_remote: bool, is_resumed: bool) -> None:
        self._labels = {
            "job": settings.job_name,
            "attempt": settings.attempt,
            "rank": settings.trainer_id,
        }
        self._totals = _totals
        self._totals.is_remote |= is_remote
        self._totals.is_resumed |= is_resumed
        self._line: TextIO | None = sys.stderr if settings.show_progress else None
        if self._line is not None and not self._line.isatty():
            self._line = None
        self._file: TextIO | None = None
        if settings.log_dir:
            path = os.path.join(settings.log_dir, "metrics.jsonl")
            try:
                os.makedirs(settings.log_dir, exist_ok=True)
                # Trainers that share a directory append whole lines, one write each.
                self._file = open(path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115
            except OSError as error:
                # No reason not to train, as a disk that is full later.
                LOGGER.warning("figures are not written: %s", error)
        self._drawn = self._written = float("-inf")
        self._newest: dict[str, Any] = {}
        self._is_pending = False
        self.has_stepped = False
        self._is_shown = False
        self._since = (time.monotonic(), self._totals.samples)

    def step(
        self, pass_id: int, batch_id: int, result: tuple[float, int, dict[str, float]]
    ) -> None:
        """A batch is done: its mean cost, its samples, its figures."""
        cost, samples, metrics = result
        self.has_stepped = True
        self._totals.steps += 1
        self._totals.samples += samples
        now = time.monotonic()
        if self._line is not None and now - self._drawn >= DRAW_SECONDS:
            self._drawn = now
            figures = "".join(f"  {name} {value:.4g}" for name, value in metrics.items())
            text = f"pass {pass_id}  batch {batch_id}  cost {cost:.6g}{figures}"
            self._line.write(f"\r\x1b[K{text}  {self._speed(now):.0f} samples/s")
            self._line.flush()
            self._is_shown = True
        if self._file is not None:
            self._newest = {
                "step": self._totals.steps,
                "pass": pass_id,
                "batch": batch_id,
                "cost": cost,
                "metrics": metrics,
                "samples": self._totals.samples,
                "samples_per_second": round(self._speed(now), 3),
            }
            # Written only when due, or when the pass ends: a step may take microseconds.
            self._is_pending = now - self._written < WRITE_SECONDS
            if not self._is_pending:
                self._written = now
                self._write("step", self._newest)
                self._since = (now, self._totals.samples)

    def finish_pass(self) -> None:
        """The last batch of a pass is always written."""
        self._totals.passes += 1
        self._flush()

    def clear(self) -> None:
        """Takes the line away, so that others can print."""
        if self._line is not None and self._is_shown:
            self._line.write("\r\x1b[K")
            self._line.flush()
            self._is_shown = False

    def close(self) -> None:
        """The training is over, or failed."""
        self.clear()
        self._flush()
        if self._file is not None:
            totals = {
                "samples": self._totals.samples,
                "passes": self._totals.passes,
                "remote": self._totals.is_remote,
                "resumed": self._totals.is_resumed,
            }
            self._write("end", self._newest | totals)
            self._close_file()

    def _flush(self) -> None:
        if self._is_pending:
            self._is_pending = False
            self._write("step", self._newest)

    def _speed(self, now: float) -> float:
        since, samples = self._since
        return (self._totals.samples - samples) / max(now - since, 1e-9)

    def _write(self, event: str, figures: dict[str, Any]) -> None:
        if self._file is not None:
            record = {"event": event, **self._labels, **figures, "time": round(time.time(), 3)}
            try:
                self._file.write(json.dumps(_without_nan(record), allow_nan=False) + "\n")
            except OSError as error:
                # A full disk is no reason to lose a training that could go on.
                LOGGER.warning("figures are not written any more: %s", error)
                self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            # What could not be written is tried once more, in vain.
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def _without_nan(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are written as null."""
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
