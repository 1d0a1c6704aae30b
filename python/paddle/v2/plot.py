"""Curves of a training: `Ploter("train cost", "test cost")`.

Needs matplotlib, and IPython to show curves in a notebook; neither is loaded before something is
plotted. With `DISABLE_PLOT=True` in the environment nothing is plotted at all, so that a program
made for a notebook runs on a cluster.
"""

import functools
import os
import warnings
from typing import Any

from paddle.v2 import mistake

__all__ = ["Ploter"]


class Ploter:
    """Curves by their titles."""

    def __init__(self, *titles: str) -> None:
        self._curves: dict[str, tuple[list[float], list[float]]] = {}
        for title in titles:
            self._curves[title] = ([], [])

    @mistake.checked_arguments
    def append(self, title: str, step: float, value: float) -> None:
        """Adds a point to a curve."""
        if title not in self._curves:
            hint = mistake.suggestion(str(title), self._curves)
            raise mistake.invalid(f"there is no curve {title!r}{hint}")
        steps, values = self._curves[title]
        steps.append(step)
        values.append(value)

    def plot(self, path: str | os.PathLike[str] | None = None) -> None:
        """Draws the curves into the file `path`; without one, into the notebook."""
        pyplot = _pyplot() if os.environ.get("DISABLE_PLOT") != "True" else None
        if pyplot is None:
            return
        figure, axes = pyplot.subplots()
        drawn = {title: curve for title, curve in self._curves.items() if curve[0]}
        for title, (steps, values) in drawn.items():
            axes.plot(steps, values, label=title)
        if drawn:
            axes.legend(loc="upper left")
        if path is None:
            _show(figure)
        else:
            figure.savefig(path)
        pyplot.close(figure)

    def reset(self) -> None:
        """Forgets all points."""
        for steps, values in self._curves.values():
            steps.clear()
            values.clear()


# Looked for once, so that what is missing is said once and not at every batch.
@functools.cache
def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError:
        warnings.warn(
            "nothing is plotted because matplotlib is not installed: "
            "pip install matplotlib, or set DISABLE_PLOT=True",
            stacklevel=3,
        )
        return None
    return pyplot


def _show(figure: Any) -> None:
    try:
        from IPython import display
    except ImportError:
        raise mistake.unsupported(
            "curves are shown in notebooks only; give plot a path elsewhere"
        ) from None
    display.clear_output(wait=True)
    display.display(figure)
