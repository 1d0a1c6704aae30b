"""Layers with a weight for each input: fully connected, embedding, factorization machine."""

from typing import Any

from paddle.v2 import activation, mistake, naming
from paddle.v2.layer.base import Finish, Layer, describe, make, one, several, weight_attributes
from paddle.v2.layer.mixed import mixed
from paddle.v2.layer.projection import table_projection


@mistake.checked_arguments
def fc(
    input: Any,
    size: int,
    act: object = None,
    name: str | None = None,
    param_attr: object = None,
    bias_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """Fully connected: the sum over the inputs of `x·w`, plus a bias; Tanh unless `act` is given.

    Inputs are dense, or sparse data. `param_attr` is one for all inputs, or a list of one for each.
    """
    inputs = several("input", input)
    weights = weight_attributes(param_attr, len(inputs))
    finish = Finish(act, bias_attr, layer_attr, default_act=activation.Tanh, has_bias=True)
    attributes = {"size": mistake.whole("size", size)}
    return make(
        describe(naming.choose(name, "fc_layer"), "fc", finish, attributes), inputs, finish, weights
    )


@mistake.checked_arguments
def embedding(
    input: Layer,
    size: int,
    name: str | None = None,
    param_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """The rows of a table that the input's ids ask for; lists of ids give the sum of their rows."""
    looked_up = table_projection(input=input, size=size, param_attr=param_attr)
    name = naming.choose(name, "embedding")
    return mixed(size=size, input=looked_up, name=name, layer_attr=layer_attr)


@mistake.checked_arguments
def factorization_machine(
    input: Layer,
    factor_size: int,
    act: object = None,
    name: str | None = None,
    param_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """The second-order term `½·Σ((x·v)² − x²·v²)` over factors v: one number a row."""
    finish = Finish(act, layer_attr=layer_attr)
    weights = weight_attributes(param_attr, 1)
    attributes = {"factor_size": mistake.whole("factor_size", factor_size)}
    name = naming.choose(name, "factorization_machine")
    description = describe(name, "factorization_machine", finish, attributes)
    return make(description, [one("input", input)], finish, weights)
