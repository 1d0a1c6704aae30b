"""Layers that compare, combine and scale rows, without weights of their own."""

from typing import Any

from paddle.v2 import mistake, naming
from paddle.v2.layer.base import Layer, one, plain, several


@mistake.checked_arguments
def clip(input: Layer, min: float, max: float, name: str | None = None) -> Layer:
    """Every number, but not below `min` nor above `max`."""
    attributes = {"min": mistake.real("min", min), "max": mistake.real("max", max)}
    return plain("clip", naming.choose(name, "clip"), [one("input", input)], attributes)


@mistake.checked_arguments
def power(input: Layer, weight: Layer, name: str | None = None, layer_attr: object = None) -> Layer:
    """Each number to the power of its row's number in `weight`, a layer of size 1."""
    parents = [one("input", input), one("weight", weight)]
    return plain("power", naming.choose(name, "power_layer"), parents, layer_attr=layer_attr)


@mistake.checked_arguments
def l2_distance(x: Layer, y: Layer, name: str | None = None, layer_attr: object = None) -> Layer:
    """The Euclidean distance of each pair of rows."""
    name = naming.choose(name, "l2_distance_layer")
    return plain("l2_distance", name, [one("x", x), one("y", y)], layer_attr=layer_attr)


@mistake.checked_arguments
def linear_comb(
    weights: Layer,
    vectors: Layer,
    size: int | None = None,
    name: str | None = None,
    layer_attr: object = None,
) -> Layer:
    """The sum of the vectors that lie side by side in `vectors`, each times its weight."""
    attributes = {"size": None if size is None else mistake.whole("size", size)}
    parents = [one("weights", weights), one("vectors", vectors)]
    name = naming.choose(name, "linear_comb_layer")
    return plain("linear_comb", name, parents, attributes, layer_attr)


convex_comb = linear_comb


@mistake.checked_arguments
def out_prod(
    input1: Layer, input2: Layer, name: str | None = None, layer_attr: object = None
) -> Layer:
    """The outer product of each pair of rows: every number of the first times the second row."""
    parents = [one("input1", input1), one("input2", input2)]
    return plain("out_prod", naming.choose(name, "out_prod_layer"), parents, layer_attr=layer_attr)


@mistake.checked_arguments
def conv_shift(a: Layer, b: Layer, name: str | None = None, layer_attr: object = None) -> Layer:
    """Circular convolution of each row of `a` with that of `b`, whose size is odd."""
    name = naming.choose(name, "conv_shift_layer")
    return plain("conv_shift", name, [one("a", a), one("b", b)], layer_attr=layer_attr)


@mistake.checked_arguments
def sum_to_one_norm(input: Layer, name: str | None = None, layer_attr: object = None) -> Layer:
    """Each row divided by the sum of its numbers."""
    name = naming.choose(name, "sum_to_one_norm_layer")
    return plain("sum_to_one_norm", name, [one("input", input)], layer_attr=layer_attr)


@mistake.checked_arguments
def row_l2_norm(input: Layer, name: str | None = None, layer_attr: object = None) -> Layer:
    """Each row divided by its length."""
    name = naming.choose(name, "row_l2_norm_layer")
    return plain("row_l2_norm", name, [one("input", input)], layer_attr=layer_attr)


@mistake.checked_arguments
def multiplex(input: Any, name: str | None = None, layer_attr: object = None) -> Layer:
    """For each row the row of one input; the first input says of which of the others, from 0."""
    parents = several("input", input)
    if len(parents) < 3:
        raise mistake.invalid(
            "multiplex chooses between two or more layers; give the layer of indices and these",
            inputs=len(parents),
        )
    name = naming.choose(name, "multiplex_layer")
    return plain("multiplex", name, parents, layer_attr=layer_attr)


@mistake.checked_arguments
def resize(input: Layer, size: int, name: str | None = None) -> Layer:
    """All numbers of the batch in rows of `size`, whatever samples they come from."""
    attributes = {"size": mistake.whole("size", size)}
    return plain("resize", naming.choose(name, "resize"), [one("input", input)], attributes)
