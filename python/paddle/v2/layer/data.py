"""Where samples enter the network."""

from paddle.v2 import mistake, naming
from paddle.v2.data_type import InputType
from paddle.v2.layer.base import Finish, Layer, describe, make


@mistake.checked_arguments
def data(
    name: str,
    type: InputType,
    height: int | None = None,
    width: int | None = None,
    depth: int | None = None,
    layer_attr: object = None,
) -> Layer:
    """Values that are fed: `paddle.layer.data(name="x", type=paddle.data_type.dense_vector(13))`.

    height, width: of a picture, whose channels follow one another in the row.
    depth:         of a three-dimensional one, how many planes follow one another in a channel.
    """
    if not isinstance(type, InputType):
        raise mistake.wrong_type(
            "type must be a data type like paddle.data_type.dense_vector(13) but is "
            + mistake.kind_of(type)
        )
    if name is None:
        raise mistake.wrong_type("a data layer needs a name; feeding refers to it")
    if (height is None) != (width is None):
        raise mistake.invalid("height and width go together; give both", height=height, width=width)
    frame, planes = None, None
    if height is not None and width is not None:
        frame = [mistake.whole("height", height), mistake.whole("width", width)]
    if depth not in (None, 1):
        planes = mistake.whole("depth", depth)
        if frame is None:
            raise mistake.invalid("depth goes with height and width; give all three", depth=depth)
    attributes = {
        "value": type.value,
        "level": type.level,
        "size": type.dim,
        "frame": frame,
        "depth": planes,
    }
    finish = Finish(layer_attr=layer_attr)
    description = describe(naming.choose(name, "data_layer"), "data", finish, attributes)
    layer = make(description, [])
    layer.type = type
    return layer
