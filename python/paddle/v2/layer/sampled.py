"""Costs over many classes that look at a few of them: nce and hsigmoid."""

from collections.abc import Iterable
from typing import Any

from paddle.v2 import activation, attr, mistake, naming
from paddle.v2.layer.base import (
    Finish,
    Layer,
    describe,
    one,
    optional,
    several,
    weight_attributes,
)


def _weights(
    param_attr: object, bias_attr: object, inputs: int
) -> tuple[dict[str, attr.ParamAttr], bool]:
    """What the user said of the parameters, and whether there is a bias."""
    weights = enumerate(weight_attributes(param_attr, inputs))
    said = {f"w{place}": weight for place, weight in weights}
    bias = attr.bias(bias_attr, True)
    return (said, False) if bias is None else ({**said, "wbias": bias}, True)


def _classes(num_classes: object, label: Layer) -> int:
    return label.size if num_classes is None else mistake.whole("num_classes", num_classes)


@mistake.checked_arguments
def nce(
    input: Any,
    label: Layer,
    num_classes: int | None = None,
    act: object = None,
    param_attr: object = None,
    weight: Layer | None = None,
    num_neg_samples: int = 10,
    neg_distribution: Iterable[float] | None = None,
    name: str | None = None,
    bias_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """Noise-contrastive estimation: the label against `num_neg_samples` classes drawn by chance.

    neg_distribution: how often each class is drawn; all alike unless given.
    """
    if activation.name_of(act, activation.Sigmoid) != activation.Sigmoid.name:
        raise mistake.invalid("nce is defined for sigmoid; leave act out")
    inputs = several("input", input)
    truth = one("label", label)
    said, has_bias = _weights(param_attr, bias_attr, len(inputs))
    shares = neg_distribution
    attributes = {
        "classes": _classes(num_classes, truth),
        "negatives": mistake.whole("num_neg_samples", num_neg_samples),
        "distribution": None
        if shares is None
        else [mistake.real("neg_distribution", share) for share in shares],
        "has_weight": weight is not None,
        "has_bias": has_bias,
    }
    finish = Finish(layer_attr=layer_attr)
    description = describe(naming.choose(name, "nce_layer"), "nce", finish, attributes)
    return Layer(description, [*inputs, truth, *optional("weight", weight)], said)


@mistake.checked_arguments
def hsigmoid(
    input: Any,
    label: Layer,
    num_classes: int | None = None,
    name: str | None = None,
    bias_attr: object = None,
    param_attr: object = None,
    layer_attr: object = None,
) -> Layer:
    """Hierarchical sigmoid: the cost of the turns to the label in a binary tree of all classes."""
    inputs = several("input", input)
    truth = one("label", label)
    said, has_bias = _weights(param_attr, bias_attr, len(inputs))
    attributes = {"classes": _classes(num_classes, truth), "has_bias": has_bias}
    finish = Finish(layer_attr=layer_attr)
    description = describe(naming.choose(name, "hsigmoid"), "hsigmoid", finish, attributes)
    return Layer(description, [*inputs, truth], said)
