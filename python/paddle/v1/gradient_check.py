"""`--job=checkgrad`: gradients against what the cost does when parameters move along them."""

from typing import Any

import numpy

from paddle import errors
from paddle.v1 import figures
from paddle.v1.log import log
from paddle.v1.session import Session
from paddle.v1.training import load_model

# The share by which a change of the cost may differ from what the gradient says.
TOLERANCE = 0.05
# A step that is too long leaves the tangent, one that is too short drowns in rounding: these shares
# of --checkgrad_eps are tried, one after the other.
SHARES = (1.0, 0.1)
# Layers that compute something else each time.
_RANDOM = ("nce", "sampling_id")


def run(session: Session) -> None:
    """Checks the gradient of every parameter with the first batch of the data."""
    _refuse_chance(session)
    data = session.require_train()
    samples = next(data.process.samples(0), None)
    if samples is None:
        raise errors.InvalidError(
            f"the data provider gave no sample in a whole pass (at: {data.place})"
        )
    data.process.close()
    load_model(session)
    check = _Check(session, samples)
    cost = check.cost()
    gradients = {name: session.native.gradient(name) for name in session.parameters}
    log.info(f"original cost={figures.number(cost)}")
    wrong = [
        name
        for name, gradient in gradients.items()
        if gradient is not None and not check.is_right(name, gradient, cost)
    ]
    if wrong:
        raise errors.Error(
            f"the gradient of {', '.join(wrong)} differs from what the cost does by more than "
            f"{TOLERANCE:g} of it"
        )


class _Check:
    def __init__(self, session: Session, samples: list[Any]) -> None:
        self._session = session
        self._samples = samples

    def cost(self) -> float:
        """The cost of the batch, with the values as they are."""
        data = self._session.require_train()
        cost, _ = self._session.native.forward_backward(data.feeder(self._samples))
        return cost

    def is_right(self, name: str, gradient: tuple[Any, Any], cost: float) -> bool:
        """Whether a gradient says what the cost does when its parameter moves."""
        if not numpy.any(gradient[1]):
            log.info(f"{name:20} its gradient is 0")
            return True
        change = abs(cost) * self._session.command.checkgrad_eps
        return any(self._agrees(name, gradient, share * change) for share in SHARES)

    def _agrees(self, name: str, gradient: tuple[Any, Any], expected: float) -> bool:
        """Moves a parameter along its gradient, both ways, as far as is to change the cost so."""
        keys, slope = gradient
        square = float(numpy.dot(slope.astype(numpy.float64), slope))
        parameters = self._session.parameters
        before = parameters.get(name) if keys is None else parameters.get_rows(name, keys)
        step = expected / square
        move = (slope * step).reshape(before.shape).astype(numpy.float32)
        costs = []
        for sign in (1, -1):
            self._set(name, keys, before + sign * move)
            costs.append(self.cost())
        self._set(name, keys, before)
        true = 0.5 * (costs[0] - costs[1])
        difference = true / expected - 1
        agrees = bool(abs(difference) <= TOLERANCE)
        log.info(
            f"{name:20} step={figures.number(step)} cost1={figures.number(costs[0])} "
            f"cost2={figures.number(costs[1])} true_delta={figures.number(true)} "
            f"analytic_delta={figures.number(expected)} diff={figures.number(difference)}"
            f"{'' if agrees else ' ***'}"
        )
        return agrees

    def _set(self, name: str, keys: Any, values: Any) -> None:
        if keys is None:
            self._session.parameters.set(name, values)
        else:
            self._session.parameters.set_rows(name, keys, values)


def _refuse_chance(session: Session) -> None:
    for layer in session.trainer.get_topology().layers:
        described = layer.describe()
        if described.get("drop_rate") or layer.kind in _RANDOM:
            what = "dropout" if described.get("drop_rate") else layer.kind
            raise errors.InvalidError(
                f"gradients cannot be checked with chance in the network: layer {layer.name!r} has "
                f"{what} (at: {layer.place})"
            )
