"""What a configuration says while it is executed: the functions of `trainer_config_helpers` write
here, `configuration.read` reads it afterwards."""

import atexit
import dataclasses
import os
import sys
from collections.abc import Iterator, Mapping
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
    """

    arguments: Mapping[str, str] = dataclasses.field(default_factory=dict)
    types: Mapping[str, InputType] | None = None
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    settings_place: str | None = None
    train: Source | None = None
    test: Source | None = None
    data_layers: dict[str, Layer] = dataclasses.field(default_factory=dict)
    inputs: list[Layer] | None = None
    outputs: list[Layer] = dataclasses.field(default_factory=list)
    outputs_place: str | None = None
    evaluators: list[Evaluator] = dataclasses.field(default_factory=list)
    cluster: dict[str, Any] = dataclasses.field(default_factory=dict)
    defaults: Defaults = dataclasses.field(default_factory=Defaults)
    # Where this configuration runs itself, and the namespace in which it does.
    imported: list[str] = dataclasses.field(default_factory=list)
    namespace: dict[str, Any] = dataclasses.field(default_factory=dict)

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
        if type.type == DataType.Index:
            # The layer says how many ids there are; the provider's number only bounds its samples.
            return dataclasses.replace(type, dim=size)
        if type.dim != size:
            raise mistake.invalid(
                f"data layer {name!r} has size {size} but the data provider gives {type.dim} "
                "columns; make them equal",
            )
        return type


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
