"""What a user says of a parameter (`Param`) or of a layer's output (`Extra`).

Of a parameter, None means "as the optimizer says", and every number means itself: a 0 is a 0.
"""

import dataclasses
from typing import Any, ClassVar

from paddle.v2 import mistake

# What the original takes for the standard deviation when only a mean is given.
_STD = 0.01

_NOT_NEGATIVE = (
    "initial_std",
    "l1_rate",
    "l2_rate",
    "learning_rate",
    "gradient_clipping_threshold",
)
_RANGE = ("initial_min", "initial_max")
_NORMAL = ("initial_mean", "initial_std")


@dataclasses.dataclass(frozen=True)
class ParamAttr:
    """A parameter: its name (layers that name the same share it), first values and settings.

    initial_mean, initial_std: first values are normal; without any of the four they are
                               N(0, 1/√rows), and 0 for biases.
    initial_min, initial_max:  first values are even between the two.
    learning_rate:             multiplies that of the optimizer; 0 freezes the parameter.
    momentum, l1_rate, l2_rate, gradient_clipping_threshold: instead of the optimizer's.
    is_static:                 it stays as it is.
    sparse_update:             only the rows of the batch are exchanged and updated.
    initializer:               a function of the parameter's name that returns its first values.
    """

    name: str | None = None
    is_static: bool = False
    initial_std: float | None = None
    initial_mean: float | None = None
    initial_max: float | None = None
    initial_min: float | None = None
    l1_rate: float | None = None
    l2_rate: float | None = None
    learning_rate: float | None = None
    momentum: float | None = None
    gradient_clipping_threshold: float | None = None
    sparse_update: bool = False
    update_hooks: Any = None
    initializer: Any = None

    mistaken_as: ClassVar[str] = "a ParamAttr"

    def __post_init__(self) -> None:
        if self.name is not None and not (isinstance(self.name, str) and self.name):
            raise mistake.wrong_type(f"name must be a str but is {mistake.kind_of(self.name)}")
        mistake.truth("is_static", self.is_static)
        mistake.truth("sparse_update", self.sparse_update)
        for field in (*_NOT_NEGATIVE, *_RANGE, "initial_mean", "momentum"):
            self._make_number(field)
        if self.momentum is not None and not 0 <= self.momentum < 1:
            raise mistake.invalid("momentum must be at least 0 and below 1", momentum=self.momentum)
        self._check_first_values()
        if self.update_hooks is not None:
            raise mistake.unsupported("update_hooks are not there yet; leave them out")
        if self.initializer is not None and not callable(self.initializer):
            raise mistake.wrong_type(
                "initializer must be a function that takes the parameter's name and returns its "
                f"first values as an array but is {mistake.kind_of(self.initializer)}"
            )

    def initial(self, default: dict[str, Any]) -> dict[str, Any]:
        """The first values as the parameter server describes them; `default` where none is said."""
        if self.initial_min is not None:
            return {"name": "uniform", "low": self.initial_min, "high": self.initial_max}
        if self.initial_mean is None and self.initial_std is None:
            return default
        mean = 0.0 if self.initial_mean is None else self.initial_mean
        std = _STD if self.initial_std is None else self.initial_std
        return {"name": "normal", "mean": mean, "std": std}

    def _make_number(self, field: str) -> None:
        value = getattr(self, field)
        if value is None:
            return
        number = mistake.real(field, value)
        if field in _NOT_NEGATIVE and number < 0:
            raise mistake.invalid(f"{field} must be 0 or more", **{field: value})
        object.__setattr__(self, field, number)

    def _check_first_values(self) -> None:
        given = {field for field in (*_NORMAL, *_RANGE) if getattr(self, field) is not None}
        if given and self.initializer is not None:
            raise mistake.invalid(f"give either initializer or {', '.join(sorted(given))}")
        if given & set(_NORMAL) and given & set(_RANGE):
            raise mistake.invalid(
                "give initial_mean and initial_std, or initial_min and initial_max, not both"
            )
        if self.initial_min is None and self.initial_max is None:
            return
        if self.initial_min is None or self.initial_max is None:
            raise mistake.invalid("initial_min and initial_max go together; give both")
        if self.initial_min >= self.initial_max:
            raise mistake.invalid(
                "initial_min must be below initial_max",
                initial_min=self.initial_min,
                initial_max=self.initial_max,
            )


@dataclasses.dataclass(frozen=True)
class ExtraAttr:
    """A layer's output: dropout, and a bound on the gradient that flows back through it.

    drop_rate:                 the share of the output that is 0 in training, at random.
    error_clipping_threshold:  the largest absolute value of an element of its gradient.
    device:                    accepted and ignored: a network runs on one device.
    """

    error_clipping_threshold: float | None = None
    drop_rate: float | None = None
    device: int | None = None

    mistaken_as: ClassVar[str] = "an ExtraAttr"

    def __post_init__(self) -> None:
        for field in ("error_clipping_threshold", "drop_rate"):
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, mistake.real(field, value))


class HookAttr:
    """Pruning, in the original."""

    def __init__(self, *_arguments: object, **_settings: object) -> None:
        raise mistake.unsupported("parameter hooks (pruning) are not there yet; leave them out")


for _class in (ParamAttr, ExtraAttr):
    _class.__init__ = mistake.checked_arguments(_class.__init__)  # type: ignore[method-assign]

Param = ParameterAttribute = ParamAttr
Extra = ExtraLayerAttribute = ExtraAttr
Hook = HookAttribute = HookAttr

__all__ = [
    "Extra",
    "ExtraAttr",
    "ExtraLayerAttribute",
    "Hook",
    "HookAttr",
    "HookAttribute",
    "Param",
    "ParamAttr",
    "ParameterAttribute",
]


def param(name: str, value: object) -> ParamAttr:
    """What a user gave as `name`, which must be a ParamAttr or None."""
    if value is None:
        return ParamAttr()
    if isinstance(value, ParamAttr):
        return value
    raise mistake.wrong_type(
        f"{name} must be a paddle.attr.Param(...) but is {mistake.kind_of(value)}"
    )


def bias(value: object, has_bias: bool) -> ParamAttr | None:
    """What a user gave as `bias_attr`; None for no bias. `has_bias`: what None means."""
    if value is False or (value is None and not has_bias):
        return None
    if value is True or value is None:
        return ParamAttr()
    if isinstance(value, ParamAttr):
        return value
    raise mistake.wrong_type(
        "bias_attr must be False for none, True or None for the default, or a "
        f"paddle.attr.Param(...), but is {mistake.kind_of(value)}"
    )


def extra(value: object) -> ExtraAttr:
    """What a user gave as `layer_attr`."""
    if value is None:
        return ExtraAttr()
    if isinstance(value, ExtraAttr):
        return value
    raise mistake.wrong_type(
        f"layer_attr must be a paddle.attr.Extra(...) but is {mistake.kind_of(value)}"
    )


def __getattr__(name: str) -> Any:
    raise mistake.missing_name("paddle.attr", name, __all__)
