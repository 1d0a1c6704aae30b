"""What a training shows and writes of itself: a line on the terminal, and `metrics.jsonl`."""

import json
import os
import sys
import time
from typing import TextIO

from paddle.v2.config import Settings

DRAW_SECONDS = 0.1
WRITE_SECONDS = 0.5


class Progress:
    """Counts steps and samples of one call of `train`, and shows them."""

    def __init__(self, settings: Settings) -> None:
        self._rank = settings.trainer_id
        self._line: TextIO | None = sys.stderr if settings.show_progress else None
        if self._line is not None and not self._line.isatty():
            self._line = None
        self._file: TextIO | None = None
        if settings.log_dir:
            os.makedirs(settings.log_dir, exist_ok=True)
            path = os.path.join(settings.log_dir, "metrics.jsonl")
            # Trainers that share a directory append whole lines, one write each.
            self._file = open(path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115
        self._step = 0
        self._samples = 0
        self._drawn = self._written = float("-inf")
        self._pending: str | None = None
        self._is_shown = False
        self._since = (time.monotonic(), 0)

    def step(
        self, pass_id: int, batch_id: int, result: tuple[float, int, dict[str, float]]
    ) -> None:
        """A batch is done: its mean cost, its samples, its figures."""
        cost, samples, metrics = result
        self._step += 1
        self._samples += samples
        now = time.monotonic()
        if self._line is not None and now - self._drawn >= DRAW_SECONDS:
            self._drawn = now
            figures = "".join(f"  {name} {value:.4g}" for name, value in metrics.items())
            text = f"pass {pass_id}  batch {batch_id}  cost {cost:.6g}{figures}"
            self._line.write(f"\r\x1b[K{text}  {self._speed(now):.0f} samples/s")
            self._line.flush()
            self._is_shown = True
        if self._file is not None:
            # Made only when due, or when the pass ends: a step may take microseconds.
            self._pending = None
            if now - self._written >= WRITE_SECONDS:
                self._written = now
                self._file.write(self._record(pass_id, batch_id, cost, metrics, now))
                self._since = (now, self._samples)
            else:
                self._pending = self._record(pass_id, batch_id, cost, metrics, now)

    def finish_pass(self) -> None:
        """The last batch of a pass is always written."""
        if self._file is not None and self._pending is not None:
            self._file.write(self._pending)
            self._pending = None

    def clear(self) -> None:
        """Takes the line away, so that others can print."""
        if self._line is not None and self._is_shown:
            self._line.write("\r\x1b[K")
            self._line.flush()
            self._is_shown = False

    def close(self) -> None:
        """The training is over, or failed."""
        self.clear()
        if self._file is not None:
            self.finish_pass()
            self._file.close()
            self._file = None

    def _speed(self, now: float) -> float:
        since, samples = self._since
        return (self._samples - samples) / max(now - since, 1e-9)

    def _record(
        self, pass_id: int, batch_id: int, cost: float, metrics: dict[str, float], now: float
    ) -> str:
        record = {
            "step": self._step,
            "pass": pass_id,
            "batch": batch_id,
            "cost": cost,
            "metrics": metrics,
            "samples": self._samples,
            "samples_per_second": round(self._speed(now), 3),
            "rank": self._rank,
            "time": round(time.time(), 3),
        }
        return json.dumps(record) + "\n"
