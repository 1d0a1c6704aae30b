"""Activations: what is applied to a layer's output, given as `act=paddle.activation.Relu()`."""

from typing import ClassVar

from paddle.v2 import mistake


class BaseActivation:
    """An activation. They have no settings, so all objects of a class are the same."""

    name: ClassVar[str]
    mistaken_as: ClassVar[str] = "an activation"

    def __repr__(self) -> str:
        return f"paddle.activation.{type(self).__name__}()"


class Linear(BaseActivation):
    """x"""

    name = "linear"


Identity = Linear


class Tanh(BaseActivation):
    """tanh x"""

    name = "tanh"


class Sigmoid(BaseActivation):
    """1 / (1 + e⁻ˣ)"""

    name = "sigmoid"


class Softmax(BaseActivation):
    """eˣ / Σeˣ over a row"""

    name = "softmax"


class SequenceSoftmax(BaseActivation):
    """Softmax over the rows of a sequence; the layer has size 1"""

    name = "sequence_softmax"


class Relu(BaseActivation):
    """max(0, x)"""

    name = "relu"


class BRelu(BaseActivation):
    """min(24, max(0, x))"""

    name = "brelu"


class SoftRelu(BaseActivation):
    """ln(1 + eˣ)"""

    name = "soft_relu"


class STanh(BaseActivation):
    """1.7159·tanh(2x/3)"""

    name = "stanh"


class Abs(BaseActivation):
    """|x|"""

    name = "abs"


class Square(BaseActivation):
    """x²"""

    name = "square"


class Exp(BaseActivation):
    """eˣ"""

    name = "exponential"


class Log(BaseActivation):
    """ln x"""

    name = "log"


class Sqrt(BaseActivation):
    """√x"""

    name = "sqrt"


class Reciprocal(BaseActivation):
    """1/x"""

    name = "reciprocal"


class SoftSign(BaseActivation):
    """x / (1 + |x|)"""

    name = "soft_sign"


# Those whose slope follows from their value, which is all that recurrent layers keep.
_GATES = (Linear, Sigmoid, Tanh, Relu, BRelu, STanh)

__all__ = [
    "Abs",
    "BRelu",
    "BaseActivation",
    "Exp",
    "Identity",
    "Linear",
    "Log",
    "Reciprocal",
    "Relu",
    "STanh",
    "SequenceSoftmax",
    "Sigmoid",
    "SoftRelu",
    "SoftSign",
    "Softmax",
    "Sqrt",
    "Square",
    "Tanh",
]


def name_of(act: object, default: type[BaseActivation] = Linear) -> str:
    """The engine's name of what a user gave as `act`: an activation, its class, or None."""
    if act is None:
        return default.name
    if isinstance(act, BaseActivation):
        return act.name
    if isinstance(act, type) and issubclass(act, BaseActivation) and act is not BaseActivation:
        return act.name
    hint = "paddle.activation.Relu()"
    if isinstance(act, str):
        known = {name.lower(): name for name in __all__}
        meant = known.get(act.lower().replace("_", ""))
        hint = f"paddle.activation.{meant}()" if meant else hint
    raise mistake.wrong_type(f"act must be an activation like {hint} but is {mistake.kind_of(act)}")


def gate_of(argument: str, act: object, default: type[BaseActivation]) -> str:
    """The engine's name of an activation inside a recurrent layer."""
    name, known = name_of(act, default), [each.name for each in _GATES]
    if name not in known:
        raise mistake.unsupported(
            f"{argument} of a recurrent layer cannot be {name}, only {', '.join(known)}; a step of "
            "recurrent_group may have any"
        )
    return name


def __getattr__(name: str) -> object:
    raise mistake.missing_name("paddle.activation", name, __all__)
