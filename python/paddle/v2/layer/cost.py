"""Costs: one number a row, which training makes small. `coeff` scales the gradient only."""

from collections.abc import Sequence
from typing import Any

from paddle.v2 import activation, mistake, naming
from paddle.v2 import evaluator as evaluators
from paddle.v2.layer.base import Finish, Layer, describe, make, one, optional, widen_label


def _cost(
    name: str, kind: str, parents: Sequence[Layer], attributes: dict[str, Any], layer_attr: object
) -> Layer:
    numbers = {key: mistake.real(key, value) for key, value in attributes.items()}
    return make(describe(name, kind, Finish(layer_attr=layer_attr), numbers), parents)


@mistake.checked_arguments
def square_error_cost(
    input: Layer,
    label: Layer,
    weight: Layer | None = None,
    name: str | None = None,
    coeff: float = 1.0,
    layer_attr: object = None,
) -> Layer:
    """`Σ(x − y)²`."""
    parents = [one("input", input), one("label", label), *optional("weight", weight)]
    name = naming.choose(name, "square_error_cost")
    return _cost(name, "square_error", parents, {"coeff": coeff}, layer_attr)


regression_cost = mse_cost = square_error_cost


@mistake.checked_arguments
def classification_cost(
    input: Layer,
    label: Layer,
    weight: Layer | None = None,
    name: str | None = None,
    evaluator: Any = evaluators.classification_error,
    layer_attr: object = None,
    coeff: float = 1.0,
    top_k: int | None = None,
) -> Layer:
    """Cross entropy of a softmax layer and its label, with the classification error as figure.

    evaluator: a function of `paddle.evaluator` or a list of them; None for none.
    top_k:     a row is right if its label is among so many best columns.
    """
    predicted, truth = one("input", input), one("label", label)
    if predicted.kind == "data" or predicted.activation != activation.Softmax.name:
        raise mistake.invalid(
            "the input of a classification_cost must be probabilities; give that layer "
            f"act=paddle.activation.Softmax(), it has {predicted.activation}",
            input=predicted.name,
        )
    widen_label(truth, predicted.size)
    weights = optional("weight", weight)
    name = naming.choose(name, "cost")
    parents = [predicted, truth, *weights]
    cost = _cost(name, "cross_entropy", parents, {"coeff": coeff}, layer_attr)
    functions = evaluator if isinstance(evaluator, (list, tuple)) else [evaluator]
    settings = {} if top_k is None else {"top_k": top_k}
    for function in functions:
        if function is not None:
            if not callable(function):
                raise mistake.wrong_type(
                    "evaluator must be a function like paddle.evaluator.classification_error but "
                    f"is {mistake.kind_of(function)}"
                )
            figure = f"{function.__name__.removesuffix('_evaluator')}_evaluator"
            function(input=predicted, label=truth, weight=weight, name=figure, **settings)
    return cost


@mistake.checked_arguments
def cross_entropy_cost(
    input: Layer,
    label: Layer,
    name: str | None = None,
    coeff: float = 1.0,
    weight: Layer | None = None,
    layer_attr: object = None,
) -> Layer:
    """`−ln p[y]`, p being the probabilities of the input and y the label."""
    predicted, truth = one("input", input), one("label", label)
    widen_label(truth, predicted.size)
    parents = [predicted, truth, *optional("weight", weight)]
    name = naming.choose(name, "cross_entropy")
    return _cost(name, "cross_entropy", parents, {"coeff": coeff}, layer_attr)


@mistake.checked_arguments
def cross_entropy_with_selfnorm_cost(
    input: Layer,
    label: Layer,
    name: str | None = None,
    coeff: float = 1.0,
    softmax_selfnorm_alpha: float = 0.1,
    layer_attr: object = None,
) -> Layer:
    """Cross entropy that also draws the sum of the outputs, here not a softmax, to 1."""
    predicted, truth = one("input", input), one("label", label)
    widen_label(truth, predicted.size)
    parents = [predicted, truth]
    name = naming.choose(name, "cross_entropy_with_selfnorm")
    attributes = {"coeff": coeff, "alpha": softmax_selfnorm_alpha}
    return _cost(name, "cross_entropy_with_selfnorm", parents, attributes, layer_attr)


@mistake.checked_arguments
def multi_binary_label_cross_entropy_cost(
    input: Layer,
    label: Layer,
    name: str | None = None,
    coeff: float = 1.0,
    layer_attr: object = None,
) -> Layer:
    """Cross entropy of each column, a probability, with its 0 or 1 in the label.

    label: dense, the ids that are 1 (`sparse_binary_vector`), or the one id that is 1.
    """
    parents = [one("input", input), one("label", label)]
    name = naming.choose(name, "multi_binary_label_cross_entropy")
    return _cost(name, "multi_binary_label_cross_entropy", parents, {"coeff": coeff}, layer_attr)


@mistake.checked_arguments
def huber_regression_cost(
    input: Layer,
    label: Layer,
    name: str | None = None,
    delta: float = 1.0,
    coeff: float = 1.0,
    layer_attr: object = None,
) -> Layer:
    """Half the square up to a distance of `delta`, linear beyond."""
    parents = [one("input", input), one("label", label)]
    name = naming.choose(name, "huber_regression_cost")
    attributes = {"coeff": coeff, "delta": delta}
    return _cost(name, "huber_regression", parents, attributes, layer_attr)


@mistake.checked_arguments
def huber_classification_cost(
    input: Layer,
    label: Layer,
    name: str | None = None,
    coeff: float = 1.0,
    layer_attr: object = None,
) -> Layer:
    """Modified Huber loss of one score against `integer_value(2)`."""
    parents = [one("input", input), one("label", label)]
    name = naming.choose(name, "huber_classification_cost")
    return _cost(name, "huber_classification", parents, {"coeff": coeff}, layer_attr)


@mistake.checked_arguments
def smooth_l1_cost(
    input: Layer,
    label: Layer,
    name: str | None = None,
    coeff: float = 1.0,
    layer_attr: object = None,
) -> Layer:
    """Half the square up to a distance of 1, the distance less ½ beyond, summed over columns."""
    parents = [one("input", input), one("label", label)]
    name = naming.choose(name, "smooth_l1_cost")
    return _cost(name, "smooth_l1", parents, {"coeff": coeff}, layer_attr)


@mistake.checked_arguments
def sum_cost(input: Layer, name: str | None = None, layer_attr: object = None) -> Layer:
    """The sum of a row: to make any layer a cost."""
    parents = [one("input", input)]
    return _cost(naming.choose(name, "sum_cost"), "sum", parents, {}, layer_attr)
