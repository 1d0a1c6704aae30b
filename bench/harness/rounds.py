"""Rounds of contenders in turns, and the statistics of their figures. No printing.

What a machine gives changes from minute to minute, so figures of different minutes are not
compared: in every round each contender runs once, ratios are taken within a round, and the median
of those ratios is what counts. Whoever goes first meets a colder or a quieter machine, so they take
turns in that too.
"""

import dataclasses
import statistics
from collections.abc import Callable, Mapping

# A contender's answer for one round: one figure, or several by name.
Figures = float | Mapping[str, float]
Contenders = Mapping[str, Callable[[], Figures]]
# The name of a contender's figure when it has only one.
ONLY = ""


@dataclasses.dataclass(frozen=True)
class Measured:
    """A median, and between which values the rounds lay."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> "Measured":
        return cls(statistics.median(values), min(values), max(values))


class Rounds:
    """What every contender answered in every round."""

    def __init__(self, answers: dict[str, list[dict[str, float]]]):
        self.answers = answers

    def values(self, name: str, figure: str = ONLY) -> list[float]:
        """A contender's figure, round by round."""
        return [answer[figure] for answer in self.answers[name]]

    def figure(self, name: str, figure: str = ONLY) -> Measured:
        """The median of a contender's figure."""
        return Measured.of(self.values(name, figure))

    def ratio(self, name: str, base: str, figure: str = ONLY, base_figure: str = "") -> Measured:
        """The median of the rounds' ratios of a contender to another one."""
        pairs = zip(
            self.values(name, figure), self.values(base, base_figure or figure), strict=True
        )
        return Measured.of([own / other for own, other in pairs])


def alternate(contenders: Contenders, rounds: int, warm_up: int = 1) -> Rounds:
    """Runs every contender once a round, another one first in each; warm-up rounds do not count."""
    names = list(contenders)
    answers: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(warm_up + rounds):
        for name in in_turn(names, number):
            answer = contenders[name]()
            if number >= warm_up:
                found = dict(answer) if isinstance(answer, Mapping) else {ONLY: float(answer)}
                answers[name].append(found)
    return Rounds(answers)


def in_turn(names: list[str], number: int) -> list[str]:
    """The order of a round: two swap, more of them rotate."""
    start = number % len(names) if names else 0
    return names[start:] + names[:start]
