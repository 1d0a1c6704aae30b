"""Numbers and figures of evaluators as the original's logs show them."""

from collections.abc import Iterable


def number(value: float) -> str:
    """Six significant digits."""
    return f"{value:g}"


def evaluators(metrics: Iterable[tuple[str, float]]) -> str:
    """`name=value ` for each figure; fields of one evaluator follow its name.

    The F1 score of a chunk evaluator stands under the evaluator's own name.
    """
    parts: list[str] = []
    for name, value in metrics:
        evaluator, _, field = name.rpartition(".")
        if evaluator and field == "F1-score":
            parts.insert(_first(parts, evaluator), f"{evaluator}={number(value)}")
            continue
        parts.append(f"{name}={number(value)}")
    return "".join(f"{part} " for part in parts)


def _first(parts: list[str], evaluator: str) -> int:
    """Where the fields of an evaluator begin."""
    places = [place for place, part in enumerate(parts) if part.startswith(f"{evaluator}.")]
    return places[0] if places else len(parts)
