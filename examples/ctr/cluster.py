"""The program's roles in a cluster: arguments instead of the environment, and becoming a server."""

import os
import shutil
import sys


def use_arguments(arguments):
    """Describes the job by arguments, in the variables that a launcher would set."""
    os.environ.update(
        TRAINING_ROLE=arguments.role.upper(),
        PADDLE_INIT_PSERVERS=arguments.endpoints,
        PADDLE_INIT_PORT=arguments.current_endpoint.rsplit(":", 1)[1],
        PADDLE_INIT_NUM_GRADIENT_SERVERS=str(arguments.trainers),
        PADDLE_INIT_TRAINER_ID=str(arguments.trainer_id),
    )
    # An endpoint is one port, and the next may be another server's: no others for sparse
    # parameters, although a step overlaps with the next only where they have some.
    os.environ.setdefault("PADDLE_INIT_PORTS_NUM_FOR_SPARSE", "0")


def is_server():
    """Whether this process shall be a parameter server."""
    return os.getenv("TRAINING_ROLE", "TRAINER").upper() == "PSERVER"


def serve():
    """Becomes a parameter server, until the job is over: signals and exit code are its own."""
    beside = os.path.dirname(sys.executable)
    command = shutil.which("paddle", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    os.execv(command or "paddle", ["paddle", "pserver"])
