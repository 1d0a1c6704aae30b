"""What is said of parameters and of layers' outputs; as in `paddle.v2.attr`."""

from paddle.v2.attr import (
    ExtraAttr,
    ExtraLayerAttribute,
    HookAttr,
    HookAttribute,
    ParamAttr,
    ParameterAttribute,
)

__all__ = [
    "ExtraAttr",
    "ExtraLayerAttribute",
    "HookAttr",
    "HookAttribute",
    "ParamAttr",
    "ParameterAttribute",
]
