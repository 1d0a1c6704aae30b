"""Networks that run along sequences: `recurrent_group`, and the kinds of inputs it has."""

from collections.abc import Callable
from typing import Any, ClassVar

from paddle.v2 import mistake, naming
from paddle.v2.layer import scope
from paddle.v2.layer.base import Finish, Layer, describe, one
from paddle.v2.layer.mixed import mixed
from paddle.v2.layer.projection import identity_projection
from paddle.v2.layer.step import Seen, Step, run_step


class StaticInput:
    """A layer that every step sees as a whole: one row, or all rows of a sequence.

    `is_seq` is what the layer tells by itself, and ignored.
    """

    mistaken_as: ClassVar[str] = "a StaticInput"

    @mistake.checked_arguments
    def __init__(self, input: Layer, is_seq: bool = False, size: int | None = None) -> None:
        self.input = one("input", input)
        mistake.truth("is_seq", is_seq)
        if size is not None and mistake.whole("size", size) != self.input.size:
            raise mistake.invalid(
                f"size is {size} but the input has size {self.input.size}; leave size out",
                layer=self.input.name,
            )


@mistake.checked_arguments
def SubsequenceInput(input: Layer) -> Layer:  # noqa: N802
    """A layer of nested sequences, of which a step sees one sequence; the layer tells by itself."""
    layer = one("input", input)
    if layer.shape["level"] != "nested":
        raise mistake.invalid(
            f"SubsequenceInput needs nested sequences but layer {layer.name!r} has none; feed it "
            "with a data type that ends in _sub_sequence",
            level=layer.shape["level"],
        )
    return layer


# What a step sees of what the group goes along.
_INSIDE = {"sequence": "single", "nested": "sequence"}


@mistake.checked_arguments
def recurrent_group(
    step: Callable[..., Any],
    input: Any,
    reverse: bool = False,
    name: str | None = None,
    targetInlink: object = None,  # noqa: N803
) -> Any:
    """Runs a network, the step, for every row of a sequence: `step` is a function that makes it.

    It is called once, with a layer for each entry of `input`: of a sequence it sees a row, of
    nested sequences a sequence, and of a `StaticInput` all. `memory` in it is what a layer gave in
    the step before. What it returns, one layer or several, is returned as a sequence each.
    `targetInlink` is ignored.
    """
    name = naming.choose(name, "recurrent_group")
    given = list(input) if isinstance(input, (list, tuple)) else [input]
    with scope.opened(name) as inside:
        network = Step(inside)
        seen = [_see(network, place, each) for place, each in enumerate(given)]
        outputs = run_step(step, seen)
        described = network.describe(outputs)
    attributes = {"step": described, "is_reversed": mistake.truth("reverse", reverse)}
    own = name if len(outputs) > 1 else _outer_name(outputs[0], inside)
    description = describe(own, "recurrent_group", Finish(), attributes)
    group = Layer(description, network.inputs, network.said())
    if len(outputs) == 1:
        group.shown_activation = outputs[0].activation
        return group
    offset, parts = 0, []
    for output in outputs:
        part = identity_projection(input=group, offset=offset, size=output.size)
        parts.append(mixed(input=part, name=_outer_name(output, inside)))
        offset += output.size
    return parts


def _see(network: Step, place: int, given: object) -> Layer:
    if isinstance(given, StaticInput):
        return network.see(given.input, "whole", given.input.shape["level"])
    layer = one(f"input[{place}]", given)
    level = layer.shape["level"]
    if level not in _INSIDE:
        raise mistake.invalid(
            f"a recurrent group goes along sequences but layer {layer.name!r} has one row a "
            "sample; give it as paddle.layer.StaticInput if every step is to see it",
        )
    return network.see(layer, "part", _INSIDE[level])


def _outer_name(output: Layer, inside: scope.Scope) -> str:
    """What a layer of the step is called outside."""
    if isinstance(output, Seen):
        return naming.choose(None, "recurrent_group_output")
    return output.name.removesuffix(f"@{inside.name}")
