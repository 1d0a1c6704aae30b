"""Events: what a training tells the `event_handler` about itself.

Per pass: BeginPass; for each batch BeginIteration, EndForwardBackward, EndIteration; then EndPass.
Passes and batches are counted from 0. `gm` is the network that trains: `event.gm` gives outputs of
its layers.
"""

from typing import Any

__all__ = [
    "BeginIteration",
    "BeginPass",
    "EndForwardBackward",
    "EndIteration",
    "EndPass",
    "TestResult",
    "WithMetric",
]


class WithMetric:
    """Something that has figures: `metrics`, by the names of the evaluators."""

    def __init__(self, metrics: dict[str, float]) -> None:
        self.metrics = metrics

    @property
    def evaluator(self) -> str:
        """The figures as logs show them, `name=value ` for each."""
        return "".join(f"{name}={value:g} " for name, value in self.metrics.items())

    def __repr__(self) -> str:
        fields = ", ".join(f"{k}={v!r}" for k, v in vars(self).items() if k != "gm")
        return f"{type(self).__name__}({fields})"


class TestResult(WithMetric):
    """What `SGD.test` found: `cost` is the mean over all samples."""

    # Keeps test collectors, which go by names, away.
    __test__ = False

    def __init__(self, metrics: dict[str, float], cost: float) -> None:
        super().__init__(metrics)
        self.cost = cost


class BeginPass:
    """A pass over the data begins."""

    def __init__(self, pass_id: int) -> None:
        self.pass_id = pass_id


class EndPass(WithMetric):
    """A pass is over; the figures are of all its batches."""

    def __init__(self, pass_id: int, metrics: dict[str, float], gm: Any = None) -> None:
        super().__init__(metrics)
        self.pass_id = pass_id
        self.gm = gm


class BeginIteration:
    """A batch is about to be computed."""

    def __init__(self, pass_id: int, batch_id: int) -> None:
        self.pass_id = pass_id
        self.batch_id = batch_id


class EndForwardBackward:
    """The gradients of a batch are there, the parameters still as before."""

    def __init__(self, pass_id: int, batch_id: int, gm: Any = None) -> None:
        self.pass_id = pass_id
        self.batch_id = batch_id
        self.gm = gm


class EndIteration(WithMetric):
    """A batch is done: `cost` is the mean over its `samples`, the figures are its own."""

    def __init__(
        self,
        pass_id: int,
        batch_id: int,
        cost: float,
        metrics: dict[str, float],
        gm: Any = None,
        samples: int = 0,
    ) -> None:
        super().__init__(metrics)
        self.pass_id = pass_id
        self.batch_id = batch_id
        self.cost = cost
        self.gm = gm
        self.samples = samples
