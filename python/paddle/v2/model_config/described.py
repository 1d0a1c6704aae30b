"""A layer as it is about to be written, and its inputs where they have nothing but names."""

import dataclasses
from typing import Any

from paddle.v2.model_config.message import Message


@dataclasses.dataclass(frozen=True)
class Described:
    """A layer as it is written: its description, what it gives, and what it takes."""

    name: str
    kind: str
    attributes: dict[str, Any]
    description: dict[str, Any]
    shape: dict[str, Any]
    # Name and shape.
    inputs: list[tuple[str, dict[str, Any]]]
    # Names of its parameters, by slot: `w0`, `wbias`.
    slots: dict[str, str]


def plain_inputs(layer: Described) -> list[Message]:
    """Each input with its name and that of its parameter."""
    return [
        Message(
            "LayerInputConfig",
            input_layer_name=name,
            input_parameter_name=layer.slots.get(f"w{place}"),
        )
        for place, (name, _) in enumerate(layer.inputs)
    ]


def inputs_with(layer: Described, **settings: Message) -> list[Message]:
    """The same, with settings of the layer in the first of them."""
    inputs = plain_inputs(layer)
    for field, value in settings.items():
        inputs[0].set(field, value)
    return inputs
