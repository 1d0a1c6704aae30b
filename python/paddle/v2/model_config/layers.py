"""Layers as `LayerConfig`: what all have, and inputs with the settings of their kind.

A kind that the tables do not have is written under its own name with what all layers have: inputs,
parameters, activation.
"""

from collections.abc import Callable
from typing import Any

from paddle.v2.model_config import objects, pictures, projections
from paddle.v2.model_config.described import Described, inputs_with, plain_inputs
from paddle.v2.model_config.fields import FIELDS, activation_name, type_name
from paddle.v2.model_config.message import Message


def layer_config(layer: Described) -> Message:
    """A layer's message."""
    description = layer.description
    config = Message(
        "LayerConfig",
        name=layer.name,
        type=type_name(layer),
        size=layer.shape["size"],
        active_type=activation_name(description["activation"]),
        bias_parameter_name=layer.slots.get("wbias"),
        drop_rate=description.get("drop_rate") or None,
        error_clipping_threshold=description.get("error_clip"),
        depth=layer.shape.get("depth"),
    )
    config.set("inputs", _INPUTS.get(layer.kind, plain_inputs)(layer))
    frame = layer.shape.get("frame")
    if frame is not None:
        config.set("height", frame[0])
        config.set("width", frame[1])
    for field, value in FIELDS.get(layer.kind, _no_fields)(layer).items():
        config.set(field, value)
    return config


def _no_fields(_layer: Described) -> dict[str, Any]:
    return {}


def _clip(layer: Described) -> list[Message]:
    ends = {end: float(layer.attributes[end]) for end in ("min", "max")}
    return inputs_with(layer, clip_conf=Message("ClipConfig", **ends))


def _row_conv(layer: Described) -> list[Message]:
    settings = Message("RowConvConfig", context_length=layer.attributes["context"])
    return inputs_with(layer, row_conv_conf=settings)


_INPUTS: dict[str, Callable[[Described], list[Message]]] = {
    "batch_norm": pictures.batch_norm_inputs,
    "bilinear_interp": pictures.interpolation,
    "block_expand": pictures.blocks,
    "clip": _clip,
    "cross_channel_norm": pictures.channel_norm,
    "detection_output": objects.found,
    "img_cmrnorm": pictures.normalization,
    "img_conv": pictures.convolution,
    "img_conv3d": pictures.convolution,
    "img_pool": pictures.pooling,
    "img_pool3d": pictures.pooling,
    "maxout": pictures.maxout,
    "mixed": projections.projection_inputs,
    "multibox_loss": objects.loss,
    "pad": pictures.padding,
    "priorbox": objects.priors,
    "roi_pool": objects.regions,
    "row_conv": _row_conv,
    "scale_sub_region": pictures.scaled_part,
    "spp": pictures.pyramid,
    # The original takes the weight first.
    "interpolation": lambda layer: [plain_inputs(layer)[place] for place in (2, 0, 1)],
    "power": lambda layer: plain_inputs(layer)[::-1],
    "scaling": lambda layer: plain_inputs(layer)[::-1],
}
