"""Costs and answers for labels of sequences: linear chains (crf) and alignments (ctc)."""

from paddle.v2 import attr, mistake, naming
from paddle.v2.layer import planning
from paddle.v2.layer.base import Finish, Layer, describe, make, one, optional


def _check_size(size: object, input: Layer, layer: str) -> None:
    if size is not None and planning.differ(mistake.whole("size", size), input.size):
        raise mistake.invalid(
            f"size is {size} but the input has size {input.size}; leave size out", layer=layer
        )


@mistake.checked_arguments
def crf(
    input: Layer,
    label: Layer,
    size: int | None = None,
    weight: Layer | None = None,
    param_attr: object = None,
    name: str | None = None,
    coeff: float = 1.0,
    layer_attr: object = None,
) -> Layer:
    """Conditional random field: −ln of the probability of a sequence's labels, one a sequence.

    The parameter, (size + 2) x size, has scores of the first tag, of the last, and of the tags that
    follow each tag; `crf_decoding` shares it by name.
    """
    parents = [one("input", input), one("label", label), *optional("weight", weight)]
    name = naming.choose(name, "crf_layer")
    _check_size(size, parents[0], name)
    attributes = {"coeff": mistake.real("coeff", coeff)}
    description = describe(name, "crf", Finish(layer_attr=layer_attr), attributes)
    return make(description, parents, weights=[attr.param("param_attr", param_attr)])


@mistake.checked_arguments
def crf_decoding(
    input: Layer,
    size: int | None = None,
    label: Layer | None = None,
    param_attr: object = None,
    name: str | None = None,
    layer_attr: object = None,
) -> Layer:
    """The best tags by the parameter of a `crf`; with a label, 1 where they are wrong and 0 else.

    `paddle.evaluator.chunk` looks at the tags in both cases.
    """
    parents = [one("input", input), *optional("label", label)]
    name = naming.choose(name, "crf_decoding_layer")
    _check_size(size, parents[0], name)
    description = describe(name, "crf_decoding", Finish(layer_attr=layer_attr))
    return make(description, parents, weights=[attr.param("param_attr", param_attr)])


@mistake.checked_arguments
def ctc(
    input: Layer,
    label: Layer,
    size: int | None = None,
    name: str | None = None,
    norm_by_times: bool = False,
    layer_attr: object = None,
) -> Layer:
    """Connectionist temporal classification of probabilities; the last class is the blank.

    norm_by_times: divides the gradient by the number of rows.
    """
    parents = [one("input", input), one("label", label)]
    name = naming.choose(name, "ctc_layer")
    _check_size(size, parents[0], name)
    attributes = {
        "blank": parents[0].size - 1,
        "is_linear": False,
        "norm_by_times": mistake.truth("norm_by_times", norm_by_times),
    }
    return make(describe(name, "ctc", Finish(layer_attr=layer_attr), attributes), parents)


@mistake.checked_arguments
def warp_ctc(
    input: Layer,
    label: Layer,
    size: int | None = None,
    name: str | None = None,
    blank: int = 0,
    norm_by_times: bool = False,
    layer_attr: object = None,
) -> Layer:
    """The same of scores, of which it makes probabilities itself; `blank` is the blank's class."""
    parents = [one("input", input), one("label", label)]
    name = naming.choose(name, "warp_ctc_layer")
    _check_size(size, parents[0], name)
    attributes = {
        "blank": mistake.whole("blank", blank, least=0),
        "is_linear": True,
        "norm_by_times": mistake.truth("norm_by_times", norm_by_times),
    }
    return make(describe(name, "ctc", Finish(layer_attr=layer_attr), attributes), parents)
