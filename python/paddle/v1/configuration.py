"""Reading a configuration file: it is executed twice.

The first time layers are only sketched: that tells the data sources and the order of the inputs,
which the data provider needs. The provider then tells what each data layer is fed with, and the
second time every layer is checked where it is written. What the file prints is shown once.
"""

import contextlib
import dataclasses
import io
import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

from paddle import errors
from paddle.v1 import workspace
from paddle.v1.recording import Recording, Source, recorded
from paddle.v1.settings import FLAGS, build_optimizer
from paddle.v2 import mistake, naming
from paddle.v2.data_type import InputType, dense_vector
from paddle.v2.layer import Layer, planning
from paddle.v2.optimizer import Optimizer

# Names that programs of the original use, and what Python 3 has instead.
_PYTHON_2 = {
    "ConfigParser": "configparser",
    "Queue": "queue",
    "StringIO": "io.StringIO",
    "basestring": "str",
    "cPickle": "pickle",
    "cStringIO": "io.StringIO",
    "execfile": "Import(...)",
    "long": "int",
    "raw_input": "input",
    "reduce": "functools.reduce",
    "reload": "importlib.reload",
    "unichr": "chr",
    "unicode": "str",
    "urllib2": "urllib.request",
    "xrange": "range",
}
# A file that is longer is no configuration.
FILE_BYTES_MAX = 16 << 20


class UserError(errors.InvalidError):
    """An exception of the user's own code, in a configuration."""


class OrderError(errors.InvalidError):
    """The values of a provider are not as many as the inputs."""


Types = Sequence[InputType] | Mapping[str, InputType]


@dataclasses.dataclass(frozen=True)
class Configuration:
    """What a file describes.

    order is the names of the data layers in the order of a provider's values; outputs are what is
    trained or asked for; extra_layers are what evaluators look at beside them. files has the
    configuration and what it imports. flags are those of `paddle train` that `Settings` gave, asked
    the names of its arguments. end is the line of its last statement.
    """

    path: str
    files: list[str]
    batch_size: int | None
    optimizer: Optimizer | None
    train: Source | None
    test: Source | None
    order: list[str]
    outputs: list[Layer]
    extra_layers: list[Layer]
    cluster: dict[str, Any]
    data_layers: dict[str, Layer]
    flags: dict[str, Any]
    asked: set[str]
    end: str

    def require_training(self) -> tuple[Optimizer, int]:
        """The optimizer and the batch size, which a training needs."""
        if self.optimizer is None or self.batch_size is None:
            raise errors.InvalidError(
                "the configuration says nothing of how to train; call settings(batch_size=…, "
                f"learning_rate=…, learning_method=…) (at: {self.end})"
            )
        return self.optimizer, self.batch_size


def parse_arguments(text: str) -> dict[str, str]:
    """`--config_args`: `name=value,name=value`."""
    found = {}
    for pair in text.split(","):
        name, is_there, value = pair.partition("=")
        if pair.strip() and not (is_there and name.strip()):
            raise errors.InvalidError(
                f"config_args must be name=value, separated by commas (got: {pair!r})"
            )
        if pair.strip():
            found[name.strip()] = value.strip()
    return found


def own_arguments(
    trainer_id: int = 0, is_local: bool = True, use_gpu: bool = False
) -> dict[str, str]:
    """The arguments that every configuration finds, as `--config_args` would give them."""
    return {
        "trainer_id": str(trainer_id),
        "local": str(int(is_local)),
        "use_gpu": str(int(use_gpu)),
        "with_cost": "1",
        "parallel_nn": "0",
        "use_mkldnn": "0",
    }


def read(
    path: str,
    arguments: Mapping[str, str],
    find_types: Callable[[Recording, list[str]], Types],
    on_order: Callable[[list[str], list[str]], None] = lambda _inputs, _outputs: None,
) -> Configuration:
    """Reads a file; `find_types` tells what its data layers are fed with.

    It gets the first execution and the order of the inputs. `on_order` is told that order and the
    names of the outputs.
    """
    code = compile_file(path)
    sketch = Recording(arguments)
    order: list[str] | None = None
    refused: errors.Error | None = None
    try:
        with planning.sketched():
            execute(sketch, path, code)
        order = input_order(sketch)
    except UserError:
        raise
    except errors.Error as error:
        # Guessed sizes may be refused where true ones are not; the second time will tell.
        refused = error
        if (sketch.train or sketch.test) is None:
            raise
    if order is not None:
        on_order(order, [layer.name for layer in sketch.outputs])
    try:
        return _read_checked(path, code, sketch, order, find_types)
    except OrderError:
        if refused is None:
            raise
        # Without the order of the inputs that is no wonder; what is wrong was found before.
        raise refused from None


def _read_checked(
    path: str,
    code: CodeType,
    sketch: Recording,
    order: list[str] | None,
    find_types: Callable[[Recording, list[str]], Types],
) -> Configuration:
    types = find_types(sketch, order or list(sketch.data_layers))
    for _ in range(2):
        assumed = order or list(sketch.data_layers)
        # What nothing needs is not fed, as a label where the outputs are predictions.
        spare = {
            name: dense_vector(layer.size)
            for name, layer in sketch.data_layers.items()
            if name not in assumed
        }
        recording = Recording(sketch.arguments, types=spare | _by_name(types, assumed, sketch))
        with contextlib.redirect_stdout(io.StringIO()), _second_time():
            execute(recording, path, code)
        order = input_order(recording)
        if order == assumed or isinstance(types, Mapping):
            return _finish(path, recording, order)
    raise errors.InvalidError(
        f"{path} has its inputs in another order each time it is executed; call inputs(...)"
    )


@contextlib.contextmanager
def _second_time() -> Iterator[None]:
    """Says of an exception of the user's code that the same code has run before, and did well."""
    try:
        yield
    except UserError as error:
        what, _, place = str(error).rpartition(" (at: ")
        raise UserError(
            f"{what}; a configuration is executed twice, and this is the second time (at: {place}"
        ) from error


def input_order(recording: Recording) -> list[str]:
    """The names of the data layers: as `inputs` says, else as the outputs need them."""
    if not recording.outputs:
        raise errors.InvalidError(
            f"the configuration has no outputs; end it with outputs(cost) (at: {recording.end})"
        )
    if recording.inputs is not None:
        return [layer.name for layer in recording.inputs]
    wanted = [
        *recording.outputs,
        *(layer for each in recording.evaluators for layer in each.inputs),
    ]
    return [layer.name for layer in _depth_first(wanted) if layer.type is not None]


def _depth_first(outputs: Sequence[Layer]) -> list[Layer]:
    """What the outputs need, inputs before what they feed; deep networks do not fill the stack."""
    found: dict[int, Layer] = {}
    seen: set[int] = set()
    waiting = [(layer, False) for layer in reversed(outputs)]
    while waiting:
        layer, is_entered = waiting.pop()
        if is_entered:
            found[layer.serial] = layer
        elif layer.serial not in seen:
            seen.add(layer.serial)
            waiting.append((layer, True))
            needed = layer.parents if layer.sources is None else layer.sources
            waiting.extend((parent, False) for parent in reversed(needed))
    return list(found.values())


def _by_name(types: Types, order: list[str], sketch: Recording) -> dict[str, InputType]:
    if isinstance(types, Mapping):
        return dict(types)
    if len(types) != len(order):
        source = sketch.train or sketch.test
        at = f", at: {source.place}" if source else ""
        raise OrderError(
            f"the data provider gives {len(types)} values but the network has {len(order)} inputs; "
            f"the order is that of inputs(...) (inputs: {', '.join(order)}{at})"
        )
    return dict(zip(order, types, strict=True))


def _finish(path: str, recording: Recording, order: list[str]) -> Configuration:
    trained, batch_size = build_optimizer(recording)
    reached = {layer.serial for layer in _depth_first(recording.outputs)}
    looked_at = dict.fromkeys(layer for each in recording.evaluators for layer in each.inputs)
    return Configuration(
        path=path,
        files=[path, *recording.imported],
        batch_size=batch_size,
        optimizer=trained,
        train=recording.train,
        test=recording.test,
        order=order,
        outputs=recording.outputs,
        extra_layers=[layer for layer in looked_at if layer.serial not in reached],
        cluster=recording.cluster,
        data_layers=recording.data_layers,
        flags={name: recording.settings[name] for name in FLAGS if name in recording.settings},
        asked=recording.asked,
        end=recording.end,
    )


def compile_file(path: str) -> CodeType:
    """Reads a configuration, or one that is imported, without executing it."""
    try:
        with open(path, "rb") as file:
            source = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise errors.InvalidError(
            f"cannot read the configuration: {error.strerror} (file: {path})"
        ) from None
    if len(source) > FILE_BYTES_MAX:
        raise errors.InvalidError(f"this is too long for a configuration (file: {path})")
    try:
        return compile(source, path, "exec")
    except SyntaxError as error:
        hint = ""
        if "print" in str(error.msg) or "exec" in str(error.msg):
            hint = "; configurations are Python 3"
        raise errors.InvalidError(
            f"the configuration is not Python: {error.msg}{hint} (at: {path}:{error.lineno or 1})"
        ) from None
    except ValueError as error:
        raise errors.InvalidError(
            f"the configuration is not Python: {error} (file: {path})"
        ) from None


def execute(recording: Recording, path: str, code: CodeType) -> None:
    """Executes a configuration; what it says goes to `recording`."""
    from paddle.trainer.config_parser import names

    naming.reset()
    recording.namespace = {"__name__": "trainer_config", "__file__": path, **names()}
    recording.end = f"{_shown(path)}:{max(line or 1 for *_, line in code.co_lines())}"
    with recorded(recording):
        run(code, recording)


def run(code: CodeType, recording: Recording) -> None:
    """Executes a configuration, or one that it imports; errors name the user's line."""
    try:
        exec(code, recording.namespace)
    except errors.Error:
        raise
    except (Exception, SystemExit) as error:
        raise explained(error, recording.namespace) from error


def explained(error: BaseException, known: Mapping[str, Any]) -> errors.Error:
    """An exception of a user's file as one line that names file and line."""
    what = described(error)
    if isinstance(error, SystemExit):
        what = f"the configuration ends the program: exit({error.code!r})"
    if isinstance(error, NameError) and error.name and error.name not in _PYTHON_2:
        what = f"there is no {error.name!r}{mistake.suggestion(error.name, known)}"
    return UserError(f"{what} (at: {place_of(error)})")


def described(error: BaseException) -> str:
    """The type and the text of an exception of a user's code, in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, OSError):
        text += workspace.explained(error.filename)
    if isinstance(error, NameError | ModuleNotFoundError) and error.name in _PYTHON_2:
        text += f"; this is Python 3, which has {_PYTHON_2[error.name]}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def place_of(error: BaseException, otherwise: str | None = None) -> str:
    """`file:line` of the innermost frame that is the user's; `otherwise` if there is none."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename)}:{error.lineno}"
    here, ours = os.getcwd() + os.sep, os.path.dirname(os.path.dirname(__file__)) + os.sep
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if not frame.filename.startswith((ours, "<frozen"))]
    if not outside and otherwise is not None:
        return _shown(otherwise)
    own = [f for f in outside if f.filename.startswith(here) or not f.filename.startswith("/")]
    for frame in reversed(own or outside or list(frames)):
        return f"{_shown(frame.filename)}:{frame.lineno}"
    return "unknown"


def _shown(path: str) -> str:
    return path.removeprefix(os.getcwd() + os.sep)
