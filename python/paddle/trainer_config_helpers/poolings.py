"""Pooling types under their V1 names: `MaxPooling()`."""

from paddle.v2 import pooling

__all__ = ["BasePoolingType"]

BasePoolingType = pooling.BasePooling

for _name in pooling.__all__:
    if _name != "BasePooling":
        globals()[f"{_name}Pooling"] = getattr(pooling, _name)
        __all__ += [f"{_name}Pooling"]
