"""Networks made of several layers, and `inputs` and `outputs` of a configuration."""

from typing import Any

from paddle.v1.recording import current
from paddle.v2 import mistake, networks
from paddle.v2.layer.base import one, several

__all__ = ["inputs", "outputs"]

for _name in networks.__all__:
    globals()[_name] = getattr(networks, _name)
    __all__ += [_name]


def inputs(layers: Any, *more: Any) -> None:
    """The data layers in the order of the values that the data provider gives."""
    given = [*several("layers", layers), *(one("layers", each) for each in more)]
    for layer in given:
        if layer.type is None:
            raise mistake.invalid(f"inputs takes data layers but {layer.name!r} is none")
    current().call_once("inputs")
    current().inputs = given


def outputs(layers: Any, *more: Any) -> None:
    """What is trained, a cost or several, or what is asked for."""
    given = [*several("layers", layers), *(one("layers", each) for each in more)]
    recording = current()
    recording.call_once("outputs")
    recording.outputs = given
    recording.outputs_place = mistake.place()
