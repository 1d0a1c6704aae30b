"""Networks that run along sequences: `recurrent_group`, and the kinds of inputs it has."""

from collections.abc import Callable
from typing import Any, ClassVar

from paddle.v2 import mistake, naming
from paddle.v2.evaluator import Evaluator
from paddle.v2.layer import planning, scope
from paddle.v2.layer.base import Finish, Layer, describe, make, one
from paddle.v2.layer.mixed import mixed
from paddle.v2.layer.projection import Projection, identity_projection
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
        if size is not None and planning.differ(mistake.whole("size", size), self.input.size):
            raise mistake.invalid(
                f"size is {size} but the input has size {self.input.size}; leave size out",
                layer=self.input.name,
            )


class BaseGeneratedInput:
    """What a step makes itself, one after the other; only `beam_search` takes it."""

    mistaken_as: ClassVar[str] = "a GeneratedInput"


@mistake.checked_arguments
def SubsequenceInput(input: Layer) -> Layer:  # noqa: N802
    """A layer of nested sequences, of which a step sees one sequence; the layer tells by itself."""
    layer = one("input", input)
    if planning.differ(layer.shape["level"], "nested"):
        raise mistake.invalid(
            f"SubsequenceInput needs nested sequences but layer {layer.name!r} has none; feed it "
            "with a data type that ends in _sub_sequence",
            level=layer.shape["level"],
        )
    return layer


# What a step sees of what the group goes along, and what its outputs are outside of it.
_INSIDE = {"sequence": "single", "nested": "sequence"}
_OUTSIDE = {"single": "sequence", "sequence": "nested"}


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
    nested sequences a sequence, and of a `StaticInput` all; what is no layer it gets as it is.
    `memory` in it is what a layer gave in the step before. What it returns, one layer or several,
    is returned as a sequence each, or as nested sequences if it is a sequence. `targetInlink` is
    ignored.
    """
    name = naming.choose(name, "recurrent_group")
    given = list(input) if isinstance(input, (list, tuple)) else [input]
    with scope.opened(name) as inside:
        network = Step(inside)
        seen = [_see(network, place, each) for place, each in enumerate(given)]
        if not network.inputs:
            raise mistake.wrong_type(
                "a recurrent group goes along sequences but no input is a layer; input is "
                + mistake.kind_of(input)
            )
        outputs = run_step(step, seen)
        described = network.describe(outputs)
    attributes = {"step": described, "is_reversed": mistake.truth("reverse", reverse)}
    own = name if len(outputs) > 1 else _outer_name(outputs[0], inside)
    description = describe(own, "recurrent_group", Finish(), attributes)
    group = Layer(description, network.inputs, network.said())
    group.sources = network.sources(outputs)
    if len(outputs) == 1:
        group.shown_activation = outputs[0].activation
        return group
    is_rows = all(output.shape["level"] == "single" for output in outputs)
    parts = _columns(group, outputs, inside) if is_rows else _taken_apart(group, outputs, inside)
    for part, output in zip(parts, outputs, strict=True):
        part.shown_activation = output.activation
    return parts


def _columns(group: Layer, outputs: list[Layer], inside: scope.Scope) -> list[Layer]:
    """The outputs of a step that are rows: they stand side by side in the group's."""
    offset = 0
    parts: list[Layer] = []
    for output in outputs:
        part = identity_projection(input=group, offset=offset, size=output.size)
        parts.append(mixed(input=part, name=_outer_name(output, inside)))
        offset += output.size
    return parts


def _taken_apart(group: Layer, outputs: list[Layer], inside: scope.Scope) -> list[Layer]:
    """The outputs of a step of which some are sequences: the group keeps them apart."""
    parts = []
    for place, output in enumerate(outputs):
        level = _OUTSIDE[output.shape["level"]]
        attributes = {"place": place, "size": output.size, "level": level}
        name = _outer_name(output, inside)
        description = describe(name, "recurrent_group_output", Finish(), attributes)
        parts.append(make(description, [group]))
    return parts


def _see(network: Step, place: int, given: object) -> Any:
    if isinstance(given, StaticInput):
        return network.see(given.input, "whole", given.input.shape["level"])
    if _is_constant(given):
        return given
    layer = one(f"input[{place}]", given)
    level = layer.shape["level"]
    if level not in _INSIDE:
        raise mistake.invalid(
            f"a recurrent group goes along sequences but layer {layer.name!r} has one row a "
            "sample; give it as paddle.layer.StaticInput if every step is to see it",
        )
    inside = level if planning.is_any_level(level) else _INSIDE[level]
    return network.see(layer, "part", inside)


def _is_constant(given: object) -> bool:
    """Whether a step gets it as it is: a number, a text, an attribute, a function."""
    if isinstance(given, (list, tuple)):
        return all(_is_constant(each) for each in given)
    return not isinstance(given, (Layer, Projection, BaseGeneratedInput, Evaluator))


def _outer_name(output: Layer, inside: scope.Scope) -> str:
    """What a layer of the step is called outside."""
    if isinstance(output, Seen):
        return naming.choose(None, "recurrent_group_output")
    return output.name.removesuffix(f"@{inside.name}")
