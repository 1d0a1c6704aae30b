"""What a V1 configuration finds without importing anything, and `parse_config`."""

import os
from collections.abc import Callable
from typing import Any

from paddle import errors
from paddle.v1 import workspace
from paddle.v1.recording import current
from paddle.v1.settings import Settings
from paddle.v2 import mistake
from paddle.v2.attr import HookAttr

__all__ = [
    "Import",
    "Inputs",
    "Outputs",
    "Settings",
    "cluster_config",
    "default_decay_rate",
    "default_device",
    "default_gradient_clipping_threshold",
    "default_initial_mean",
    "default_initial_smart",
    "default_initial_std",
    "default_initial_strategy",
    "default_momentum",
    "default_num_batches_regularization",
    "default_update_hooks",
    "get_config_arg",
    "parse_config",
]

# What low-level configurations of the original call, and what is called instead.
_REFUSED = {
    **dict.fromkeys(
        ("TrainData", "TestData", "ProtoData", "PyData", "SimpleData", "MultiData"),
        "define_py_data_sources2(...) with a provider",
    ),
    **dict.fromkeys(("Layer", "Input", "Projection", "FullMatrixProjection"), "fc_layer(...)"),
    **dict.fromkeys(("Evaluator",), "classification_error_evaluator(...)"),
}

_TRUE, _FALSE = ("True", "1", "true"), ("False", "0", "false")


def names() -> dict[str, Any]:
    """What every configuration finds, by name."""
    found = {name: globals()[name] for name in __all__ if name != "parse_config"}
    refused = {name: _refused(name, instead) for name, instead in _REFUSED.items()}
    return refused | found | {"open": workspace.open_file}


def _refused(name: str, instead: str) -> Callable[..., Any]:
    def call(*_arguments: Any, **_named: Any) -> Any:
        raise mistake.unsupported(
            f"{name} of low-level configurations is not there; call {instead} and the like of "
            "paddle.trainer_config_helpers"
        )

    return call


@mistake.checked_arguments
def get_config_arg(name: str, type: Callable[[str], Any], default: Any = None) -> Any:
    """A value of `--config_args=name=value,…`; `default` if it is not given."""
    current().asked.add(name)
    text = current().arguments.get(name)
    if text is None:
        return default
    if type is bool:
        if text not in _TRUE and text not in _FALSE:
            raise mistake.invalid(f"config_args: {name} must be True or False but is {text!r}")
        return text in _TRUE
    try:
        return type(text)
    except (ValueError, TypeError):
        kind = getattr(type, "__name__", type)
        raise mistake.invalid(
            f"config_args: {name} must be of type {kind} but is {text!r}"
        ) from None


@mistake.checked_arguments
def Import(config_file: str, local_args: dict[str, Any] | None = None) -> None:  # noqa: N802
    """Executes another configuration as if it stood here.

    A path is relative to the file that imports it, or to the current directory. In a saved pass the
    copies of all files are side by side.
    """
    from paddle.v1.configuration import compile_file, run
    from paddle.v1.models import DONE_FILE, PATH_FILE

    recording = current()
    importer = (recording.importing or [str(recording.namespace.get("__file__", ""))])[-1]
    folder = os.path.dirname(importer)
    beside = os.path.join(folder, config_file)
    copy = os.path.join(folder, os.path.basename(config_file))
    # A folder of the user's may have a file of that name.
    is_pass = all(os.path.exists(os.path.join(folder, each)) for each in (PATH_FILE, DONE_FILE))
    if is_pass and os.path.exists(copy):
        beside = copy
    path = beside if os.path.exists(beside) else config_file
    if os.path.abspath(path) in map(os.path.abspath, [importer, *recording.importing]):
        raise mistake.invalid(f"{config_file} imports itself")
    try:
        code = compile_file(path)
    except errors.InvalidError as error:
        if os.path.exists(path):
            raise
        raise mistake.invalid(f"{config_file} cannot be imported: there is no such file") from error
    if path not in recording.imported:
        recording.imported.append(path)
    recording.namespace.update(local_args or {})
    recording.importing.append(path)
    try:
        run(code, recording)
    finally:
        recording.importing.pop()


def cluster_config(**arguments: Any) -> None:
    """Where the data and the results of a cluster's job are; for `paddle cluster_train`."""
    current().cluster.update(arguments)


def Inputs(*names: str) -> None:  # noqa: N802
    """As `inputs`, by the names of data layers."""
    recording = current()
    recording.inputs = [_find(recording.data_layers, name) for name in names]


def Outputs(*_names: str) -> None:  # noqa: N802
    """By names, in the original's low-level configurations."""
    raise mistake.unsupported("Outputs takes names of low-level layers; call outputs(layer)")


def _find(layers: dict[str, Any], name: str) -> Any:
    if name not in layers:
        raise mistake.invalid(f"there is no data layer {name!r}{mistake.suggestion(name, layers)}")
    return layers[name]


def default_momentum(value: float) -> None:
    """The momentum of a MomentumOptimizer that says none."""
    current().defaults.momentum = mistake.real("momentum", value)


def default_decay_rate(value: float) -> None:
    """The rate of L2 regularization where settings say none."""
    current().defaults.decay_rate = mistake.real("decay_rate", value)


def default_gradient_clipping_threshold(value: float) -> None:
    """The threshold where settings say none."""
    current().defaults.gradient_clipping_threshold = mistake.real("threshold", value)


def default_initial_std(value: float) -> None:
    """The standard deviation of the first values of weights that say nothing of theirs."""
    current().defaults.weights["std"] = mistake.real("initial_std", value)


def default_initial_mean(value: float) -> None:
    """The mean of the first values of weights that say nothing of theirs."""
    current().defaults.weights["mean"] = mistake.real("initial_mean", value)


def default_initial_strategy(value: int) -> None:
    """0 for normal first values of such weights, 1 for even ones."""
    if value not in (0, 1):
        raise mistake.invalid("initial_strategy must be 0 (normal) or 1 (uniform)", given=value)
    current().defaults.weights["strategy"] = value


def default_initial_smart(value: bool) -> None:
    """Whether such weights have a standard deviation of 1/√rows, which is the default."""
    current().defaults.weights["smart"] = bool(value)


def default_num_batches_regularization(value: int) -> None:
    """How many batches share one regularization: 1."""
    if value != 1:
        raise mistake.unsupported("num_batches_regularization must be 1", given=value)


def default_device(_device: int) -> None:
    """Accepted without effect: a network runs on one device."""
    current().tell("default_device has no effect: a network runs on one device")


def default_update_hooks(_hooks: Any) -> None:
    """Pruning, in the original."""
    HookAttr()


def parse_config(config_file: str | os.PathLike[str], config_arg_str: str = "") -> Any:
    """Reads a configuration and its data provider; returns what `paddle.v1` knows of it."""
    from paddle.v1 import configuration, provider

    path = os.fspath(config_file)
    if not isinstance(path, str):
        raise errors.WrongTypeError("config_file must be a path")
    arguments = configuration.own_arguments() | configuration.parse_arguments(config_arg_str)
    return configuration.read(path, arguments, provider.Providers().find_types)
