"""The values of a model: `paddle.parameters.create(cost)`.

Values are numpy arrays to look at and to set; a model costs no memory before it is used. While it
is trained on parameter servers, tables with `sparse_update` live there and are read and written in
pieces: `to_tar` and `to_safetensors` never hold a whole table.
"""

import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy

from paddle import _native
from paddle.v2 import config, mistake
from paddle.v2.files import binary_file, reported_file
from paddle.v2.topology import Topology

__all__ = ["Parameters", "create"]

# The native part looks numpy's interface up when it meets the first array. That runs Python code,
# which an interrupt must not hit inside a step, so it is done here.
_native.Parameters('[{"name": "first", "dims": [1, 1]}]', 0).get("first")


def create(layers: Any) -> "Parameters":
    """The parameters of everything that `layers`, one or several, need."""
    topology = layers if isinstance(layers, Topology) else Topology(layers)
    descriptions = topology.descriptions()
    parameters = Parameters(_native.Parameters(_described(descriptions), config.current().seed))
    parameters.initialize(descriptions)
    return parameters


class Parameters:
    """Named arrays of float32; made by `create` or `Parameters.from_tar`."""

    def __init__(self, native: _native.Parameters) -> None:
        self.native = native
        self._trainer: _native.Trainer | None = None
        self._is_averaged = False

    def names(self) -> list[str]:
        """The names, in the order of the network."""
        return self.native.names()

    def keys(self) -> list[str]:
        """As `names`."""
        return self.names()

    def has_key(self, name: str) -> bool:
        """Whether there is a parameter of that name."""
        return name in self.names()

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def get_shape(self, name: str) -> tuple[int, int]:
        """Rows and columns; 0 rows for a table whose keys have no bound."""
        rows, columns = self.native.dims(self._check(name))
        return rows, columns

    def get(self, name: str) -> numpy.ndarray[Any, numpy.dtype[numpy.float32]]:
        """A copy of the values. A large table is better read with `get_rows`."""
        return self.native.get(self._check(name))

    def set(self, name: str, value: Any) -> None:
        """Replaces the values, on the servers too if the parameter lives there."""
        array = numpy.ascontiguousarray(value, dtype=numpy.float32)
        with mistake.reported_here():
            self.native.set(self._check(name), array)

    def __getitem__(self, name: str) -> numpy.ndarray[Any, numpy.dtype[numpy.float32]]:
        return self.get(name)

    def __setitem__(self, name: str, value: Any) -> None:
        self.set(name, value)

    def get_rows(self, name: str, keys: Any) -> numpy.ndarray[Any, numpy.dtype[numpy.float32]]:
        """The rows of some keys of a table."""
        return self.native.get_rows(self._check(name), _keys(keys))

    def set_rows(self, name: str, keys: Any, rows: Any) -> None:
        """Replaces the rows of some keys of a table."""
        rows = numpy.ascontiguousarray(rows, dtype=numpy.float32)
        self.native.set_rows(self._check(name), _keys(keys), rows)

    def get_grad(self, name: str) -> numpy.ndarray[Any, numpy.dtype[numpy.float32]]:
        """The gradient of the last batch, summed over its samples.

        Of a table with `sparse_update` only the rows of the batch: a row for each key.
        """
        self._check(name)
        found = None if self._trainer is None else self._trainer.gradient(name)
        if found is None:
            raise mistake.invalid(f"there is no gradient of {name!r}; train a batch first")
        _, values = found
        return values.reshape(-1, self.get_shape(name)[1])

    def to_tar(self, file: BinaryIO) -> None:
        """Writes the model; averages, where the optimizer averages."""
        self.native.to_tar(binary_file("write", file), averaged=self._is_averaged)

    @staticmethod
    def from_tar(file: BinaryIO) -> "Parameters":
        """A model made of a file alone."""
        with reported_file(file):
            native = _native.Parameters.from_tar(binary_file("read", file), config.current().seed)
        return Parameters(native)

    def init_from_tar(self, file: BinaryIO) -> None:
        """Takes the values of the parameters that are in both; the others stay."""
        with reported_file(file):
            self.native.init_from_tar(binary_file("read", file))

    def to_safetensors(self, path: str | os.PathLike[str]) -> None:
        """Writes the model as one safetensors file, which appears complete or not at all."""
        self.native.to_safetensors(os.fspath(path), averaged=self._is_averaged)

    def init_from_safetensors(self, path: str | os.PathLike[str]) -> None:
        """Takes the values of the parameters that are in both; the others stay."""
        self.native.init_from_safetensors(os.fspath(path))

    def save_pass(self, save_dir: str | os.PathLike[str], pass_id: int) -> str:
        """Writes `pass-00000` with a file for each parameter; returns its path."""
        native = self.native
        return str(native.save_pass(os.fspath(save_dir), pass_id, averaged=self._is_averaged))

    def load_pass(self, path: str | os.PathLike[str], missing: str = "fail") -> list[str]:
        """Reads such a directory; `missing` is fail, rand or zero, for those without a file.

        Returns the names of those.
        """
        return self.native.load_pass(os.fspath(path), missing)

    def extend(self, descriptions: list[dict[str, Any]]) -> None:
        """Adds those of a topology's parameters that the model does not have. Called by `SGD`."""
        missing = [each for each in descriptions if each["name"] not in self]
        if missing:
            self.native = self.native.extended(_described(missing))
            self.initialize(missing)

    def initialize(self, descriptions: list[dict[str, Any]]) -> None:
        """Sets the first values that users' functions give."""
        for each in descriptions:
            if (initializer := each["attr"].initializer) is not None:
                self._initialize(each["name"], initializer)

    def _initialize(self, name: str, initializer: Any) -> None:
        rows, columns = self.get_shape(name)
        if rows == 0:
            raise mistake.invalid(
                "a table whose keys have no bound has no first values to set; leave initializer "
                "out",
                parameter=name,
            )
        values = numpy.asarray(initializer(name), dtype=numpy.float32)
        if values.size != rows * columns:
            raise mistake.invalid(
                f"the initializer of parameter {name!r} gives {values.size} values in the shape "
                f"{values.shape} but the parameter is {rows} x {columns}"
            )
        self.set(name, values.reshape(rows, columns))

    def attach(self, trainer: _native.Trainer, is_averaged: bool) -> None:
        """Lets a trainer's gradients be seen here. Called by `SGD`."""
        self._trainer = trainer
        self._is_averaged = is_averaged

    def _check(self, name: str) -> str:
        if name in self.names():
            return name
        hint = mistake.suggestion(str(name), self.names()) or f"; there is {', '.join(self)}"
        raise mistake.invalid(f"the model has no parameter {name!r}{hint}")


def _described(descriptions: list[dict[str, Any]]) -> str:
    fields = [{key: each[key] for key in each if key != "attr"} for each in descriptions]
    return json.dumps(fields)


def _keys(keys: Any) -> Any:
    return numpy.ascontiguousarray(keys, dtype=numpy.uint64)
