"""Evaluators under their V1 names: `classification_error_evaluator(input=…, label=…)`."""

import functools
from collections.abc import Callable
from typing import Any

from paddle.v1.recording import current
from paddle.v2 import evaluator

__all__: list[str] = []


def _recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        made = function(*arguments, **named)
        if isinstance(made, evaluator.Evaluator):
            current().evaluators.append(made)
        return made

    return call


def _missing(name: str) -> Callable[..., Any]:
    def call(*_arguments: Any, **_named: Any) -> Any:
        return getattr(evaluator, name)

    return call


for _name in evaluator.__all__:
    if _name.endswith("_evaluator"):
        globals()[_name] = _recorded(getattr(evaluator, _name))
        __all__ += [_name]
for _name in getattr(evaluator, "NOT_YET", ()):
    globals()[f"{_name}_evaluator"] = _missing(_name)
    __all__ += [f"{_name}_evaluator"]
