"""Ways to make one row of a sequence, or one pixel of a window: `paddle.pooling.Max()`."""

from typing import ClassVar

from paddle.v2 import mistake


class BasePooling:
    """A way of pooling."""

    name: ClassVar[str]
    mistaken_as: ClassVar[str] = "a pooling type"

    def __repr__(self) -> str:
        return f"paddle.pooling.{type(self).__name__}()"


class Max(BasePooling):
    """The largest of each column."""

    name = "max"

    @mistake.checked_arguments
    def __init__(self, output_max_index: bool | None = None) -> None:
        if output_max_index:
            raise mistake.unsupported("output_max_index is not there yet; Max gives the values")


class Avg(BasePooling):
    """The mean of each column."""

    name = "average"


class Sum(BasePooling):
    """The sum of each column."""

    name = "sum"


class SquareRootN(BasePooling):
    """The sum of each column over the square root of the sequence's length."""

    name = "sqrt_n"


class CudnnMax(Max):
    """As Max: the original's name for what a GPU's library computes."""


class CudnnAvg(Avg):
    """As Avg: the original's name for what a GPU's library computes."""


__all__ = ["Avg", "BasePooling", "CudnnAvg", "CudnnMax", "Max", "SquareRootN", "Sum"]

NOT_YET = {
    "CudnnAvgInclPad": "the nearest is Avg, which does not count the padding",
    "MaxWithMask": "the nearest is Max, without the places of the largest",
}


def name_of(pooling_type: object, argument: str = "pooling_type") -> str:
    """The engine's name of what a user gave as `argument`; Max if nothing."""
    if pooling_type is None:
        return Max.name
    if isinstance(pooling_type, BasePooling):
        return pooling_type.name
    if isinstance(pooling_type, type) and issubclass(pooling_type, BasePooling):
        return pooling_type.name
    raise mistake.wrong_type(
        f"{argument} must be a pooling type like paddle.pooling.Max() but is "
        + mistake.kind_of(pooling_type)
    )


def __getattr__(name: str) -> object:
    raise mistake.missing_name("paddle.pooling", name, __all__, NOT_YET)
