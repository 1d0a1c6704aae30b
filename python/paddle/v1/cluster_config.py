"""What a configuration asks of `paddle cluster_train`: `python -m paddle.v1.cluster_config`.

A receiver runs this, in a sandbox, on the configuration of somebody whom it does not trust. The
configuration is executed once, with layers only sketched, as the first time of a training. Its data
is not there, so lines behind `cluster_config(...)` may fail; that is told, and no reason to refuse.
The last line that is printed has the answer.
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from paddle import errors
from paddle.v1 import configuration, flags
from paddle.v1.recording import Recording
from paddle.v1.words import in_v1
from paddle.v2.layer import planning

# What the answer begins with, among what the configuration prints.
MARK = "paddle-cluster-config:"


def main(arguments: Sequence[str]) -> int:
    """Prints what the configuration of a command line of `paddle train` asks for."""
    try:
        answer = read(arguments)
    except errors.Error as error:
        answer = {"refused": in_v1(str(error))}
    try:
        text = json.dumps(answer, allow_nan=False)
    except ValueError:
        refused = "cluster_config(…) has a NaN or an infinite number; give a finite one"
        text = json.dumps({"refused": refused})
    sys.stdout.flush()
    print(f"\n{MARK} {text}", flush=True)
    return 0


def read(arguments: Sequence[str]) -> dict[str, Any]:
    """The arguments of `cluster_config`, and what went wrong after it."""
    command = flags.parse(arguments, {})
    if command is None:
        raise errors.InvalidError("--help is no training")
    code = configuration.compile_file(command.config)
    own = configuration.own_arguments(is_local=False, use_gpu=command.use_gpu)
    recording = Recording(own | configuration.parse_arguments(command.config_args))
    sys.path.insert(0, os.path.dirname(os.path.abspath(command.config)))
    problem = None
    try:
        with planning.sketched():
            configuration.execute(recording, command.config, code)
    except errors.Error as error:
        if not recording.cluster:
            raise
        problem = in_v1(str(error))
    for name, value in recording.cluster.items():
        if not isinstance(value, str | int | float | bool | None):
            raise errors.InvalidError(
                f"cluster_config({name}=…) is a text, a number, True, False or None "
                f"(got: {type(value).__name__})"
            )
    return {"cluster": recording.cluster, "problem": problem, "said": _said(command)}


# The flags that the receiver itself has to know, and those that it does not let anybody give.
_KNOWN = (
    "job",
    "save_dir",
    "num_passes",
    "trainer_count",
    "init_model_path",
    "distribute_test",
    "port",
    "ports_num",
    "ports_num_for_sparse",
    "local",
    "pservers",
    "trainer_id",
    "num_gradient_servers",
    "start_pserver",
    "nics",
)


def _said(command: flags.Command) -> dict[str, Any]:
    return {name: getattr(command, name) for name in _KNOWN if command.is_said(name)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
