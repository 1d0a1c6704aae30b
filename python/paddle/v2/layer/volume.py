"""Layers over three-dimensional pictures, whose planes follow one another in each channel.

Depth, height and width come from the data layer and go from layer to layer.
"""

from collections.abc import Sequence

from paddle.v2 import activation, attr, mistake, naming
from paddle.v2.layer.base import Finish, Layer, describe, make, one, plain
from paddle.v2.layer.image import channels_of, pooling_of

_WAYS = 3


@mistake.checked_arguments
def img_conv3d(
    input: Layer,
    filter_size: int | Sequence[int],
    num_filters: int,
    name: str | None = None,
    num_channels: int | None = None,
    act: object = None,
    groups: int = 1,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    bias_attr: object = None,
    param_attr: object = None,
    shared_biases: bool = True,
    layer_attr: object = None,
    trans: bool = False,
    layer_type: str | None = None,
) -> Layer:
    """Convolution of three-dimensional pictures, Relu unless `act` is given.

    Sizes are one number for all ways, or three: across, down, through the planes.
    trans:         a transposed convolution.
    shared_biases: one number for each filter, or one for each pixel of the output.
    layer_type:    accepted and ignored.
    """
    finish = Finish(act, bias_attr, layer_attr, default_act=activation.Relu, has_bias=True)
    attributes = {
        "filters": mistake.whole("num_filters", num_filters),
        "filter_size": _ways("filter_size", filter_size),
        "stride": _ways("stride", stride),
        "padding": _ways("padding", padding, least=0),
        "groups": mistake.whole("groups", groups),
        "channels": channels_of(num_channels),
        "is_bias_shared": mistake.truth("shared_biases", shared_biases),
        "is_transposed": mistake.truth("trans", trans),
    }
    description = describe(naming.choose(name, "conv3d"), "img_conv3d", finish, attributes)
    weights = [attr.param("param_attr", param_attr)]
    return make(description, [one("input", input)], finish, weights)


@mistake.checked_arguments
def img_pool3d(
    input: Layer,
    pool_size: int | Sequence[int],
    name: str | None = None,
    num_channels: int | None = None,
    pool_type: object = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    layer_attr: object = None,
    pool_size_y: int | None = None,
    stride_y: int | None = None,
    padding_y: int | None = None,
    pool_size_z: int | None = None,
    stride_z: int | None = None,
    padding_z: int | None = None,
    ceil_mode: bool = True,
) -> Layer:
    """The largest (`Max`) or the mean (`Avg`) of what a window sees; padding counts nothing.

    Sizes are one number for all ways, or three: across, down, through the planes; those with `_y`
    and `_z` replace the second and the third.
    ceil_mode: a last window may reach beyond the edge.
    """
    attributes = {
        "pooling": pooling_of(pool_type),
        "pool_size": _ways("pool_size", pool_size, (pool_size_y, pool_size_z)),
        "stride": _ways("stride", stride, (stride_y, stride_z)),
        "padding": _ways("padding", padding, (padding_y, padding_z), least=0),
        "channels": channels_of(num_channels),
        "is_rounded_up": mistake.truth("ceil_mode", ceil_mode),
    }
    name = naming.choose(name, "pool3d")
    return plain("img_pool3d", name, [one("input", input)], attributes, layer_attr)


def _ways(
    name: str, value: object, others: tuple[object, object] = (None, None), least: int = 1
) -> list[int]:
    """Through, down and across, as the engine has them."""
    ways = list(value) if isinstance(value, (list, tuple)) else [value] * _WAYS
    if len(ways) != _WAYS:
        raise mistake.invalid(
            f"{name} must be a number or three: across, down, through the planes", **{name: value}
        )
    for place, other in enumerate(others, start=1):
        if other is not None:
            ways[place] = other
    across, down, through = (mistake.whole(name, way, least) for way in ways)
    return [through, down, across]
