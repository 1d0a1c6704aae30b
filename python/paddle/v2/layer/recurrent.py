"""Recurrent layers over sequences: lstmemory, grumemory and recurrent.

Their input has a part for each gate, so a fc or mixed layer comes before them; `paddle.networks`
has both together (`simple_lstm`, `simple_gru`).
"""

import dataclasses
from typing import Any

from paddle.v2 import activation, attr, mistake, naming
from paddle.v2.layer import planning
from paddle.v2.layer.base import Finish, Layer, describe, one


@dataclasses.dataclass(frozen=True)
class _Weights:
    """What the user said of a recurrent layer's parameters."""

    param_attr: object
    bias_attr: object

    def said(self) -> dict[str, attr.ParamAttr]:
        weight = {"w0": attr.param("param_attr", self.param_attr)}
        bias = attr.bias(self.bias_attr, True)
        return weight if bias is None else {**weight, "wbias": bias}


def _recurrent(
    description: dict[str, Any], input: object, weights: _Weights, size: object = None
) -> Layer:
    said = weights.said()
    attributes = {**description["attributes"], "has_bias": "wbias" in said}
    layer = Layer({**description, "attributes": attributes}, [one("input", input)], said)
    if size is not None and planning.differ(mistake.whole("size", size), layer.size):
        raise mistake.invalid(
            f"size is {size} but the input, of size {one('input', input).size}, makes it "
            f"{layer.size}; leave size out, or give the input another",
            layer=layer.name,
        )
    return layer


@mistake.checked_arguments
def lstmemory(
    input: Layer,
    name: str | None = None,
    size: int | None = None,
    reverse: bool = False,
    act: object = None,
    gate_act: object = None,
    state_act: object = None,
    bias_attr: object = None,
    param_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """Long short-term memory with peepholes, a quarter as wide as its input.

    The input's parts are candidate, input, forget and output gate; the bias has a part for each,
    and the three peepholes after them.
    """
    attributes = {
        "activation": activation.gate_of("act", act, activation.Tanh),
        "gate_activation": activation.gate_of("gate_act", gate_act, activation.Sigmoid),
        "state_activation": activation.gate_of("state_act", state_act, activation.Tanh),
        "is_reversed": mistake.truth("reverse", reverse),
    }
    finish = Finish(layer_attr=layer_attr)
    description = describe(naming.choose(name, "lstmemory"), "lstmemory", finish, attributes)
    return _recurrent(description, input, _Weights(param_attr, bias_attr), size)


@mistake.checked_arguments
def grumemory(
    input: Layer,
    size: int | None = None,
    name: str | None = None,
    reverse: bool = False,
    act: object = None,
    gate_act: object = None,
    bias_attr: object = None,
    param_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """Gated recurrent unit, a third as wide as its input.

    The input's parts are update gate, reset gate and candidate.
    """
    attributes = {
        "activation": activation.gate_of("act", act, activation.Tanh),
        "gate_activation": activation.gate_of("gate_act", gate_act, activation.Sigmoid),
        "is_reversed": mistake.truth("reverse", reverse),
    }
    finish = Finish(layer_attr=layer_attr)
    description = describe(naming.choose(name, "gru"), "grumemory", finish, attributes)
    return _recurrent(description, input, _Weights(param_attr, bias_attr), size)


@mistake.checked_arguments
def recurrent(
    input: Layer,
    act: object = None,
    bias_attr: object = None,
    param_attr: object = None,
    name: str | None = None,
    reverse: bool = False,
    layer_attr: object = None,
) -> Layer:
    """A row's output is `act(x + b + h·w)`, h being that of the row before."""
    attributes = {
        "activation": activation.gate_of("act", act, activation.Tanh),
        "is_reversed": mistake.truth("reverse", reverse),
    }
    finish = Finish(layer_attr=layer_attr)
    description = describe(naming.choose(name, "recurrent_layer"), "recurrent", finish, attributes)
    return _recurrent(description, input, _Weights(param_attr, bias_attr))
