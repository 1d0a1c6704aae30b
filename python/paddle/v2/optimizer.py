"""Optimizers: how gradients change parameters, `paddle.optimizer.Adam(learning_rate=1e-3)`.

An optimizer describes; it is checked when it is made, and runs where the parameters are. Formulas
and defaults are in `docs/optimizers.md`.
"""

import dataclasses
import json
from typing import Any, ClassVar

from paddle import _native
from paddle.v2 import mistake
from paddle.v2.attr import ParamAttr

SCHEDULES = ("constant", "poly", "caffe_poly", "exp", "discexp", "linear", "manual", "pass_manual")


class BaseRegularization:
    """What draws all parameters towards 0 that do not say otherwise."""

    mistaken_as: ClassVar[str] = "a regularization"

    @mistake.checked_arguments
    def __init__(self, rate: float) -> None:
        self.rate = mistake.real("rate", rate)
        if self.rate < 0:
            raise mistake.invalid("rate must be 0 or more", rate=rate)


class L2Regularization(BaseRegularization):
    """`rate·w` is added to the gradient."""


class L1Regularization(BaseRegularization):
    """w moves towards 0 by `rate` times the learning rate, and stops there."""


class ModelAverage:
    """Tests and saved models use the mean of each value over a window of its updates.

    average_window:      the window as a share of all updates.
    max_average_window:  its greatest length, in updates.
    """

    mistaken_as: ClassVar[str] = "a ModelAverage"

    @mistake.checked_arguments
    def __init__(
        self,
        average_window: float,
        max_average_window: int | None = None,
        do_average_in_cpu: bool = False,
    ) -> None:
        self.window = mistake.real("average_window", average_window)
        self.window_max = (
            None
            if max_average_window is None
            else mistake.whole("max_average_window", max_average_window)
        )

    def describe(self) -> dict[str, Any]:
        """As the parameter server reads it."""
        longest = {} if self.window_max is None else {"window_max": self.window_max}
        return {"window": self.window, **longest}


@dataclasses.dataclass(frozen=True)
class Defaults:
    """What parameters have that do not say otherwise."""

    l1: float = 0.0
    l2: float = 0.0
    clip: float | None = None


class Optimizer:
    """What all optimizers take, beside what their own rule takes.

    learning_rate:           gradients are sums over the samples of a batch, of all trainers.
    learning_rate_schedule:  how it changes: constant, poly, caffe_poly, exp, discexp, linear (of
                             learning_rate_decay_a and learning_rate_decay_b), manual, pass_manual
                             (of learning_rate_args, like "1000:1,2000:0.5").
    regularization:          L2Regularization or L1Regularization, or a list of both.
    gradient_clipping_threshold: the largest absolute value of an element of a gradient.
    model_average:           a ModelAverage.
    is_async:                trainers do not wait for one another.
    async_lagged_grad_discard_ratio: with is_async, gradients that are older than so many times the
                             number of trainers are dropped; None: none are.
    batch_size:              accepted and ignored, as in the original.
    """

    mistaken_as: ClassVar[str] = "an optimizer"
    is_async: bool
    lag_ratio_max: float | None

    def __init__(self, rule: dict[str, Any], settings: dict[str, Any]) -> None:
        given = _Settings.of(type(self).__name__, settings)
        self.is_async = mistake.truth("is_async", given.is_async)
        self.lag_ratio_max = _optional_number(
            "async_lagged_grad_discard_ratio", given.async_lagged_grad_discard_ratio
        )
        self._defaults = _defaults(given)
        self._description: dict[str, Any] = {
            "rule": rule,
            "learning_rate": mistake.real("learning_rate", given.learning_rate),
        }
        schedule = _schedule(given)
        if schedule is not None:
            self._description["schedule"] = schedule
        if given.model_average is not None:
            if not isinstance(given.model_average, ModelAverage):
                raise mistake.wrong_type(
                    "model_average must be a paddle.optimizer.ModelAverage(...) but is "
                    + mistake.kind_of(given.model_average)
                )
            self._description["average"] = given.model_average.describe()
        with mistake.reported_here():
            _native.check_optimizer(self.to_json())

    def to_json(self) -> str:
        """As the parameter server reads it."""
        return json.dumps(self._description)

    @property
    def is_averaging(self) -> bool:
        """Whether tests and saved models use averages."""
        return "average" in self._description

    def defaults(self) -> Defaults:
        """What parameters have that do not say otherwise."""
        return self._defaults

    def __repr__(self) -> str:
        return f"paddle.optimizer.{type(self).__name__}({self.to_json()})"


class Momentum(Optimizer):
    """SGD, with momentum if it is above 0; Nesterov's variant on request."""

    def __init__(
        self,
        momentum: float | None = None,
        sparse: bool = False,
        nesterov: bool = False,
        **settings: Any,
    ) -> None:
        # `sparse` chose a variant for sparse rows in the original; here there is one for both.
        mistake.truth("sparse", sparse)
        factor = 0.0 if momentum is None else mistake.real("momentum", momentum)
        rule = {"name": "momentum", "momentum": factor}
        super().__init__({**rule, "nesterov": mistake.truth("nesterov", nesterov)}, settings)


class Adam(Optimizer):
    """Adam."""

    def __init__(
        self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8, **settings: Any
    ) -> None:
        numbers = _numbers(beta1=beta1, beta2=beta2, epsilon=epsilon)
        super().__init__({"name": "adam", **numbers}, settings)


class Adamax(Optimizer):
    """Adam with the largest recent gradient in place of the mean square."""

    def __init__(self, beta1: float = 0.9, beta2: float = 0.999, **settings: Any) -> None:
        super().__init__({"name": "adamax", **_numbers(beta1=beta1, beta2=beta2)}, settings)


class AdaGrad(Optimizer):
    """AdaGrad."""

    def __init__(self, **settings: Any) -> None:
        super().__init__({"name": "adagrad"}, settings)


class DecayedAdaGrad(Optimizer):
    """AdaGrad that forgets."""

    def __init__(self, rho: float = 0.95, epsilon: float = 1e-6, **settings: Any) -> None:
        numbers = _numbers(rho=rho, epsilon=epsilon)
        super().__init__({"name": "decayed_adagrad", **numbers}, settings)


class AdaDelta(Optimizer):
    """AdaDelta."""

    def __init__(self, rho: float = 0.95, epsilon: float = 1e-6, **settings: Any) -> None:
        super().__init__({"name": "adadelta", **_numbers(rho=rho, epsilon=epsilon)}, settings)


class RMSProp(Optimizer):
    """RMSProp."""

    def __init__(self, rho: float = 0.95, epsilon: float = 1e-6, **settings: Any) -> None:
        super().__init__({"name": "rmsprop", **_numbers(rho=rho, epsilon=epsilon)}, settings)


class Ftrl(Optimizer):
    """FTRL-Proximal, for sparse models; let its parameters begin at 0."""

    def __init__(self, beta: float = 1.0, **settings: Any) -> None:
        super().__init__({"name": "ftrl", **_numbers(beta=beta)}, settings)


def merge_settings(attr: ParamAttr, optimizer: Optimizer) -> dict[str, Any]:
    """The settings of a parameter for the parameter server: its own, else the optimizer's."""
    defaults = optimizer.defaults()

    def own(value: float | None, default: float) -> float:
        return default if value is None else value

    settings: dict[str, Any] = {
        "learning_rate": own(attr.learning_rate, 1.0),
        "l1": own(attr.l1_rate, defaults.l1),
        "l2": own(attr.l2_rate, defaults.l2),
    }
    if attr.momentum is not None:
        settings["momentum"] = attr.momentum
    clip = own(attr.gradient_clipping_threshold, defaults.clip or 0.0)
    # A threshold of 0 is no threshold; the parameter server has no word for it but silence.
    if clip:
        settings["clip"] = clip
    return settings


@dataclasses.dataclass(frozen=True)
class _Settings:
    learning_rate: float = 1e-3
    learning_rate_decay_a: float = 0.0
    learning_rate_decay_b: float = 0.0
    learning_rate_schedule: str | None = None
    learning_rate_args: str = ""
    regularization: Any = None
    is_async: bool = False
    model_average: ModelAverage | None = None
    gradient_clipping_threshold: float | None = None
    async_lagged_grad_discard_ratio: float | None = None
    batch_size: int | None = None

    @classmethod
    def of(cls, optimizer: str, settings: dict[str, Any]) -> "_Settings":
        names = [field.name for field in dataclasses.fields(cls)]
        for name in settings:
            if name not in names:
                hint = mistake.suggestion(name, names) or f"; it takes {', '.join(names)}"
                raise mistake.wrong_type(f"{optimizer} has no argument {name!r}{hint}")
        return cls(**settings)


def _schedule(given: _Settings) -> dict[str, Any] | None:
    name = given.learning_rate_schedule
    a = mistake.real("learning_rate_decay_a", given.learning_rate_decay_a)
    b = mistake.real("learning_rate_decay_b", given.learning_rate_decay_b)
    if name is None:
        # The original's default is poly, which without a and b is constant.
        return {"name": "poly", "a": a, "b": b} if a or b else None
    if name not in SCHEDULES:
        hint = mistake.suggestion(str(name), SCHEDULES) or f"; there is {', '.join(SCHEDULES)}"
        raise mistake.invalid(f"there is no learning_rate_schedule {name!r}{hint}")
    if name in ("manual", "pass_manual"):
        if not isinstance(given.learning_rate_args, str) or not given.learning_rate_args:
            raise mistake.invalid(
                f'learning_rate_schedule {name!r} needs learning_rate_args="1000:1,2000:0.5"'
            )
        return {"name": name, "segments": given.learning_rate_args}
    return {"name": name} if name == "constant" else {"name": name, "a": a, "b": b}


def _defaults(given: _Settings) -> Defaults:
    rates = {L1Regularization: 0.0, L2Regularization: 0.0}
    said = given.regularization
    for each in said if isinstance(said, (list, tuple)) else [said]:
        if each is None:
            continue
        if type(each) not in rates:
            raise mistake.wrong_type(
                "regularization must be a paddle.optimizer.L2Regularization(rate=...) or "
                f"L1Regularization but is {mistake.kind_of(each)}"
            )
        rates[type(each)] += each.rate
    clip = _optional_number("gradient_clipping_threshold", given.gradient_clipping_threshold)
    if clip is not None and clip < 0:
        raise mistake.invalid(
            "gradient_clipping_threshold must be above 0", gradient_clipping_threshold=clip
        )
    return Defaults(rates[L1Regularization], rates[L2Regularization], clip or None)


def _numbers(**values: object) -> dict[str, float]:
    return {name: mistake.real(name, value) for name, value in values.items()}


def _optional_number(name: str, value: object) -> float | None:
    return None if value is None else mistake.real(name, value)


# The names of V1.
MomentumOptimizer = Momentum
AdamOptimizer = Adam
AdamaxOptimizer = Adamax
AdaGradOptimizer = AdaGrad
DecayedAdaGradOptimizer = DecayedAdaGrad
AdaDeltaOptimizer = AdaDelta
RMSPropOptimizer = RMSProp

__all__ = [
    "AdaDelta",
    "AdaDeltaOptimizer",
    "AdaGrad",
    "AdaGradOptimizer",
    "Adam",
    "AdamOptimizer",
    "Adamax",
    "AdamaxOptimizer",
    "BaseRegularization",
    "DecayedAdaGrad",
    "DecayedAdaGradOptimizer",
    "Defaults",
    "Ftrl",
    "L1Regularization",
    "L2Regularization",
    "ModelAverage",
    "Momentum",
    "MomentumOptimizer",
    "Optimizer",
    "RMSProp",
    "RMSPropOptimizer",
    "merge_settings",
]


def __getattr__(name: str) -> Any:
    raise mistake.missing_name("paddle.optimizer", name, __all__)
