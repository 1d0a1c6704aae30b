"""`settings(...)` of a configuration → an optimizer of `paddle.v2`."""

import dataclasses
from typing import Any, ClassVar

from paddle.v1.recording import Recording, current
from paddle.v2 import mistake, optimizer
from paddle.v2.optimizer import L2Regularization, ModelAverage, Optimizer


class LearningMethod:
    """An update rule without its learning rate, which `settings` has."""

    mistaken_as: ClassVar[str] = "a learning method"
    rule: ClassVar[type[Optimizer]] = optimizer.Momentum

    def __init__(self, **own: Any) -> None:
        self.own = own

    def build(self, **settings: Any) -> Optimizer:
        """The optimizer, with settings that are common to all."""
        return self.rule(**self.own, **settings)


class MomentumOptimizer(LearningMethod):
    """SGD, with momentum if it is above 0."""

    @mistake.checked_arguments
    def __init__(self, momentum: float | None = None, sparse: bool = False) -> None:
        super().__init__(momentum=momentum, sparse=sparse)


class AdamOptimizer(LearningMethod):
    """Adam."""

    rule = optimizer.Adam

    @mistake.checked_arguments
    def __init__(self, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> None:
        super().__init__(beta1=beta1, beta2=beta2, epsilon=epsilon)


class AdamaxOptimizer(LearningMethod):
    """Adam with the largest recent gradient in place of the mean square."""

    rule = optimizer.Adamax

    @mistake.checked_arguments
    def __init__(self, beta1: float = 0.9, beta2: float = 0.999) -> None:
        super().__init__(beta1=beta1, beta2=beta2)


class AdaGradOptimizer(LearningMethod):
    """AdaGrad."""

    rule = optimizer.AdaGrad

    @mistake.checked_arguments
    def __init__(self) -> None:
        super().__init__()


class DecayedAdaGradOptimizer(LearningMethod):
    """AdaGrad that forgets."""

    rule = optimizer.DecayedAdaGrad

    @mistake.checked_arguments
    def __init__(self, rho: float = 0.95, epsilon: float = 1e-6) -> None:
        super().__init__(rho=rho, epsilon=epsilon)


class AdaDeltaOptimizer(LearningMethod):
    """AdaDelta."""

    rule = optimizer.AdaDelta

    @mistake.checked_arguments
    def __init__(self, rho: float = 0.95, epsilon: float = 1e-6) -> None:
        super().__init__(rho=rho, epsilon=epsilon)


class RMSPropOptimizer(LearningMethod):
    """RMSProp."""

    rule = optimizer.RMSProp

    @mistake.checked_arguments
    def __init__(self, rho: float = 0.95, epsilon: float = 1e-6) -> None:
        super().__init__(rho=rho, epsilon=epsilon)


BaseSGDOptimizer = LearningMethod
_METHODS = {
    "momentum": MomentumOptimizer,
    "sparse_momentum": MomentumOptimizer,
    "adam": AdamOptimizer,
    "adamax": AdamaxOptimizer,
    "adagrad": AdaGradOptimizer,
    "decayed_adagrad": DecayedAdaGradOptimizer,
    "adadelta": AdaDeltaOptimizer,
    "rmsprop": RMSPropOptimizer,
}


@mistake.checked_arguments
def settings(
    batch_size: int,
    learning_rate: float = 1e-3,
    learning_rate_decay_a: float = 0.0,
    learning_rate_decay_b: float = 0.0,
    learning_rate_schedule: str = "poly",
    learning_rate_args: str = "",
    learning_method: LearningMethod | None = None,
    regularization: Any = None,
    is_async: bool = False,
    model_average: ModelAverage | None = None,
    gradient_clipping_threshold: float | None = None,
) -> None:
    """How to train: the batch of each trainer, and how its gradients change the parameters."""
    given = {name: value for name, value in locals().items() if value is not None}
    if learning_method is not None and not isinstance(learning_method, LearningMethod):
        raise mistake.wrong_type(
            "learning_method must be an optimizer like AdamOptimizer() but is "
            + mistake.kind_of(learning_method)
        )
    current().call_once("settings")
    _record(given)


@dataclasses.dataclass
class _Raw:
    """What the low-level `Settings` accepts beside `settings`, as the original names it."""

    algorithm: str = "async_sgd"
    learning_method: str = "momentum"
    async_lagged_grad_discard_ratio: float | None = None
    num_batches_per_send_parameter: int = 1
    num_batches_per_get_parameter: int = 1
    average_window: float = 0.0
    max_average_window: int | None = None
    l2weight: float | None = None
    save_dir: str | None = None
    init_model_path: str | None = None
    start_pass: int | None = None


def Settings(**given: Any) -> None:  # noqa: N802
    """The low-level form of `settings`."""
    raw = [field.name for field in dataclasses.fields(_Raw)]
    plain = [
        "batch_size", "learning_rate", "learning_rate_decay_a", "learning_rate_decay_b",
        "learning_rate_schedule", "learning_rate_args", "gradient_clipping_threshold",
    ]  # fmt: skip
    for name in given:
        if name not in raw and name not in plain:
            hint = mistake.suggestion(name, [*raw, *plain]) or "; it is not there"
            raise mistake.wrong_type(f"Settings has no argument {name!r}{hint}")
    for name in ("num_batches_per_send_parameter", "num_batches_per_get_parameter"):
        if given.pop(name, 1) != 1:
            raise mistake.unsupported(
                f"{name} must be 1: gradients are exchanged after every batch; see --mode stale:K "
                "of paddle launch for trainers that do not wait for one another"
            )
    changed = {name: given[name] for name in plain if name in given}
    if "algorithm" in given:
        if given["algorithm"] not in ("sgd", "async_sgd"):
            raise mistake.unsupported(
                f"algorithm {given['algorithm']!r} is not there; it is sgd or async_sgd"
            )
        changed["is_async"] = given["algorithm"] == "async_sgd"
    if "learning_method" in given:
        method = _METHODS.get(given["learning_method"])
        if method is None:
            hint = mistake.suggestion(str(given["learning_method"]), _METHODS)
            raise mistake.unsupported(
                f"learning_method {given['learning_method']!r} is not there{hint}"
            )
        changed["learning_method"] = method()
    if given.get("average_window"):
        changed["model_average"] = ModelAverage(
            given["average_window"], given.get("max_average_window")
        )
    if given.get("l2weight") is not None:
        changed["regularization"] = L2Regularization(given["l2weight"])
    for name in ("save_dir", "init_model_path"):
        if not isinstance(given.get(name, ""), str):
            raise mistake.wrong_type(f"{name} must be a path but is {mistake.kind_of(given[name])}")
    if given.get("start_pass") is not None:
        mistake.whole("start_pass", given["start_pass"], least=0)
    for name in ("async_lagged_grad_discard_ratio", *FLAGS):
        if given.get(name) not in (None, ""):
            changed[name] = given[name]
    _record(changed)


# Flags of `paddle train` that a configuration may give; the command line wins.
FLAGS = ("save_dir", "init_model_path", "start_pass")
# What is no argument of an optimizer.
_OTHERS = ("batch_size", "learning_method", *FLAGS)


def _record(given: dict[str, Any]) -> None:
    recording = current()
    if "batch_size" in given:
        mistake.whole("batch_size", given["batch_size"])
    recording.settings.update(given)
    # Made here too, so that what is wrong is reported at this line.
    build_optimizer(recording)


def build_optimizer(recording: Recording) -> tuple[Optimizer | None, int | None]:
    """The optimizer and the batch size; None if the configuration says nothing of them."""
    said = recording.settings
    if not said:
        return None, None
    method = said.get("learning_method") or MomentumOptimizer()
    defaults = recording.defaults
    common = {name: value for name, value in said.items() if name not in _OTHERS}
    if defaults.gradient_clipping_threshold is not None:
        common.setdefault("gradient_clipping_threshold", defaults.gradient_clipping_threshold)
    if defaults.decay_rate is not None and "regularization" not in common:
        common["regularization"] = L2Regularization(defaults.decay_rate)
    if "settings" not in recording.called:
        # What the original's low-level form has where it says nothing.
        common = {"learning_rate": 1.0, "is_async": True} | common
    own = dict(method.own)
    if isinstance(method, MomentumOptimizer) and own.get("momentum") is None:
        own["momentum"] = defaults.momentum
    elif defaults.momentum and not isinstance(method, MomentumOptimizer):
        raise mistake.unsupported(
            f"default_momentum is for MomentumOptimizer, not {type(method).__name__}; leave it out"
        )
    return method.rule(**own, **common), said.get("batch_size")
