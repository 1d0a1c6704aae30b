"""Saved models of `paddle train`: their directories, and what is beside the parameters."""

import os
import re
import shutil
import tempfile

from paddle import errors
from paddle.v1.configuration import Configuration
from paddle.v1.flags import Command
from paddle.v1.log import log
from paddle.v2.parameters import Parameters
from paddle.v2.topology import Topology

DONE_FILE = "done"
PATH_FILE = "path.txt"
DEFAULT_SAVE_DIR = "./output/model"


def pass_name(pass_id: int, batch: int | None = None) -> str:
    """`pass-00000`, or `pass-00000-001` in the middle of a pass."""
    return f"pass-{pass_id:05d}" if batch is None else f"pass-{pass_id:05d}-{batch:03d}"


def shown_pass(directory: str) -> str:
    """What the log calls a saved pass: `0`, `0-010` in the middle of it, else the folder's name."""
    name = os.path.basename(os.path.normpath(directory))
    found = re.fullmatch(r"pass-(\d+)(-\d+)?", name)
    return f"{int(found[1])}{found[2] or ''}" if found else name


def save_dir(command: Command) -> str:
    """Where models are saved."""
    return str(command.save_dir or os.environ.get("PADDLE_OUTPUT_DIR") or DEFAULT_SAVE_DIR)


def saves(command: Command) -> bool:
    """Whether a training saves anything."""
    return bool(command.saving_period or command.saving_period_by_batches)


def check_writable(directory: str) -> None:
    """Finds out before hours of training that nothing can be saved."""
    made = _missing(directory)
    try:
        os.makedirs(directory, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
        # There is nothing to save yet, and perhaps never.
        for each in made:
            os.rmdir(each)
    except OSError as error:
        raise errors.InvalidError(
            f"models cannot be saved: {error.strerror} (save_dir: {directory}); give another "
            "--save_dir, or --saving_period=0 to save none"
        ) from None


def _missing(directory: str) -> list[str]:
    """The directories that are to be made for one, the innermost first."""
    found = []
    path = os.path.abspath(directory)
    while not os.path.lexists(path):
        found.append(path)
        path = os.path.dirname(path)
    return found


def check_names(topology: Topology, configuration: Configuration) -> None:
    """Refuses names of configurations and parameters that files of a saved pass cannot have."""
    copied: dict[str, str] = {}
    for path in configuration.files:
        first = copied.setdefault(os.path.basename(path), path)
        if not os.path.samefile(first, path):
            raise errors.InvalidError(
                f"{first} and {path} cannot both be saved: a saved pass has a copy of each "
                "configuration, of its name; rename one, or give --saving_period=0 to save none"
            )
    taken = {DONE_FILE, "trainer_state", *(name for name, _ in beside(configuration))}
    for name, parameter in topology.parameters.items():
        if name in taken or name in (".", "..") or any(each in name for each in "/\\\0"):
            raise errors.InvalidError(
                f"the parameter {name!r} cannot be saved: a saved pass has a file for each, of its "
                f"name; give it another by ParamAttr(name=…) (at: {parameter.place})"
            )


def loaded_directory(command: Command, directory: str) -> str | None:
    """The model that a training begins with."""
    if command.init_model_path:
        return str(command.init_model_path)
    if command.start_pass > 0:
        return os.path.join(directory, pass_name(command.start_pass - 1))
    return None


def listed(command: Command) -> list[str]:
    """The models of `--model_list`."""
    path = command.model_list
    try:
        with open(path, encoding="utf-8") as file:
            found = [line.strip() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidError(
            f"cannot read --model_list, a text with a saved model a line: {_reason(error)} "
            f"(file: {path})"
        ) from None
    if not found:
        raise errors.InvalidError(f"--model_list is empty (file: {path})")
    return found


def check_tested(command: Command) -> None:
    """Refuses flags of `--job=test` that name no model."""
    if command.model_list:
        listed(command)
    elif command.init_model_path:
        return
    elif command.test_pass < 0:
        raise errors.InvalidError(
            "name what to test: --init_model_path=DIR, --test_pass=N with --save_dir, or "
            "--model_list=FILE"
        )
    elif command.test_pass >= command.num_passes:
        raise errors.InvalidError(
            f"there is nothing to test: --test_pass is {command.test_pass}, and --num_passes "
            f"{command.num_passes}, which is the end"
        )


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return "it is no text" if isinstance(error, UnicodeDecodeError) else str(error.strerror)


def configuration_path(command: Command) -> str:
    """`--config`, else the configuration that the loaded model was saved with."""
    if command.config:
        return str(command.config)
    directory = loaded_directory(command, save_dir(command))
    if directory is None:
        raise errors.InvalidError("give a configuration: paddle train --config=trainer_config.py")
    try:
        with open(os.path.join(directory, PATH_FILE), encoding="utf-8") as file:
            name = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidError(
            f"give --config: the model {directory} does not name its own: {PATH_FILE}: "
            f"{_reason(error)}"
        ) from None
    return os.path.join(directory, os.path.basename(name))


def beside(configuration: Configuration) -> list[tuple[str, bytes]]:
    """The files that a saved model has beside its parameters: configurations, and their name.

    The password of `cluster_config(fs_ugi="user,password")` is not copied: models are passed on.
    """
    ugi = str(configuration.cluster.get("fs_ugi") or "")
    user, _, password = ugi.partition(",")
    files = {}
    for path in configuration.files:
        with open(path, "rb") as file:
            content = file.read()
        if password:
            content = content.replace(ugi.encode(), f"{user},***".encode())
        files[os.path.basename(path)] = content
    name = os.path.basename(configuration.path)
    return [*files.items(), (PATH_FILE, f"{name}\n".encode())]


def load(parameters: Parameters, directory: str, strategy: str) -> None:
    """Takes the values of a saved model, or of a folder that somebody filled by hand."""
    log.info(f"Loading parameters from {directory}")
    missing = parameters.load_pass(directory, strategy)
    if not is_finished(directory):
        log.warning(f"{directory} is no saved pass: it has no file `done`")
    if missing:
        begun = "random" if strategy == "rand" else "zero"
        log.warning(
            f"{directory} does not have {', '.join(missing)}: these begin with {begun} values "
            f"(--load_missing_parameter_strategy={strategy})"
        )


def is_finished(directory: str) -> bool:
    """Whether a directory is a pass that was saved to its end."""
    return os.path.isfile(os.path.join(directory, DONE_FILE))


def remove(directory: str, pass_id: int) -> None:
    """Removes a saved pass, if it is there."""
    path = os.path.join(directory, pass_name(pass_id))
    if pass_id >= 0 and os.path.isdir(path):
        shutil.rmtree(path)
