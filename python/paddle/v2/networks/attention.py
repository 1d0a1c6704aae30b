"""Attention: one row made of a sequence, each row of which counts as much as it matches a state."""

import math
from typing import Any

from paddle.v2 import activation, layer, mistake, naming
from paddle.v2.layer import planning
from paddle.v2.layer.base import Layer, one
from paddle.v2.pooling import Sum


@mistake.checked_arguments
def simple_attention(
    encoded_sequence: Layer,
    encoded_proj: Layer,
    decoder_state: Layer,
    transform_param_attr: object = None,
    softmax_param_attr: object = None,
    weight_act: object = None,
    name: str | None = None,
) -> Layer:
    """The rows of `encoded_sequence`, weighted by how their projections match the state.

    A row's weight is the softmax over the sequence of v · act(encoded_proj + W · state); act is
    `weight_act`, Tanh if it is left out.
    """
    name = naming.choose(name, "simple_attention")
    projected = one("encoded_proj", encoded_proj)
    if planning.differ(projected.size, one("decoder_state", decoder_state).size):
        raise mistake.invalid(
            f"encoded_proj has size {projected.size} but decoder_state has size "
            f"{decoder_state.size}; they must be the same"
        )
    state = layer.mixed(
        size=projected.size,
        input=layer.full_matrix_projection(input=decoder_state, param_attr=transform_param_attr),
        name=f"{name}_transform",
    )
    everywhere = layer.expand(input=state, expand_as=encoded_sequence, name=f"{name}_expand")
    match = layer.mixed(
        size=projected.size,
        input=[
            layer.identity_projection(input=everywhere),
            layer.identity_projection(input=projected),
        ],
        act=activation.Tanh() if weight_act is None else weight_act,
        name=f"{name}_combine",
    )
    return _weighted(encoded_sequence, match, softmax_param_attr, (name, ""))


@mistake.checked_arguments
def dot_product_attention(
    encoded_sequence: Layer,
    attended_sequence: Layer,
    transformed_state: Layer,
    softmax_param_attr: object = None,
    name: str | None = None,
) -> Layer:
    """The rows of `attended_sequence`, weighted by the products of `encoded_sequence` and state."""
    name = naming.choose(name, "dot_product_attention")
    everywhere = layer.expand(
        input=transformed_state, expand_as=encoded_sequence, name=f"{name}_expand"
    )
    match = layer.dot_prod(input1=everywhere, input2=encoded_sequence, name=f"{name}_dot-product")
    return _weighted(attended_sequence, match, softmax_param_attr, (name, ""))


_KINDS = ("dot-product attention", "additive attention")


@mistake.checked_arguments
def multi_head_attention(
    query: Layer,
    key: Layer,
    value: Layer,
    key_proj_size: int,
    value_proj_size: int,
    head_num: int,
    attention_type: str,
    softmax_param_attr: object = None,
    name: str | None = None,
) -> Layer:
    """`head_num` attentions to `value` side by side, each with projections of its own.

    `attention_type` is "dot-product attention" or "additive attention".
    """
    if attention_type not in _KINDS:
        raise mistake.invalid(
            f"attention_type must be one of {', '.join(_KINDS)}", attention_type=attention_type
        )
    name = naming.choose(name, "multi_head_attention")
    heads = mistake.whole("head_num", head_num)
    sizes = {
        "query": mistake.whole("key_proj_size", key_proj_size),
        "key": key_proj_size,
        "value": mistake.whole("value_proj_size", value_proj_size),
    }
    taken = {"query": query, "key": key, "value": value}
    projected: dict[str, Any] = {
        part: layer.mixed(
            size=size * heads,
            input=layer.full_matrix_projection(input=taken[part]),
            name=f"{name}_{part}_proj",
        )
        for part, size in sizes.items()
    }
    projected["query"] = layer.expand(input=projected["query"], expand_as=key)
    attended = []
    for head in range(heads):
        own = {
            part: layer.mixed(
                input=layer.identity_projection(
                    input=projected[part], offset=size * head, size=size
                )
            )
            for part, size in sizes.items()
        }
        if attention_type == _KINDS[0]:
            product = layer.dot_prod(
                input1=own["query"], input2=own["key"], name=f"{name}_dot-product_{head}"
            )
            match = layer.slope_intercept(
                input=product,
                slope=math.sqrt(1.0 / key_proj_size),
                name=f"{name}_dot-product_scaling_{head}",
            )
        else:
            match = layer.mixed(
                input=[
                    layer.identity_projection(input=own["query"]),
                    layer.identity_projection(input=own["key"]),
                ],
                act=activation.Tanh(),
                name=f"{name}_combine_{head}",
            )
        attended.append(_weighted(own["value"], match, softmax_param_attr, (name, f"_{head}")))
    return layer.concat(input=attended)


def _weighted(
    sequence: Layer, match: Layer, softmax_param_attr: object, name: tuple[str, str]
) -> Layer:
    """The sum of the rows of a sequence, weighted by a softmax over how they match."""
    prefix, suffix = name
    weight = layer.fc(
        input=match,
        size=1,
        act=activation.SequenceSoftmax(),
        param_attr=softmax_param_attr,
        bias_attr=False,
        name=f"{prefix}_softmax{suffix}",
    )
    scaled = layer.scaling(input=sequence, weight=weight, name=f"{prefix}_scaling{suffix}")
    return layer.pooling(input=scaled, pooling_type=Sum(), name=f"{prefix}_pooling{suffix}")
