"""Activations under their V1 names: `TanhActivation()`."""

from paddle.v2 import activation

__all__ = ["BaseActivation"]

BaseActivation = activation.BaseActivation

for _name in activation.__all__:
    if _name != "BaseActivation":
        globals()[f"{_name}Activation"] = getattr(activation, _name)
        __all__ += [f"{_name}Activation"]
