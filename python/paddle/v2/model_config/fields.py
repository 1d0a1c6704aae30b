"""What the original calls each kind of layer, and which fields the kind fills."""

from collections.abc import Callable
from typing import Any

from paddle.v2.model_config import projections
from paddle.v2.model_config.described import Described
from paddle.v2.model_config.message import Message

ACTIVATIONS = {"linear": "", "soft_relu": "softrelu", "soft_sign": "softsign"}


def activation_name(name: str) -> str:
    """What the original calls an activation."""
    return ACTIVATIONS.get(name, name)


# Kinds whose name in the original is another.
_TYPES = {
    "block_expand": "blockexpand",
    "cos_sim": "cos",
    "cross_channel_norm": "norm",
    "cross_entropy": "multi-class-cross-entropy",
    "cross_entropy_with_selfnorm": "multi_class_cross_entropy_with_selfnorm",
    "eos": "eos_id",
    "grumemory": "gated_recurrent",
    "gru_step": "gru_step",
    "img_cmrnorm": "norm",
    "img_pool": "pool",
    "img_pool3d": "pool3d",
    "lambda": "lambda_cost",
    "linear_comb": "convex_comb",
    "max_id": "maxid",
    "rank": "rank-cost",
    "repeat": "featmap_expand",
    "sequence_concat": "seqconcat",
    "sequence_end": "seqlastins",
    "sequence_reshape": "seqreshape",
    "sum": "sum_cost",
}


def type_name(layer: Described) -> str:
    """What the original calls the kind of a layer."""
    attributes = layer.attributes
    if layer.kind == "mixed":
        return "concat2" if attributes.get("is_concatenated") else "mixed"
    if layer.kind == "pooling":
        return "max" if attributes["pooling"] == "max" else "average"
    if layer.kind == "img_conv":
        return "exconvt" if attributes["is_transposed"] else "exconv"
    if layer.kind == "img_conv3d":
        return "deconv3d" if attributes["is_transposed"] else "conv3d"
    if layer.kind == "sequence_slice":
        return "subseq" if "count" in attributes["bounds"] else "seq_slice"
    if layer.kind == "ctc":
        return "warp_ctc" if attributes["is_linear"] else "ctc"
    if layer.kind == "cos_sim" and attributes["size"] > 1:
        return "cos_vm"
    return _TYPES.get(layer.kind, layer.kind)


def _coefficient(layer: Described) -> dict[str, Any]:
    return {"coeff": float(layer.attributes.get("coeff", 1.0))}


def _recurrence(layer: Described) -> dict[str, Any]:
    attributes = layer.attributes
    gate, state = attributes.get("gate_activation"), attributes.get("state_activation")
    return {
        "active_type": activation_name(attributes["activation"]),
        "reversed": attributes.get("is_reversed"),
        "active_gate_type": None if gate is None else activation_name(gate),
        "active_state_type": None if state is None else activation_name(state),
    }


def _aggregated(layer: Described) -> dict[str, Any]:
    return {
        "trans_type": "seq" if layer.attributes.get("of") == "sequence" else "non-seq",
        "seq_pool_stride": -1,
    }


def _filters(layer: Described) -> dict[str, Any]:
    return {
        "num_filters": layer.attributes["filters"],
        "shared_biases": layer.attributes["is_bias_shared"],
    }


def _slice_ends(layer: Described) -> dict[str, Any]:
    """Whether the one end that is given is the first."""
    bounds = layer.attributes["bounds"]
    return {"select_first": bounds == ["first"]} if len(bounds) == 1 else {}


_STRATEGIES = {"average": "average", "sum": "sum", "sqrt_n": "squarerootn"}

FIELDS: dict[str, Callable[[Described], dict[str, Any]]] = {
    "mixed": projections.operators,
    "batch_norm": lambda layer: {
        "use_global_stats": layer.attributes.get("use_global_stats"),
        "moving_average_fraction": float(layer.attributes["moving_average_fraction"]),
    },
    "cos_sim": lambda layer: {"cos_scale": float(layer.attributes["scale"])},
    "crf": _coefficient,
    "crop": lambda layer: {
        "axis": layer.attributes["axis"] + 1,
        "offset": layer.attributes["offsets"],
        "shape": layer.attributes["shape"],
    },
    "cross_entropy": _coefficient,
    "cross_entropy_with_selfnorm": lambda layer: {
        **_coefficient(layer),
        "softmax_selfnorm_alpha": float(layer.attributes["alpha"]),
    },
    "ctc": lambda layer: {
        "norm_by_times": layer.attributes["norm_by_times"],
        "blank": layer.attributes["blank"] if layer.attributes["is_linear"] else None,
    },
    "eos": lambda layer: {"eos_id": layer.attributes["eos_id"]},
    "expand": _aggregated,
    "factorization_machine": lambda layer: {"factor_size": layer.attributes["factor_size"]},
    "gru_step": _recurrence,
    "grumemory": _recurrence,
    "hsigmoid": lambda layer: {"num_classes": layer.attributes["classes"]},
    "huber_classification": _coefficient,
    "huber_regression": lambda layer: {
        **_coefficient(layer),
        "delta": float(layer.attributes["delta"]),
    },
    "img_conv": _filters,
    "img_conv3d": _filters,
    "kmax_seq_score": lambda layer: {"beam_size": layer.attributes["beam_size"]},
    "lambda": lambda layer: {
        "NDCG_num": layer.attributes["truncation"],
        "max_sort_size": layer.attributes["sorted"] or -1,
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
    "prelu": lambda layer: {"partial_sum": layer.attributes["partial_sum"]},
    "rank": _coefficient,
    "recurrent": _recurrence,
    # Of the picture before it is turned.
    "rotate": lambda layer: {
        "height": layer.attributes["height"],
        "width": layer.attributes["width"],
    },
    "sequence_end": lambda layer: {
        **_aggregated(layer),
        "select_first": layer.attributes["end"] == "first",
    },
    "sequence_slice": _slice_ends,
    "slope_intercept": lambda layer: {
        "slope": float(layer.attributes["slope"]),
        "intercept": float(layer.attributes["intercept"]),
    },
    "smooth_l1": _coefficient,
    "square_error": _coefficient,
    "sum": _coefficient,
    "switch_order": lambda layer: {
        "reshape_conf": Message(
            "ReshapeConfig",
            height_axis=range(layer.attributes["reshape_axis"]),
            width_axis=range(layer.attributes["reshape_axis"], 4),
        )
    },
}
