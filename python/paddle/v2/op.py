"""Arithmetic of layers: `+`, `-` and `*`, and functions of one layer, element by element."""

import numbers
from collections.abc import Callable
from typing import Any

from paddle.v2 import activation, mistake, naming
from paddle.v2.layer.arithmetic import scaling, slope_intercept
from paddle.v2.layer.base import Layer, one
from paddle.v2.layer.mixed import mixed
from paddle.v2.layer.projection import identity_projection
from paddle.v2.layer.sequence_rows import repeat

_ADDITION = "+ and - are for a layer and a number, or two layers of one size or of size 1"


def _unary(name: str, act: type[activation.BaseActivation]) -> Callable[..., Layer]:
    def function(input: Layer, name: str | None = None) -> Layer:
        chosen = naming.choose(name, prefix)
        return mixed(input=identity_projection(input=one("input", input)), name=chosen, act=act())

    prefix = name
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{act.__doc__}, of each element."
    return mistake.checked_arguments(function)


exp = _unary("exp", activation.Exp)
log = _unary("log", activation.Log)
abs = _unary("abs", activation.Abs)
sigmoid = _unary("sigmoid", activation.Sigmoid)
tanh = _unary("tanh", activation.Tanh)
square = _unary("square", activation.Square)
relu = _unary("relu", activation.Relu)
sqrt = _unary("sqrt", activation.Sqrt)
reciprocal = _unary("reciprocal", activation.Reciprocal)
softmax = _unary("softmax", activation.Softmax)


def add(layer: Layer, other: object) -> Layer:
    """`layer + other`, a number or a layer of the same size; one of size 1 is repeated."""
    if isinstance(other, numbers.Real):
        return slope_intercept(input=layer, intercept=float(other))
    if isinstance(other, Layer) and (layer.size == other.size or 1 in (layer.size, other.size)):
        terms = _same_size(layer, other)
        return mixed(input=[identity_projection(input=each) for each in terms])
    raise _refusal(_ADDITION, layer, other)


def subtract(layer: Layer, other: object) -> Layer:
    """`layer - other`, a number or a layer of the same size."""
    if isinstance(other, numbers.Real):
        return slope_intercept(input=layer, intercept=-float(other))
    if isinstance(other, Layer) and (layer.size == other.size or 1 in (layer.size, other.size)):
        return add(layer, negate(other))
    raise _refusal(_ADDITION, layer, other)


def _same_size(layer: Layer, other: Layer) -> tuple[Layer, Layer]:
    """The two, one of size 1 being repeated."""
    if layer.size < other.size:
        return repeat(input=layer, num_repeats=other.size), other
    if other.size < layer.size:
        return layer, repeat(input=other, num_repeats=layer.size)
    return layer, other


def negate(layer: Layer) -> Layer:
    """`-layer`."""
    return slope_intercept(input=layer, slope=-1.0)


def multiply(layer: Layer, other: object) -> Layer:
    """`layer * other`, a number or a layer of which one has size 1."""
    if isinstance(other, numbers.Real):
        return slope_intercept(input=layer, slope=float(other))
    if isinstance(other, Layer) and layer.size == 1:
        return scaling(input=other, weight=layer)
    if isinstance(other, Layer) and other.size == 1:
        return scaling(input=layer, weight=other)
    raise _refusal(
        "* is for a layer and a number, or two layers of which one has size 1; "
        "paddle.layer.dotmul_operator multiplies element by element",
        layer,
        other,
    )


def _refusal(rule: str, layer: Layer, other: object) -> Exception:
    if isinstance(other, Layer):
        return mistake.invalid(
            f"layer {layer.name!r} has size {layer.size} and layer {other.name!r} has size "
            f"{other.size}; {rule}"
        )
    return mistake.wrong_type(f"{rule}, not {mistake.kind_of(other)}", layer=layer.name)


__all__ = [
    "abs",
    "exp",
    "log",
    "reciprocal",
    "relu",
    "sigmoid",
    "softmax",
    "sqrt",
    "square",
    "tanh",
]


def __getattr__(name: str) -> Any:
    raise mistake.missing_name("paddle.op", name, __all__)
