"""Layers that find objects in pictures: those of SSD, and pooling over regions."""

from collections.abc import Sequence
from typing import Any

from paddle.v2 import attr, mistake, naming
from paddle.v2.layer.base import Finish, Layer, describe, make, one, plain, several

_SIDES = 4


@mistake.checked_arguments
def priorbox(
    input: Layer,
    image: Layer,
    aspect_ratio: Sequence[float],
    variance: Sequence[float],
    min_size: Sequence[float],
    max_size: Sequence[float] = (),
    name: str | None = None,
) -> Layer:
    """Boxes around the middle of every pixel of `input`, in shares of `image`; one row in all.

    Eight numbers a box: left, top, right, bottom, and their variances. For each size in `min_size`
    a square, and one for each of `max_size`; then boxes of each aspect ratio, upright and lying.
    """
    variances = _numbers("variance", variance)
    if len(variances) != _SIDES:
        raise mistake.invalid("variance has a number for each of the four sides", got=variance)
    attributes = {
        "min_size": _numbers("min_size", min_size),
        "max_size": _numbers("max_size", max_size),
        "aspect_ratio": _numbers("aspect_ratio", aspect_ratio),
        "variance": variances,
    }
    parents = [one("input", input), one("image", image)]
    return plain("priorbox", naming.choose(name, "priorbox"), parents, attributes)


@mistake.checked_arguments
def multibox_loss(
    input_loc: Any,
    input_conf: Any,
    priorbox: Layer,
    label: Layer,
    num_classes: int,
    overlap_threshold: float = 0.5,
    neg_pos_ratio: float = 3.0,
    neg_overlap: float = 0.5,
    background_id: int = 0,
    name: str | None = None,
) -> Layer:
    """The loss of SSD: of the boxes' locations and of their classes.

    label: a sequence of objects: class, left, top, right, bottom (in shares of the picture), and
           whether it is difficult to see.
    """
    attributes = {
        "classes": mistake.whole("num_classes", num_classes),
        "background": mistake.whole("background_id", background_id, least=0),
        "overlap_threshold": mistake.real("overlap_threshold", overlap_threshold),
        "negative_overlap": mistake.real("neg_overlap", neg_overlap),
        "negatives": mistake.real("neg_pos_ratio", neg_pos_ratio),
    }
    parents = [
        one("priorbox", priorbox),
        one("label", label),
        *_answers(input_loc, input_conf),
    ]
    return plain("multibox_loss", naming.choose(name, "multibox_loss"), parents, attributes)


@mistake.checked_arguments
def detection_output(
    input_loc: Any,
    input_conf: Any,
    priorbox: Layer,
    num_classes: int,
    nms_threshold: float = 0.45,
    nms_top_k: int = 400,
    keep_top_k: int = 200,
    confidence_threshold: float = 0.01,
    background_id: int = 0,
    name: str | None = None,
) -> Layer:
    """The objects that are found in each picture, a sequence of rows of seven numbers.

    A row has the number of its sample, class, score, left, top, right and bottom.
    """
    attributes = {
        "classes": mistake.whole("num_classes", num_classes),
        "background": mistake.whole("background_id", background_id, least=0),
        "nms_threshold": mistake.real("nms_threshold", nms_threshold),
        "nms_top_k": mistake.whole("nms_top_k", nms_top_k),
        "keep_top_k": mistake.whole("keep_top_k", keep_top_k),
        "confidence_threshold": mistake.real("confidence_threshold", confidence_threshold),
    }
    parents = [one("priorbox", priorbox), *_answers(input_loc, input_conf)]
    return plain("detection_output", naming.choose(name, "detection_output"), parents, attributes)


@mistake.checked_arguments
def roi_pool(
    input: Layer,
    rois: Layer,
    pooled_width: int,
    pooled_height: int,
    spatial_scale: float,
    num_channels: int | None = None,
    name: str | None = None,
) -> Layer:
    """Of each region the largest pixel of each of `pooled_height` by `pooled_width` cells.

    rois: a row for each region: the number of its sample in the batch, left, top, right, bottom,
          in pixels of the picture, of which the feature map has `spatial_scale` each.
    """
    attributes = {
        "height": mistake.whole("pooled_height", pooled_height),
        "width": mistake.whole("pooled_width", pooled_width),
        "spatial_scale": mistake.real("spatial_scale", spatial_scale),
        "channels": None if num_channels is None else mistake.whole("num_channels", num_channels),
    }
    parents = [one("input", input), one("rois", rois)]
    return plain("roi_pool", naming.choose(name, "roi_pool"), parents, attributes)


@mistake.checked_arguments
def cross_channel_norm(input: Layer, name: str | None = None, param_attr: object = None) -> Layer:
    """Each pixel divided by the length of its channels, times a learnt number for each channel."""
    name = naming.choose(name, "cross_channel_norm")
    description = describe(name, "cross_channel_norm", Finish())
    weights = [attr.param("param_attr", param_attr)]
    return make(description, [one("input", input)], None, weights)


def _answers(input_loc: object, input_conf: object) -> list[Layer]:
    """Layers of locations, then as many of confidences."""
    locations, scores = several("input_loc", input_loc), several("input_conf", input_conf)
    if len(locations) != len(scores):
        raise mistake.invalid(
            "input_loc and input_conf have a layer for each feature map, so as many each",
            input_loc=len(locations),
            input_conf=len(scores),
        )
    return [*locations, *scores]


def _numbers(name: str, value: object) -> list[float]:
    """A number or a list of numbers."""
    numbers = list(value) if isinstance(value, (list, tuple)) else [value]
    return [mistake.real(name, each) for each in numbers]
