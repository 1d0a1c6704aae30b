"""Aims, and tables that say of every row whether its aim is met. Markdown, printed as it grows."""

import dataclasses
from collections.abc import Callable, Sequence

from harness.rounds import Measured

NOTHING = "–"


@dataclasses.dataclass(frozen=True)
class Aim:
    """A bound of a median."""

    bound: float
    is_least: bool

    def __str__(self) -> str:
        return f"{'≥' if self.is_least else '≤'} {number(self.bound)}"

    def is_met(self, value: float) -> bool:
        """Whether the value keeps to the bound; NaN does not."""
        return value >= self.bound if self.is_least else value <= self.bound


def at_least(bound: float) -> Aim:
    """The median shall not be less."""
    return Aim(bound, is_least=True)


def at_most(bound: float) -> Aim:
    """The median shall not be more."""
    return Aim(bound, is_least=False)


class Table:
    """Rows that end in a judged value, its spread over the rounds, its aim, and met or missed."""

    def __init__(
        self, columns: Sequence[str], judged: str, is_smoke: bool, emit: Callable[[str], None]
    ):
        self.width = len(columns)
        self.is_smoke = is_smoke
        self.emit = emit
        # Text of every aim that was missed, and how many aims there were.
        self.missed: list[str] = []
        self.aims = 0
        emit(_line([*columns, judged, "spread", "aim", "met"]))
        emit("|" + "---|" + "--:|" * (self.width + 1) + "---|---|")

    def row(
        self, cells: Sequence[object], judged: Measured | float | None, aim: Aim | None = None
    ) -> None:
        """Adds a row; a bare number as judged value has no spread, and None says there is none."""
        if len(cells) != self.width:
            raise ValueError(f"a row has {len(cells)} cells, its table {self.width} columns")
        value = judged.median if isinstance(judged, Measured) else judged
        spread = NOTHING
        if isinstance(judged, Measured):
            spread = f"{number(judged.low)}–{number(judged.high)}"
        shown = [cell if isinstance(cell, str) else number(cell) for cell in cells]
        end = [
            NOTHING if value is None else number(value),
            spread,
            *self._verdict(shown, value, aim),
        ]
        self.emit(_line([*shown, *end]))

    def _verdict(self, cells: list[str], value: float | None, aim: Aim | None) -> tuple[str, str]:
        if aim is None or value is None:
            return (str(aim) if aim else NOTHING), NOTHING
        # A tiny size shows that the benchmark works, not how fast anything is.
        if self.is_smoke:
            return str(aim), "not judged"
        self.aims += 1
        if aim.is_met(value):
            return str(aim), "met"
        self.missed.append(f"{', '.join(cells[:1])}: {number(value)}, aim {aim}")
        return str(aim), "**missed**"


def number(value: object) -> str:
    """Three digits that count, or all of the integer part, with commas; integers as they are."""
    if isinstance(value, Measured):
        return number(value.median)
    if not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return (
        f"{value:.1f}"
        if abs(value) >= 20
        else f"{value:.2f}"
        if abs(value) >= 0.1
        else f"{value:.3g}"
    )


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
