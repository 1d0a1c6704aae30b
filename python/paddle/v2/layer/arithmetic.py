"""Layers that compute from their inputs alone, row by row."""

from typing import Any

from paddle.v2 import attr, mistake, naming
from paddle.v2.layer.base import Finish, Layer, describe, make, one, several
from paddle.v2.layer.mixed import concatenated
from paddle.v2.layer.projection import Projection


@mistake.checked_arguments
def addto(
    input: Any,
    act: object = None,
    name: str | None = None,
    bias_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """The sum of inputs of the same size."""
    finish = Finish(act, bias_attr, layer_attr)
    description = describe(naming.choose(name, "addto"), "addto", finish)
    return make(description, several("input", input), finish)


@mistake.checked_arguments
def concat(
    input: Any,
    act: object = None,
    name: str | None = None,
    layer_attr: object = None,
    bias_attr: object = None,
) -> Layer:
    """The columns of all inputs, layers or projections, side by side."""
    finish = Finish(act, bias_attr, layer_attr)
    name = naming.choose(name, "concat")
    given = list(input) if isinstance(input, (list, tuple)) else [input]
    if any(isinstance(each, Projection) for each in given):
        return concatenated(name, given, finish)
    description = describe(name, "concat", finish)
    return make(description, several("input", input), finish)


@mistake.checked_arguments
def dropout(input: Layer, dropout_rate: float, name: str | None = None) -> Layer:
    """The input, of which a share is 0 in training, at random."""
    extra = attr.ExtraAttr(drop_rate=mistake.real("dropout_rate", dropout_rate))
    name = naming.choose(name, "dropout")
    return addto(input=one("input", input), name=name, layer_attr=extra)


@mistake.checked_arguments
def cos_sim(
    a: Layer,
    b: Layer,
    scale: float = 1,
    size: int = 1,
    name: str | None = None,
    layer_attr: object = None,
) -> Layer:
    """`scale·cos(a, b)`; with `size` n, of a and each of the n parts of b."""
    attributes = {"scale": mistake.real("scale", scale), "size": mistake.whole("size", size)}
    finish = Finish(layer_attr=layer_attr)
    description = describe(naming.choose(name, "cos_sim"), "cos_sim", finish, attributes)
    return make(description, [one("a", a), one("b", b)])


@mistake.checked_arguments
def dot_prod(
    input1: Layer, input2: Layer, name: str | None = None, layer_attr: object = None
) -> Layer:
    """The scalar product of each pair of rows."""
    finish = Finish(layer_attr=layer_attr)
    description = describe(naming.choose(name, "dot_prod_layer"), "dot_prod", finish)
    return make(description, [one("input1", input1), one("input2", input2)])


@mistake.checked_arguments
def scaling(
    input: Layer, weight: Layer, name: str | None = None, layer_attr: object = None
) -> Layer:
    """Each row of the input times its number in `weight`, a layer of size 1."""
    finish = Finish(layer_attr=layer_attr)
    description = describe(naming.choose(name, "scaling_layer"), "scaling", finish)
    return _weighted(description, [one("input", input)], one("weight", weight))


@mistake.checked_arguments
def interpolation(
    input: Any, weight: Layer, name: str | None = None, layer_attr: object = None
) -> Layer:
    """`weight·a + (1 − weight)·b` of the two inputs; `weight` is a layer of size 1."""
    inputs = several("input", input)
    if len(inputs) != 2:
        raise mistake.invalid("interpolation is between two inputs", inputs=len(inputs))
    finish = Finish(layer_attr=layer_attr)
    description = describe(naming.choose(name, "interpolation_layer"), "interpolation", finish)
    return _weighted(description, inputs, one("weight", weight))


def _weighted(description: dict[str, Any], inputs: list[Layer], weight: Layer) -> Layer:
    """A layer whose weight the original counts before its other inputs."""
    made = make(description, [*inputs, weight])
    made.sources = [weight, *inputs]
    return made


@mistake.checked_arguments
def slope_intercept(
    input: Layer,
    name: str | None = None,
    slope: float = 1.0,
    intercept: float = 0.0,
    layer_attr: object = None,
) -> Layer:
    """`slope·x + intercept`."""
    attributes = {
        "slope": mistake.real("slope", slope),
        "intercept": mistake.real("intercept", intercept),
    }
    finish = Finish(layer_attr=layer_attr)
    name = naming.choose(name, "slope_intercept_layer")
    return make(describe(name, "slope_intercept", finish, attributes), [one("input", input)])


@mistake.checked_arguments
def trans(input: Layer, name: str | None = None, layer_attr: object = None) -> Layer:
    """The batch transposed: columns become rows."""
    finish = Finish(layer_attr=layer_attr)
    description = describe(naming.choose(name, "trans_layer"), "trans", finish)
    return make(description, [one("input", input)])


@mistake.checked_arguments
def max_id(input: Layer, name: str | None = None, layer_attr: object = None) -> Layer:
    """The id of the largest column of each row."""
    finish = Finish(layer_attr=layer_attr)
    description = describe(naming.choose(name, "maxid_layer"), "max_id", finish)
    return make(description, [one("input", input)])
