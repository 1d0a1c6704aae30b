"""What a configuration says while it is executed: the functions of `trainer_config_helpers` write
here, `configuration.read` reads it afterwards."""

import atexit
import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from paddle.v2 import attr, data_type, mistake
from paddle.v2.data_type import DataType, InputType
from paddle.v2.evaluator import Evaluator
from paddle.v2.layer import Layer, planning


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the data of training, or of testing, comes from.

    files is the path of a list, or the list itself; module and object name a provider, and args
    are for its hook. place is the line that says so.
    """

    files: Any
    module: str
    object: str
    args: Any
    place: str


@dataclasses.dataclass
class Defaults:
    """What `default_…` functions set for what comes after them."""

    momentum: float | None = None
    decay_rate: float | None = None
    gradient_clipping_threshold: float | None = None
    weights: dict[str, Any] = dataclasses.field(default_factory=dict)

    def weight(self) -> attr.ParamAttr | None:
        """What a weight begins with of which the configuration says nothing."""
        if not self.weights or self.weights.get("smart"):
            return None
        mean, std = self.weights.get("mean", 0.0), self.weights.get("std", 0.01)
        if self.weights.get("strategy", 0) == 1:
            return attr.ParamAttr(initial_min=mean - std, initial_max=mean + std)
        return attr.ParamAttr(initial_mean=mean, initial_std=std)


@dataclasses.dataclass
class Recording:
    """One execution of a configuration.

    types are those of the data layers, once they are known. Without them layers are sketched.
    namespace is what the configuration's names are looked up in. end is the line of its last
    statement, for what it does not say.
    """

    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    types: Mapping[str, InputType] | None = None
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    train: Source | None = None
    test: Source | None = None
    data_layers: dict[str, Layer] = dataclasses.field(default_factory=dict)
    inputs: list[Layer] | None = None
    outputs: list[Layer] = dataclasses.field(default_factory=list)
    outputs_place: str | None = None
    evaluators: list[Evaluator] = dataclasses.field(default_factory=list)
    cluster: dict[str, Any] = dataclasses.field(default_factory=dict)
    defaults: Defaults = dataclasses.field(default_factory=Defaults)
    # Where functions were called that a configuration calls once.
    called: dict[str, str] = dataclasses.field(default_factory=dict)
    # The names that `get_config_arg` was asked for.
    asked: set[str] = dataclasses.field(default_factory=set)
    # The files that import one another at this moment, and all that were imported.
    importing: list[str] = dataclasses.field(default_factory=list)
    imported: list[str] = dataclasses.field(default_factory=list)
    namespace: dict[str, Any] = dataclasses.field(default_factory=dict)
    end: str = ""

    def call_once(self, function: str) -> None:
        """Raises if the configuration has called a function before: which of the two counts?"""
        if function in self.called:
            first = self.called[function]
            raise mistake.invalid(f"{function} is called twice; the first call is at {first}")
        self.called[function] = mistake.place()

    def tell(self, message: str) -> None:
        """Logs something about the configuration, the second time that it is executed."""
        if self.types is not None:
            mistake.warn(message)

    def type_of(self, name: str, size: int) -> InputType:
        """What a data layer is fed with."""
        if self.types is None:
            return data_type.dense_vector(size)
        type = self.types.get(name)
        if type is None:
            hint = mistake.suggestion(name, self.types)
            raise mistake.invalid(
                f"the data provider gives nothing for data layer {name!r}{hint}",
                provided=", ".join(self.types),
            )
        return fitting_type(name, size, type, "the data provider")


def fitting_type(name: str, size: int, type: InputType, giver: str) -> InputType:
    """What a data layer of a size is, given what is fed to it; raises if the two do not fit.

    As in the original, ids of a layer of size 1 are those of the provider, and a layer may have
    more ids than the provider gives.
    """
    if type.dim is None:
        return dataclasses.replace(type, dim=size)
    if type.type != DataType.Index:
        if type.dim != size:
            raise mistake.invalid(
                f"data layer {name!r} has size {size} but {giver} gives {type.dim} columns; make "
                "them equal"
            )
        return type
    if size == 1:
        return type
    if type.dim > size:
        raise mistake.invalid(
            f"data layer {name!r} has size {size} but {giver} gives ids below {type.dim}; make "
            "them equal"
        )
    return dataclasses.replace(type, dim=size)


def named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `paddle.v2` under its V1 name, by which mistakes in its arguments call it."""
    if name == function.__qualname__:
        return function

    @functools.wraps(function)
    def call(*arguments: Any, **given: Any) -> Any:
        return function(*arguments, **given)

    call.__name__ = call.__qualname__ = name
    return mistake.checked_arguments(call)


_current: Recording | None = None
# What lasts as long as a configuration that was run as a program.
_program = ExitStack()


def current() -> Recording:
    """The configuration that is being executed."""
    global _current
    if _current is None:
        # Somebody imports a configuration, or runs it as a program.
        _current = Recording()
        _program.enter_context(planning.sketched())
        # The interpreter takes this name away before its end.
        path = getattr(sys.modules.get("__main__"), "__file__", None)
        atexit.register(_train_program, _current, path)
    return _current


def _train_program(recording: Recording, path: str | None) -> None:
    """Trains a configuration that was run as a program, `python trainer_config.py`."""
    has_failed = hasattr(sys, "last_type")
    if path is None or has_failed or recording.outputs_place is None:
        return
    said = os.path.abspath(recording.outputs_place.rpartition(":")[0])
    if said == os.path.abspath(path):
        sys.stdout.flush()
        train = ["-P", "-m", "paddle.v1.train", f"--config={path}", *sys.argv[1:]]
        os.execv(sys.executable, [sys.executable, *train])


@contextmanager
def recorded(recording: Recording) -> Iterator[Recording]:
    """Whatever configurations say in this block goes to `recording`."""
    global _current
    before, _current = _current, recording
    try:
        yield recording
    finally:
        _current = before
