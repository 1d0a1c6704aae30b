"""Evaluators under their V1 names: `classification_error_evaluator(input=…, label=…)`."""

import functools
from collections.abc import Callable
from typing import Any

from paddle.v1.recording import current, named
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


for _name in evaluator.__all__:
    if _name.endswith("_evaluator"):
        globals()[_name] = _recorded(named(_name, getattr(evaluator, _name)))
        __all__ += [_name]
