"""`paddle plotcurve [-i LOG] [-o FILE] [KEYS]`: costs and figures of a log, drawn."""

import html
import math
import re
import sys
from collections.abc import Iterable, Iterator

from paddle import errors
from paddle.utils import program

USAGE = """\
Draw costs and figures from the log of a training
usage: paddle plotcurve [-i LOG] [-o FILE] [KEYS]
  -i LOG   the log of paddle train [default: standard input]
  -o FILE  the drawing: .svg, or .png if matplotlib is installed [default: SVG on standard output]
  KEYS     what to draw, as AvgCost or classification_error_evaluator; of tests too, where their
           lines have it, and cost for AvgCost [default: AvgCost]"""

# Of a pass that was saved in its middle, its batches are told too.
_PASS = re.compile(r"Pass=(\d+)(?:-\d+)?\s.*")
_TEST = re.compile(r"Test samples=(\d+)\s.*")
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f")
_WIDTH, _HEIGHT, _MARGIN = 800, 480, 60

Curve = list[tuple[float, float]]


def main(arguments: list[str]) -> None:
    """Reads the log and draws."""
    source, target, keys = _parse(arguments)
    if source is None:
        curves = collect(sys.stdin, keys)
    else:
        try:
            with open(source, encoding="utf-8", errors="replace") as file:
                curves = collect(file, keys)
        except OSError as error:
            raise errors.InvalidError(f"cannot read the log {source}: {error.strerror}") from None
    if target is not None and not target.endswith((".svg", ".png")):
        raise program.UsageError(f"a drawing is an .svg or a .png file, not {target}")
    if not any(curves.values()):
        raise errors.InvalidError(
            f"the log has no line of a pass with {', '.join(keys)}; is it the log of paddle train?"
        )
    if target is not None and target.endswith(".png"):
        _draw_png(curves, target)
        return
    drawing = "\n".join(draw(curves)) + "\n"
    if target is None:
        sys.stdout.write(drawing)
    else:
        with open(target, "w", encoding="utf-8") as file:
            file.write(drawing)


def collect(lines: Iterable[str], keys: list[str]) -> dict[str, Curve]:
    """The curves of a log by name: those of training, and those of tests."""
    curves: dict[str, Curve] = {key: [] for key in keys}
    tests: dict[str, Curve] = {f"Test {key}": [] for key in keys}
    number = 0
    for line in lines:
        found = _PASS.search(line)
        if found and "AvgCost=" in line:
            number = int(found[1])
            for key in keys:
                curves[key] += [(number, value) for value in _values(line, key)]
        elif _TEST.search(line):
            for key in keys:
                own = "cost" if key == "AvgCost" else key
                tests[f"Test {key}"] += [(number, value) for value in _values(line, own)]
    return {name: curve for name, curve in {**curves, **tests}.items() if curve}


def draw(curves: dict[str, Curve]) -> Iterator[str]:
    """The curves as SVG, line by line."""
    points = [point for curve in curves.values() for point in curve]
    left, right = _range([x for x, _ in points])
    bottom, top = _range([y for _, y in points])

    def across(x: float) -> float:
        return _MARGIN + (x - left) / (right - left) * (_WIDTH - 2 * _MARGIN)

    def up(y: float) -> float:
        return _HEIGHT - _MARGIN - (y - bottom) / (top - bottom) * (_HEIGHT - 2 * _MARGIN)

    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}">'
    yield '<g font-family="sans-serif" font-size="12" fill="none" stroke="#999">'
    yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff" stroke="none"/>'
    inside = f'width="{_WIDTH - 2 * _MARGIN}" height="{_HEIGHT - 2 * _MARGIN}"'
    yield f'<rect x="{_MARGIN}" y="{_MARGIN}" {inside}/>'
    for step in range(5):
        x, y = left + (right - left) * step / 4, bottom + (top - bottom) * step / 4
        yield _label(across(x), _HEIGHT - _MARGIN + 18, f"{x:g}", "middle")
        yield _label(_MARGIN - 6, up(y) + 4, f"{y:.4g}", "end")
    yield _label(_WIDTH / 2, _HEIGHT - 12, "pass", "middle")
    for number, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in curve)
        yield f'<polyline points="{path}" stroke="{colour}" stroke-width="2"/>'
        for x, y in curve:
            yield f'<circle cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.5" fill="{colour}"/>'
        yield _label(_WIDTH - _MARGIN - 6, _MARGIN + 18 + 16 * number, name, "end", colour)
    yield "</g></svg>"


def _draw_png(curves: dict[str, Curve], target: str) -> None:
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise errors.UnsupportedError(
            "a .png file needs matplotlib (pip install matplotlib); write .svg instead"
        ) from None
    for name, curve in curves.items():
        pyplot.plot([x for x, _ in curve], [y for _, y in curve], label=name, marker=".")
    pyplot.xlabel("pass")
    pyplot.legend()
    pyplot.savefig(target)


def _parse(arguments: list[str]) -> tuple[str | None, str | None, list[str]]:
    source = target = None
    keys = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word in ("-i", "-o", "--input", "--output"):
            if not words:
                raise program.UsageError(f"{word} needs a file")
            if word in ("-i", "--input"):
                source = words.pop(0)
            else:
                target = words.pop(0)
        elif word.startswith("-"):
            raise program.UsageError(f"there is no flag {word}")
        else:
            keys.append(word)
    return source, target, keys or ["AvgCost"]


def _values(line: str, key: str) -> list[float]:
    found = re.search(rf"(?<![\w.-]){re.escape(key)}=(\S+)", line)
    try:
        value = float(found[1]) if found else math.nan
    except ValueError:
        value = math.nan
    return [value] if math.isfinite(value) else []


def _range(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _label(x: float, y: float, text: str, anchor: str, colour: str = "#333") -> str:
    shown = html.escape(text)
    style = f'text-anchor="{anchor}" fill="{colour}" stroke="none"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{shown}</text>'


if __name__ == "__main__":
    program.run("plotcurve", USAGE, main)
