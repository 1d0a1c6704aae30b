"""The inputs of layers that find objects in pictures."""

from paddle.v2.model_config.described import Described, inputs_with
from paddle.v2.model_config.message import Message


def priors(layer: Described) -> list[Message]:
    """The feature map with the sizes of its boxes, and the picture."""
    attributes = layer.attributes
    settings = Message(
        "PriorBoxConfig",
        min_size=[round(size) for size in attributes["min_size"]],
        max_size=[round(size) for size in attributes["max_size"]],
        aspect_ratio=attributes["aspect_ratio"],
        variance=attributes["variance"],
    )
    return inputs_with(layer, priorbox_conf=settings)


def loss(layer: Described) -> list[Message]:
    """Boxes, label, and a pair of layers for each feature map."""
    attributes = layer.attributes
    settings = Message(
        "MultiBoxLossConfig",
        num_classes=attributes["classes"],
        overlap_threshold=attributes["overlap_threshold"],
        neg_pos_ratio=attributes["negatives"],
        neg_overlap=attributes["negative_overlap"],
        background_id=attributes["background"],
        input_num=(len(layer.inputs) - 2) // 2,
    )
    return inputs_with(layer, multibox_loss_conf=settings)


def found(layer: Described) -> list[Message]:
    """Boxes, and a pair of layers for each feature map."""
    attributes = layer.attributes
    settings = Message(
        "DetectionOutputConfig",
        num_classes=attributes["classes"],
        nms_threshold=attributes["nms_threshold"],
        nms_top_k=attributes["nms_top_k"],
        background_id=attributes["background"],
        input_num=(len(layer.inputs) - 1) // 2,
        keep_top_k=attributes["keep_top_k"],
        confidence_threshold=attributes["confidence_threshold"],
    )
    return inputs_with(layer, detection_output_conf=settings)


def regions(layer: Described) -> list[Message]:
    """The feature map, and the regions."""
    attributes = layer.attributes
    settings = Message(
        "ROIPoolConfig",
        pooled_width=attributes["width"],
        pooled_height=attributes["height"],
        spatial_scale=attributes["spatial_scale"],
    )
    return inputs_with(layer, roi_pool_conf=settings)
