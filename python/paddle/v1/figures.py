"""Numbers and figures of evaluators as the original's logs show them."""

from collections.abc import Iterable, Mapping

from paddle.v2.evaluator import Evaluator

Fields = dict[str, float]


def number(value: float) -> str:
    """Six significant digits."""
    return f"{value:g}"


def evaluators(metrics: Iterable[tuple[str, float]], known: Mapping[str, Evaluator]) -> str:
    """The figures of each evaluator in the form of its kind, with a space behind each.

    metrics: figures by `name`, or by `name.field` of evaluators that have several.
    known:   the evaluators of the network by name.
    """
    by_name: dict[str, Fields] = {}
    for key, value in metrics:
        name, field = (key, "") if key in known else key.rpartition(".")[::2]
        by_name.setdefault(name, {})[field] = value
    return "".join(f"{_show(name, fields, known)} " for name, fields in by_name.items())


def _show(name: str, fields: Fields, known: Mapping[str, Evaluator]) -> str:
    evaluator = known[name]
    if evaluator.kind == "classification_error" and evaluator.attributes.get("top_k", 1) != 1:
        return f" top_{evaluator.attributes['top_k']}_error={number(fields[''])}"
    if evaluator.kind == "pnpair":
        return f" pos/neg={number(fields[''])}"
    if evaluator.kind == "ctc_error":
        return f"{name} error = {number(fields[''])}"
    if evaluator.kind == "chunk":
        counts = ("true_chunks", "result_chunks", "correct_chunks")
        # Counts are whole numbers, however large.
        shown = (f" {count}={fields[count]:.0f}" for count in counts)
        return f"{name}={number(fields['F1-score'])}{''.join(shown)}"
    if evaluator.kind == "precision_recall":
        # Of labels that exclude each other, the micro averages are one number.
        alike = ("micro-average-recall", "micro-average-F1-score")
        parts = [f"{field}={number(fields[field])}" for field in fields if field not in alike]
        positive = evaluator.attributes.get("positive_label")
        return " ".join(parts if positive is None else [f"positive_label={positive}", *parts])
    return f"{name}={number(fields[''])}"
