"""Layers under their V1 names: every function of `paddle.v2.layer`, most with `_layer` behind it.

Only `data_layer` is different: it has a size, and its type comes from the data provider.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from paddle.v1.recording import current, named
from paddle.v2 import layer, mistake
from paddle.v2.layer import Layer

__all__ = ["data_layer"]

# V2 names that V1 has too.
_SAME = {
    "beam_search", "classification_cost", "cos_sim", "crf_error", "ctc_error", "first_seq",
    "grumemory", "hsigmoid", "last_seq", "lstmemory", "memory", "recurrent_group", "sum_cost",
}  # fmt: skip
# V2 names that V1 has otherwise.
_OTHER = {
    "cross_entropy_cost": ["cross_entropy"],
    "cross_entropy_over_beam": ["cross_entropy_over_beam"],
    "cross_entropy_with_selfnorm_cost": ["cross_entropy_with_selfnorm"],
    "factorization_machine": ["factorization_machine"],
    "max_id": ["maxid_layer"],
    "multi_binary_label_cross_entropy_cost": ["multi_binary_label_cross_entropy"],
    "printer": ["print_layer", "printer_layer"],
}
# Their first values are not those of weights.
_NOT_WEIGHTS = {"batch_norm", "prelu", "scale_shift"}


def names_of(function: str) -> list[str]:
    """The V1 names of a function of `paddle.v2.layer`."""
    if function in _OTHER:
        return _OTHER[function]
    is_same = function in _SAME or function.endswith(("_cost", "_projection", "_operator"))
    return [function] if is_same or function[0].isupper() else [f"{function}_layer"]


@mistake.checked_arguments
def data_layer(
    name: str,
    size: int,
    depth: int | None = None,
    height: int | None = None,
    width: int | None = None,
    layer_attr: object = None,
) -> Layer:
    """Values that the data provider gives: `size` columns, or ids below `size`."""
    recording = current()
    size = mistake.whole("size", size)
    if name in recording.data_layers:
        first = recording.data_layers[name].place
        raise mistake.invalid(f"there are two data layers {name!r}; the first is at {first}")
    type = recording.type_of(name, size)
    made = layer.data(
        name=name, type=type, depth=depth, height=height, width=width, layer_attr=layer_attr
    )
    recording.data_layers[name] = made
    return made


def _with_defaults(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives weights the first values that `default_initial_…` set."""
    signature = inspect.signature(function)
    if "param_attr" not in signature.parameters or name in _NOT_WEIGHTS:
        return function

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        default = current().defaults.weight()
        given = signature.bind_partial(*arguments[: len(signature.parameters)]).arguments
        if default is not None and given.get("param_attr", named.get("param_attr")) is None:
            given.pop("param_attr", None)
            return function(**{**given, **named, "param_attr": default})
        return function(*arguments, **named)

    return call


def _missing(name: str) -> Callable[..., Any]:
    def call(*_arguments: Any, **_named: Any) -> Any:
        return getattr(layer, name)

    return call


for _name in layer.__all__:
    if _name in ("data", "Layer", "Parameter", "Projection", "MixedLayer", "parse_network"):
        continue
    _made = getattr(layer, _name)
    if inspect.isfunction(_made):
        _made = _with_defaults(_name, _made)
    for _v1 in names_of(_name):
        globals()[_v1] = named(_v1, _made) if inspect.isfunction(_made) else _made
        __all__ += [_v1]
for _name in getattr(layer, "NOT_YET", ()):
    for _v1 in names_of(_name):
        if _v1 not in globals():
            globals()[_v1] = _missing(_name)
            __all__ += [_v1]
