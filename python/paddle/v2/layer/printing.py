"""Writing what layers give while a network is trained."""

from typing import Any

from paddle.v2 import evaluator, mistake, naming
from paddle.v2 import printer as printing
from paddle.v2.layer.base import several


@mistake.checked_arguments
def printer(input: Any, format: str | None = None, name: str | None = None) -> evaluator.Evaluator:
    """Writes the output of a layer, or of several, to stderr after every batch of training.

    format: a text with `%s` for the numbers of each layer.
    """
    layers = several("input", input)

    def formatted(watched: list[printing.Watched]) -> str:
        assert format is not None
        return format % tuple(printing.matrix(each.rows) for each in watched) + "\n"

    if format is not None:
        try:
            format % (("",) * len(layers))
        except (TypeError, ValueError):
            raise mistake.invalid(
                f"format must have a %s for each of the {len(layers)} layers", format=format
            ) from None
    shown = printing.Printer("value_printer", printing.values if format is None else formatted)
    name = naming.choose(name, "print")
    return evaluator.attach("watch", name, layers, {"gradient": False}, shown)
