"""Saved models of `paddle train`: their directories, and what is beside the parameters."""

import os
import shutil

from paddle import errors
from paddle.v1.configuration import Configuration
from paddle.v1.flags import Command
from paddle.v1.log import log
from paddle.v2.parameters import Parameters

PATH_FILE = "path.txt"
DEFAULT_SAVE_DIR = "./output/model"


def pass_name(pass_id: int, batch: int | None = None) -> str:
    """`pass-00000`, or `pass-00000-001` in the middle of a pass."""
    return f"pass-{pass_id:05d}" if batch is None else f"pass-{pass_id:05d}-{batch:03d}"


def loaded_directory(command: Command, save_dir: str) -> str | None:
    """The model that a training begins with."""
    if command.init_model_path:
        return str(command.init_model_path)
    if command.start_pass > 0:
        return os.path.join(save_dir, pass_name(command.start_pass - 1))
    return None


def configuration_path(command: Command) -> str:
    """`--config`, else the configuration that the loaded model was saved with."""
    if command.config:
        return str(command.config)
    directory = loaded_directory(command, command.save_dir or DEFAULT_SAVE_DIR)
    if directory is None:
        raise errors.InvalidError("give a configuration: paddle train --config=trainer_config.py")
    try:
        with open(os.path.join(directory, PATH_FILE), encoding="utf-8") as file:
            name = file.read().strip()
    except OSError as error:
        raise errors.InvalidError(
            f"give --config: the model {directory} does not name its own: {PATH_FILE}: "
            f"{error.strerror}"
        ) from None
    return os.path.join(directory, os.path.basename(name))


def beside(configuration: Configuration) -> list[tuple[str, bytes]]:
    """The files that a saved model has beside its parameters: configurations, and their name."""
    files = {}
    for path in configuration.files:
        with open(path, "rb") as file:
            files[os.path.basename(path)] = file.read()
    name = os.path.basename(configuration.path)
    return [*files.items(), (PATH_FILE, f"{name}\n".encode())]


def load(parameters: Parameters, directory: str, strategy: str) -> None:
    """Takes the values of a saved model."""
    log.info(f"Loading parameters from {directory}")
    parameters.load_pass(directory, strategy)


def remove(save_dir: str, pass_id: int) -> None:
    """Removes a saved pass, if it is there."""
    path = os.path.join(save_dir, pass_name(pass_id))
    if pass_id >= 0 and os.path.isdir(path):
        shutil.rmtree(path)
