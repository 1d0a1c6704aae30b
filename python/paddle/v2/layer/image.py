"""Layers over pictures: convolution, pooling, normalization.

A picture is a row: channel after channel, each line after line. Layers know height and width from
the data layer; where it does not say them, pictures are square and `num_channels` must be said.
"""

from collections.abc import Sequence

from paddle.v2 import activation, attr, mistake, naming
from paddle.v2 import pooling as pooling_types
from paddle.v2.layer.base import Finish, Layer, describe, make, one


@mistake.checked_arguments
def img_conv(
    input: Layer,
    filter_size: int | Sequence[int],
    num_filters: int,
    name: str | None = None,
    num_channels: int | None = None,
    act: object = None,
    groups: int = 1,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    bias_attr: object = None,
    param_attr: object = None,
    shared_biases: bool = True,
    layer_attr: object = None,
    filter_size_y: int | None = None,
    stride_y: int | None = None,
    padding_y: int | None = None,
    dilation_y: int | None = None,
    trans: bool = False,
    layer_type: str | None = None,
) -> Layer:
    """Convolution, Relu unless `act` is given; `trans` for a transposed one.

    Sizes are one number for both ways, or a pair: across, then down.
    shared_biases: one number for each filter, or one for each pixel of the output.
    layer_type:    accepted and ignored.
    """
    finish = Finish(act, bias_attr, layer_attr, default_act=activation.Relu, has_bias=True)
    attributes = {
        "filters": mistake.whole("num_filters", num_filters),
        "filter_size": sides("filter_size", filter_size, filter_size_y),
        "stride": sides("stride", stride, stride_y),
        "padding": sides("padding", padding, padding_y, least=0),
        "dilation": sides("dilation", dilation, dilation_y),
        "groups": mistake.whole("groups", groups),
        "channels": channels_of(num_channels),
        "is_bias_shared": mistake.truth("shared_biases", shared_biases),
        "is_transposed": mistake.truth("trans", trans),
    }
    description = describe(naming.choose(name, "conv"), "img_conv", finish, attributes)
    weights = [attr.param("param_attr", param_attr)]
    return make(description, [one("input", input)], finish, weights)


@mistake.checked_arguments
def img_pool(
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
    ceil_mode: bool = True,
) -> Layer:
    """The largest (`Max`) or the mean (`Avg`) of what a window sees; padding counts nothing.

    ceil_mode: a last window may reach beyond the edge.
    """
    finish = Finish(layer_attr=layer_attr)
    attributes = {
        "pooling": pooling_of(pool_type),
        "pool_size": sides("pool_size", pool_size, pool_size_y),
        "stride": sides("stride", stride, stride_y),
        "padding": sides("padding", padding, padding_y, least=0),
        "channels": channels_of(num_channels),
        "is_rounded_up": mistake.truth("ceil_mode", ceil_mode),
    }
    description = describe(naming.choose(name, "pool"), "img_pool", finish, attributes)
    return make(description, [one("input", input)])


@mistake.checked_arguments
def spp(
    input: Layer,
    name: str | None = None,
    num_channels: int | None = None,
    pool_type: object = None,
    pyramid_height: int | None = None,
    layer_attr: object = None,
) -> Layer:
    """Spatial pyramid pooling: a row of one size, whatever the picture's.

    Level after level up to `pyramid_height`, 1, 4, 16, … windows that cover the picture.
    """
    finish = Finish(layer_attr=layer_attr)
    attributes = {
        "pooling": pooling_of(pool_type),
        "levels": mistake.whole("pyramid_height", pyramid_height),
        "channels": channels_of(num_channels),
    }
    return make(
        describe(naming.choose(name, "spp"), "spp", finish, attributes), [one("input", input)]
    )


@mistake.checked_arguments
def maxout(
    input: Layer,
    groups: int,
    num_channels: int | None = None,
    name: str | None = None,
    layer_attr: object = None,
) -> Layer:
    """Of every `groups` channels, pixel by pixel the largest."""
    finish = Finish(layer_attr=layer_attr)
    attributes = {
        "groups": mistake.whole("groups", groups),
        "channels": channels_of(num_channels),
    }
    description = describe(naming.choose(name, "maxout_layer"), "maxout", finish, attributes)
    return make(description, [one("input", input)])


@mistake.checked_arguments
def img_cmrnorm(
    input: Layer,
    size: int,
    scale: float = 0.0128,
    power: float = 0.75,
    name: str | None = None,
    num_channels: int | None = None,
    layer_attr: object = None,
) -> Layer:
    """`x·(1 + scale/size·Σ x²)^−power`, the sum over the `size` channels around each pixel."""
    finish = Finish(layer_attr=layer_attr)
    attributes = {
        "size": mistake.whole("size", size),
        "scale": mistake.real("scale", scale),
        "power": mistake.real("power", power),
        "channels": channels_of(num_channels),
    }
    description = describe(naming.choose(name, "crmnorm"), "img_cmrnorm", finish, attributes)
    return make(description, [one("input", input)])


@mistake.checked_arguments
def batch_norm(
    input: Layer,
    act: object = None,
    name: str | None = None,
    img3D: bool = False,  # noqa: N803 - the original's name
    num_channels: int | None = None,
    bias_attr: object = None,
    param_attr: object = None,
    layer_attr: object = None,
    batch_norm_type: str | None = None,
    epsilon: float = 1e-5,
    moving_average_fraction: float = 0.9,
    use_global_stats: bool | None = None,
    mean_var_names: Sequence[str] | None = None,
) -> Layer:
    """Each channel with mean 0 and variance 1 over the batch, then a learnt scale and bias; Relu.

    Training measures moving averages of mean and variance (`.w1`, `.w2`), which a test takes unless
    `use_global_stats` is False. They belong to this trainer and are saved with the model.
    mean_var_names:  their names, to share them.
    img3D:           accepted; whether pictures have planes is known from the input.
    batch_norm_type: accepted and ignored.
    """
    mistake.truth("img3D", img3D)
    finish = Finish(act, bias_attr, layer_attr, default_act=activation.Relu, has_bias=True)
    is_global = True if use_global_stats is None else use_global_stats
    fraction = mistake.real("moving_average_fraction", moving_average_fraction)
    attributes = {
        "channels": channels_of(num_channels),
        "epsilon": mistake.real("epsilon", epsilon),
        "moving_average_fraction": fraction,
        "use_global_stats": mistake.truth("use_global_stats", is_global),
    }
    names: Sequence[str | None] = (None, None) if mean_var_names is None else mean_var_names
    if isinstance(names, str) or len(names) != 2:
        raise mistake.invalid("mean_var_names are two: that of the mean, that of the variance")
    weights = [attr.param("param_attr", param_attr), *(attr.ParamAttr(name=each) for each in names)]
    description = describe(naming.choose(name, "batch_norm"), "batch_norm", finish, attributes)
    return make(description, [one("input", input)], finish, weights)


def sides(name: str, value: object, down: object, least: int = 1) -> list[int]:
    """Down and across, as the engine has them; `value` is one for both, or across and down."""
    pair = list(value) if isinstance(value, (list, tuple)) else [value, value]
    if len(pair) != 2:
        raise mistake.invalid(f"{name} must be a number or a pair: across, down", **{name: value})
    if down is not None:
        pair[1] = down
    across, down = (mistake.whole(name, side, least) for side in pair)
    return [down, across]


def channels_of(num_channels: object) -> int | None:
    """What a user gave as `num_channels`."""
    return None if num_channels is None else mistake.whole("num_channels", num_channels)


def pooling_of(pool_type: object) -> str:
    """What a user gave as `pool_type`, as the engine names it."""
    name = pooling_types.name_of(pool_type, "pool_type")
    if name not in (pooling_types.Max.name, pooling_types.Avg.name):
        raise mistake.unsupported(
            "windows over pictures give the largest or the mean: paddle.pooling.Max() or Avg()",
            pool_type=pool_type,
        )
    return name
