"""Pooling types under their V1 names: `MaxPooling()`."""

from collections.abc import Callable
from typing import Any

from paddle.v2 import pooling

__all__ = ["BasePoolingType"]

BasePoolingType = pooling.BasePooling

for _name in pooling.__all__:
    if _name != "BasePooling":
        globals()[f"{_name}Pooling"] = getattr(pooling, _name)
        __all__ += [f"{_name}Pooling"]


def _missing(name: str) -> Callable[..., Any]:
    def call(*_arguments: Any, **_named: Any) -> Any:
        return getattr(pooling, name)

    return call


for _name in pooling.NOT_YET:
    globals()[f"{_name}Pooling"] = _missing(_name)
    __all__ += [f"{_name}Pooling"]
