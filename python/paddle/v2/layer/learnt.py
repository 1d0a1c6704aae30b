"""Layers with a few learnt numbers: slopes, scales, windows, tensors, gates."""

from paddle.v2 import activation, attr, mistake, naming
from paddle.v2.layer import planning
from paddle.v2.layer.base import Finish, Layer, describe, make, one
from paddle.v2.layer.mixed import mixed
from paddle.v2.layer.projection import dotmul_operator
from paddle.v2.layer.weighted import fc


@mistake.checked_arguments
def prelu(
    input: Layer,
    name: str | None = None,
    partial_sum: int = 1,
    channel_shared: bool | None = None,
    num_channels: int | None = None,
    param_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """x where it is above 0, else x times a learnt slope, at first 0.25.

    partial_sum:    columns that share a slope: 1 for one each, the size of the input for one.
    channel_shared: of pictures, instead of `partial_sum`: True for one slope, False for one a
                    channel.
    num_channels:   channels of the picture, where the input does not know them.
    """
    parent = one("input", input)
    shared = mistake.whole("partial_sum", partial_sum)
    if channel_shared is not None:
        channels = parent.num_filters if num_channels is None else num_channels
        if channels is None:
            raise mistake.invalid(
                "channel_shared is for pictures, and the input is not known to be one; say "
                "num_channels, or partial_sum instead"
            )
        channels = mistake.whole("num_channels", channels)
        if planning.differ(parent.size % channels, 0):
            raise mistake.invalid(
                f"num_channels {channels} does not divide the size of the input, {parent.size}"
            )
        is_one = mistake.truth("channel_shared", channel_shared)
        shared = parent.size if is_one else parent.size // channels
    finish = Finish(layer_attr=layer_attr)
    name = naming.choose(name, "prelu_layer")
    description = describe(name, "prelu", finish, {"partial_sum": shared})
    return make(description, [parent], finish, [attr.param("param_attr", param_attr)])


@mistake.checked_arguments
def scale_shift(
    input: Layer,
    name: str | None = None,
    param_attr: object = None,
    bias_attr: object = None,
) -> Layer:
    """`w·x + b`, w and b being one learnt number each."""
    finish = Finish(bias_attr=bias_attr, has_bias=True)
    description = describe(naming.choose(name, "scale_shift"), "scale_shift", finish)
    weights = [attr.param("param_attr", param_attr)]
    return make(description, [one("input", input)], finish, weights)


@mistake.checked_arguments
def row_conv(
    input: Layer,
    context_len: int,
    act: object = None,
    name: str | None = None,
    param_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """Row convolution: each row of a sequence with those after it, `context_len` rows in all."""
    finish = Finish(act, layer_attr=layer_attr)
    attributes = {"context": mistake.whole("context_len", context_len)}
    description = describe(naming.choose(name, "row_conv_layer"), "row_conv", finish, attributes)
    weights = [attr.param("param_attr", param_attr)]
    return make(description, [one("input", input)], finish, weights)


@mistake.checked_arguments
def tensor(
    a: Layer,
    b: Layer,
    size: int,
    act: object = None,
    name: str | None = None,
    param_attr: object = None,
    bias_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """`a·W[k]·b` for each of `size` matrices W, which lie one below the other in the weight."""
    finish = Finish(act, bias_attr, layer_attr, has_bias=True)
    attributes = {"size": mistake.whole("size", size)}
    description = describe(naming.choose(name, "tensor_layer"), "tensor", finish, attributes)
    weights = [attr.param("param_attr", param_attr)]
    return make(description, [one("a", a), one("b", b)], finish, weights)


@mistake.checked_arguments
def gated_unit(
    input: Layer,
    size: int,
    act: object = None,
    name: str | None = None,
    gate_attr: object = None,
    gate_param_attr: object = None,
    gate_bias_attr: object = True,
    inproj_attr: object = None,
    inproj_param_attr: object = None,
    inproj_bias_attr: object = True,
    layer_attr: object = None,
) -> Layer:
    """`act(x·w + b)·sigmoid(x·v + c)`, element by element; Linear unless `act` is given."""
    name = naming.choose(name, "gated_unit_layer")
    projected = fc(
        input=input,
        name=f"{name}_input_proj",
        size=size,
        act=activation.Linear() if act is None else act,
        layer_attr=inproj_attr,
        param_attr=inproj_param_attr,
        bias_attr=inproj_bias_attr,
    )
    gate = fc(
        input=input,
        name=f"{name}_gate",
        size=size,
        act=activation.Sigmoid(),
        layer_attr=gate_attr,
        param_attr=gate_param_attr,
        bias_attr=gate_bias_attr,
    )
    product = dotmul_operator(projected, gate)
    return mixed(name=f"{name}_gated_act", input=product, layer_attr=layer_attr)
