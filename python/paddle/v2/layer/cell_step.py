"""One step of LSTM and GRU cells, for the steps of recurrent groups; and `get_output`."""

import dataclasses
from typing import Any

from paddle.v2 import activation, attr, mistake, naming
from paddle.v2.layer import planning, scope
from paddle.v2.layer.base import Finish, Layer, describe, one
from paddle.v2.layer.mixed import mixed
from paddle.v2.layer.projection import identity_projection


@mistake.checked_arguments
def lstm_step(
    input: Layer,
    state: Layer,
    size: int | None = None,
    act: object = None,
    name: str | None = None,
    gate_act: object = None,
    state_act: object = None,
    bias_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """A step of LSTM cells: `input` has the sums of candidate, input, forget and output gate.

    The cells' new state is `get_output(…, arg_name="state")`; the bias is that of the three
    peepholes.
    """
    name = naming.choose(name, "lstm_step")
    bias = attr.bias(bias_attr, True)
    attributes = {
        "activation": activation.gate_of("act", act, activation.Tanh),
        "gate_activation": activation.gate_of("gate_act", gate_act, activation.Sigmoid),
        "state_activation": activation.gate_of("state_act", state_act, activation.Tanh),
        "has_bias": bias is not None,
    }
    description = describe(f"{name}_cell", "lstm_step", Finish(), attributes)
    said = {}
    if bias is not None:
        # Under the name of the layer that the user sees.
        own = bias.name or f"_{scope.qualify(name)}.wbias"
        said["wbias"] = dataclasses.replace(bias, name=own)
    both = Layer(description, [one("input", input), one("state", state)], said)
    cells = both.size // 2
    _check_size(size, cells, name)
    output = _part(both, (0, cells), name, layer_attr)
    output.others["state"] = both, (cells, cells)
    return output


@mistake.checked_arguments
def gru_step(
    input: Layer,
    output_mem: Layer,
    size: int | None = None,
    act: object = None,
    name: str | None = None,
    gate_act: object = None,
    bias_attr: object = None,
    param_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """A step of GRU cells: `input` has the parts of update gate, reset gate and candidate."""
    name = naming.choose(name, "gru_step")
    bias = attr.bias(bias_attr, True)
    attributes = {
        "activation": activation.gate_of("act", act, activation.Tanh),
        "gate_activation": activation.gate_of("gate_act", gate_act, activation.Sigmoid),
        "has_bias": bias is not None,
    }
    said = {"w0": attr.param("param_attr", param_attr)}
    if bias is not None:
        said["wbias"] = bias
    description = describe(name, "gru_step", Finish(layer_attr=layer_attr), attributes)
    inputs = [one("input", input), one("output_mem", output_mem)]
    layer = Layer(description, inputs, said)
    _check_size(size, layer.size, name)
    return layer


# The original composes this one of other layers; what it computes is the same.
gru_step_naive = gru_step


@mistake.checked_arguments
def get_output(
    input: Layer, arg_name: str, name: str | None = None, layer_attr: object = None
) -> Layer:
    """What a layer gives beside its output: `arg_name="state"` of `lstm_step`."""
    layer = one("input", input)
    if arg_name not in layer.others:
        there = ", ".join(repr(each) for each in layer.others) or "nothing"
        raise mistake.invalid(
            f"layer {layer.name!r} gives no {arg_name!r} beside its output; it gives {there}"
        )
    both, columns = layer.others[arg_name]
    return _part(both, columns, naming.choose(name, "get_output"), layer_attr)


def _part(whole: Layer, columns: tuple[int, int], name: str, layer_attr: Any) -> Layer:
    offset, size = columns
    part = identity_projection(input=whole, offset=offset, size=size)
    return mixed(input=part, name=name, layer_attr=layer_attr)


def _check_size(size: object, found: int, name: str) -> None:
    if size is not None and planning.differ(mistake.whole("size", size), found):
        raise mistake.invalid(
            f"size is {size} but the memory makes it {found}; leave size out", layer=name
        )
