"""Batches on their way from a provider's process to the trainer: a column for each input.

Dense rows travel as one array, which is much faster than many small ones; lists of ids are fast as
they are. A column whose values are not what its type says travels unchanged, and whoever converts
the batch says what is wrong with it.
"""

from collections.abc import Sequence
from typing import Any

import numpy

from paddle import errors
from paddle.v2.data_type import DataType, InputType, SequenceType

Sample = tuple[Any, ...]


def pack(names: Sequence[str], types: Sequence[InputType], batch: Sequence[Sample]) -> list[Any]:
    """The columns of a batch; numbers that are NaN or infinite are an error."""
    columns = zip(names, types, zip(*batch, strict=True), strict=True)
    return [
        _dense(name, type, values) if _is_dense(type) else values for name, type, values in columns
    ]


def unpack(columns: list[Any]) -> list[Sample]:
    """The samples of a batch."""
    return list(zip(*columns, strict=True))


def _is_dense(type: InputType) -> bool:
    return type.type == DataType.Dense and type.seq_type != SequenceType.SUB_SEQUENCE


def _dense(name: str, type: InputType, values: tuple[Any, ...]) -> Any:
    """A matrix of rows if they are as long as their type says, else an array for each value."""
    if type.seq_type == SequenceType.NO_SEQUENCE:
        rows = _numbers(values)
        if rows is not None and rows.shape == (len(values), type.dim) and _are_finite(rows):
            return rows
    found = [_numbers(value) for value in values]
    for numbers in found:
        if numbers is not None and not _are_finite(numbers):
            shown = numbers.tolist()
            raise errors.InvalidError(
                f"a number of {name!r} is NaN or infinite (value: {shown!r:.60})"
            )
    return [
        value if numbers is None else numbers for value, numbers in zip(values, found, strict=True)
    ]


def _numbers(value: Any) -> Any:
    try:
        return numpy.asarray(value, dtype=numpy.float32)
    except (ValueError, TypeError):
        return None


def _are_finite(numbers: Any) -> bool:
    return bool(numpy.isfinite(numbers).all())
