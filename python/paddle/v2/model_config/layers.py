"""Layers as `LayerConfig`: the original's names for their kinds, and the fields that they fill.

A kind that the tables do not have is written under its own name with what all layers have: inputs,
parameters, activation.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from paddle.v2.model_config import pictures
from paddle.v2.model_config.message import Message

ACTIVATIONS = {"linear": "", "soft_relu": "softrelu", "soft_sign": "softsign"}


@dataclasses.dataclass(frozen=True)
class Described:
    """A layer as it is written: its description, what it gives, and what it takes."""

    name: str
    kind: str
    attributes: dict[str, Any]
    description: dict[str, Any]
    shape: dict[str, Any]
    # Name and shape.
    inputs: list[tuple[str, dict[str, Any]]]
    # Names of its parameters, by slot: `w0`, `wbias`.
    slots: dict[str, str]


def layer_config(layer: Described) -> Message:
    """A layer's message."""
    description = layer.description
    config = Message(
        "LayerConfig",
        name=layer.name,
        type=_type(layer),
        size=layer.shape["size"],
        active_type=_activation(description["activation"]),
        bias_parameter_name=layer.slots.get("wbias"),
        drop_rate=description.get("drop_rate") or None,
        error_clipping_threshold=description.get("error_clip"),
    )
    config.set("inputs", _INPUTS.get(layer.kind, _plain_inputs)(layer))
    for field, value in _FIELDS.get(layer.kind, _no_fields)(layer).items():
        config.set(field, value)
    frame = layer.shape.get("frame")
    if frame is not None:
        config.set("height", frame[0])
        config.set("width", frame[1])
    return config


def _activation(name: str) -> str:
    return ACTIVATIONS.get(name, name)


def _no_fields(_layer: Described) -> dict[str, Any]:
    return {}


def _plain_inputs(layer: Described) -> list[Message]:
    return [
        Message(
            "LayerInputConfig",
            input_layer_name=name,
            input_parameter_name=layer.slots.get(f"w{place}"),
        )
        for place, (name, _) in enumerate(layer.inputs)
    ]


# Kinds whose name in the original is another.
_TYPES = {
    "cos_sim": "cos",
    "cross_entropy": "multi-class-cross-entropy",
    "cross_entropy_with_selfnorm": "multi_class_cross_entropy_with_selfnorm",
    "grumemory": "gated_recurrent",
    "gru_step": "gru_step",
    "img_cmrnorm": "norm",
    "img_pool": "pool",
    "max_id": "maxid",
    "rank": "rank-cost",
    "repeat": "featmap_expand",
    "sequence_concat": "seqconcat",
    "sequence_end": "seqlastins",
    "sequence_reshape": "seqreshape",
    "sum": "sum_cost",
}


def _type(layer: Described) -> str:
    attributes = layer.attributes
    if layer.kind == "mixed":
        return "concat2" if attributes.get("is_concatenated") else "mixed"
    if layer.kind == "pooling":
        return "max" if attributes["pooling"] == "max" else "average"
    if layer.kind == "img_conv":
        return "exconvt" if attributes["is_transposed"] else "exconv"
    if layer.kind == "ctc":
        return "warp_ctc" if attributes["is_linear"] else "ctc"
    if layer.kind == "cos_sim" and attributes["size"] > 1:
        return "cos_vm"
    return _TYPES.get(layer.kind, layer.kind)


# Projections


def _projection_inputs(layer: Described) -> list[Message]:
    """An input for each projection, with its settings; those of operators are named only."""
    inputs, place = [], 0
    for projection in layer.attributes["projections"]:
        taken = layer.inputs[place : place + _takes(projection)]
        for offset, (name, shape) in enumerate(taken):
            slot = f"w{place + offset}"
            settings = None
            if not projection["name"].endswith("_operator"):
                settings = _projection(layer, projection, slot, shape)
            inputs.append(
                Message(
                    "LayerInputConfig",
                    input_layer_name=name,
                    input_parameter_name=layer.slots.get(slot),
                    proj_conf=settings,
                )
            )
        place += len(taken)
    return inputs


def _takes(projection: dict[str, Any]) -> int:
    return 2 if projection["name"].endswith("_operator") else 1


_PROJECTIONS = {
    "dotmul": "dot_mul",
    "full_matrix": "fc",
    "trans_full_matrix": "trans_fc",
}


def _projection(
    layer: Described, projection: dict[str, Any], slot: str, shape: dict[str, Any]
) -> Message:
    name, size = projection["name"], int(shape["size"])
    gives = projection.get("size") or (
        size if name in ("dotmul", "scaling", "identity") else layer.shape["size"]
    )
    config = Message(
        "ProjectionConfig",
        type=_PROJECTIONS.get(name, name),
        name=f"_{layer.name}.{slot}",
        input_size=size,
        output_size=gives,
    )
    if name == "context":
        config.set("output_size", size * projection["length"])
        config.set("context_start", projection["start"])
        config.set("context_length", projection["length"])
        config.set("trainable_padding", projection["is_padding_learnt"])
    if name == "identity" and projection.get("offset") is not None:
        config.set("type", "identity_offset")
        config.set("offset", projection["offset"])
        config.set("output_size", projection.get("size") or size - projection["offset"])
    return config


def _operators(layer: Described) -> dict[str, Any]:
    operators, place = [], 0
    for projection in layer.attributes["projections"]:
        places = range(place, place + _takes(projection))
        if len(places) == 2:
            sizes = [layer.inputs[each][1]["size"] for each in places]
            operators.append(
                Message(
                    "OperatorConfig",
                    type="dot_mul",
                    input_indices=places,
                    input_sizes=sizes,
                    output_size=sizes[0],
                    dotmul_scale=float(projection["scale"]),
                )
            )
        place = places.stop
    return {"operator_confs": operators}


_INPUTS: dict[str, Callable[[Described], list[Message]]] = {
    "mixed": _projection_inputs,
    "batch_norm": lambda layer: pictures.batch_norm_inputs(layer.inputs[0], layer.slots, layer),
    "img_conv": lambda layer: [pictures.convolution(layer)],
    "img_pool": lambda layer: [pictures.pooling(layer)],
    "img_cmrnorm": lambda layer: [pictures.normalization(layer)],
    "maxout": lambda layer: [pictures.maxout(layer)],
    "spp": lambda layer: [pictures.pyramid(layer)],
    # The original takes the weight first.
    "interpolation": lambda layer: [_plain_inputs(layer)[place] for place in (2, 0, 1)],
}


# Fields


def _coefficient(layer: Described) -> dict[str, Any]:
    return {"coeff": float(layer.attributes.get("coeff", 1.0))}


def _recurrence(layer: Described) -> dict[str, Any]:
    attributes = layer.attributes
    gate, state = attributes.get("gate_activation"), attributes.get("state_activation")
    return {
        "active_type": _activation(attributes["activation"]),
        "reversed": attributes.get("is_reversed"),
        "active_gate_type": None if gate is None else _activation(gate),
        "active_state_type": None if state is None else _activation(state),
    }


def _aggregated(layer: Described) -> dict[str, Any]:
    return {
        "trans_type": "seq" if layer.attributes.get("of") == "sequence" else "non-seq",
        "seq_pool_stride": -1,
    }


_STRATEGIES = {"average": "average", "sum": "sum", "sqrt_n": "squarerootn"}

_FIELDS: dict[str, Callable[[Described], dict[str, Any]]] = {
    "mixed": _operators,
    "batch_norm": lambda layer: {
        "use_global_stats": layer.attributes.get("use_global_stats"),
        "moving_average_fraction": float(layer.attributes["moving_average_fraction"]),
    },
    "cos_sim": lambda layer: {"cos_scale": float(layer.attributes["scale"])},
    "crf": _coefficient,
    "cross_entropy": _coefficient,
    "cross_entropy_with_selfnorm": lambda layer: {
        **_coefficient(layer),
        "softmax_selfnorm_alpha": float(layer.attributes["alpha"]),
    },
    "ctc": lambda layer: {
        "norm_by_times": layer.attributes["norm_by_times"],
        "blank": layer.attributes["blank"] if layer.attributes["is_linear"] else None,
    },
    "expand": _aggregated,
    "gru_step": _recurrence,
    "grumemory": _recurrence,
    "hsigmoid": lambda layer: {"num_classes": layer.attributes["classes"]},
    "huber_classification": _coefficient,
    "huber_regression": lambda layer: {
        **_coefficient(layer),
        "delta": float(layer.attributes["delta"]),
    },
    "img_conv": lambda layer: {
        "num_filters": layer.attributes["filters"],
        "shared_biases": layer.attributes["is_bias_shared"],
    },
    "lstm_step": _recurrence,
    "lstmemory": _recurrence,
    "multi_binary_label_cross_entropy": _coefficient,
    "nce": lambda layer: {
        "num_classes": layer.attributes["classes"],
        "num_neg_samples": layer.attributes["negatives"],
    },
    "pooling": lambda layer: {
        **_aggregated(layer),
        "average_strategy": _STRATEGIES.get(layer.attributes["pooling"]),
    },
    "rank": _coefficient,
    "recurrent": _recurrence,
    "sequence_end": lambda layer: {
        **_aggregated(layer),
        "select_first": layer.attributes["end"] == "first",
    },
    "slope_intercept": lambda layer: {
        "slope": float(layer.attributes["slope"]),
        "intercept": float(layer.attributes["intercept"]),
    },
    "smooth_l1": _coefficient,
    "square_error": _coefficient,
    "sum": _coefficient,
}
