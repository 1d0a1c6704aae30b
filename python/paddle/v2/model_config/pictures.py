"""The inputs of layers over pictures: what the original says of windows, sizes and channels."""

from typing import TYPE_CHECKING, Any

from paddle.v2.model_config.message import Message

if TYPE_CHECKING:
    from paddle.v2.model_config.layers import Described


def convolution(layer: "Described") -> Message:
    """The input of a convolution, or of a transposed one."""
    attributes = layer.attributes
    channels, (height, width) = _picture(layer)
    filters = attributes["filters"]
    # A transposed convolution is described from its output's side.
    is_transposed = attributes["is_transposed"]
    inside, outside = [height, width], layer.shape.get("frame") or [1, 1]
    if is_transposed:
        inside, outside = outside, inside
    settings = Message(
        "ConvConfig",
        channels=channels,
        groups=attributes["groups"],
        filter_channels=(filters if is_transposed else channels) // attributes["groups"],
        output_x=outside[1],
        output_y=outside[0],
        img_size=inside[1],
        img_size_y=inside[0],
        caffe_mode=True,
    )
    for field in ("filter_size", "stride", "padding", "dilation"):
        down, across = _both(attributes[field])
        settings.set(field, across)
        settings.set(f"{field}_y", down)
    return _input(layer, conv_conf=settings)


def pooling(layer: "Described") -> Message:
    """The input of a pooling layer."""
    attributes = layer.attributes
    channels, (height, width) = _picture(layer)
    out = layer.shape.get("frame") or [1, 1]
    name = "max" if attributes["pooling"] == "max" else "avg"
    settings = Message(
        "PoolConfig",
        pool_type=f"{name}-projection",
        channels=channels,
        output_x=out[1],
        output_y=out[0],
        img_size=width,
        img_size_y=height,
    )
    for field, original in (("pool_size", "size"), ("stride", "stride"), ("padding", "padding")):
        down, across = _both(attributes[field])
        settings.set("size_x" if original == "size" else original, across)
        settings.set(f"{original}_y", down)
    return _input(layer, pool_conf=settings)


def normalization(layer: "Described") -> Message:
    """The input of a normalization over channels."""
    channels, (height, width) = _picture(layer)
    attributes = layer.attributes
    settings = Message(
        "NormConfig",
        norm_type="cmrnorm-projection",
        channels=channels,
        size=attributes["size"],
        # The original divides by the size here.
        scale=float(attributes["scale"]) / attributes["size"],
        pow=float(attributes["power"]),
        output_x=width,
        img_size=width,
        blocked=False,
        output_y=height,
        img_size_y=height,
    )
    return _input(layer, norm_conf=settings)


def maxout(layer: "Described") -> Message:
    """The input of a maxout layer."""
    settings = Message("MaxOutConfig", image_conf=_image(layer), groups=layer.attributes["groups"])
    return _input(layer, maxout_conf=settings)


def pyramid(layer: "Described") -> Message:
    """The input of a spatial pyramid."""
    name = "max" if layer.attributes["pooling"] == "max" else "avg"
    settings = Message(
        "SppConfig",
        image_conf=_image(layer),
        pool_type=f"{name}-projection",
        pyramid_height=layer.attributes["levels"],
    )
    return _input(layer, spp_conf=settings)


def batch_norm_inputs(
    taken: tuple[str, dict[str, Any]], slots: dict[str, str], layer: "Described"
) -> list[Message]:
    """The input three times: with the scale, the moving mean and the moving variance."""
    first = _input(layer, image_conf=_image(layer))
    others = [
        Message("LayerInputConfig", input_layer_name=taken[0], input_parameter_name=slots.get(slot))
        for slot in ("w1", "w2")
    ]
    return [first, *others]


def _input(layer: "Described", **settings: Message) -> Message:
    return Message(
        "LayerInputConfig",
        input_layer_name=layer.inputs[0][0],
        input_parameter_name=layer.slots.get("w0"),
        **settings,
    )


def _image(layer: "Described") -> Message:
    channels, (height, width) = _picture(layer)
    return Message("ImageConfig", channels=channels, img_size=width, img_size_y=height)


def _picture(layer: "Described") -> tuple[int, tuple[int, int]]:
    """Channels, and height and width, of the first input; as the engine finds them."""
    shape = layer.inputs[0][1]
    size, frame = int(shape["size"]), shape.get("frame")
    channels = layer.attributes.get("channels")
    if frame is not None:
        return size // (frame[0] * frame[1]), (frame[0], frame[1])
    if channels is None:
        return size, (1, 1)
    side = round((size / channels) ** 0.5)
    return channels, (side, side)


def _both(value: Any) -> tuple[int, int]:
    """Down and across of what may be one number."""
    return (value[0], value[1]) if isinstance(value, (list, tuple)) else (value, value)
