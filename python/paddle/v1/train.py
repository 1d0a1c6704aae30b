"""The program behind `paddle train`: `python -m paddle.v1.train --config=trainer_config.py`."""

import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paddle import errors
from paddle.v1 import flags, server
from paddle.v1.flags import Command
from paddle.v1.log import log

if TYPE_CHECKING:
    from paddle.v1.session import Session


def main(arguments: Sequence[str]) -> int:
    """Runs a command line; the exit code."""
    try:
        command = flags.parse(arguments, os.environ)
        if command is None:
            print(flags.help_text())
            return 0
    except errors.Error as error:
        return _fail(error, 2)
    directory = os.environ.get("GLOG_log_dir")
    try:
        log.open(directory, os.environ.get("GLOG_logtostderr", "1") != "0")
    except OSError as error:
        message = f"the log cannot be written: {error.strerror} (GLOG_log_dir: {directory})"
        return _fail(errors.Error(message), 1)
    _introduce(arguments, command)
    session = None
    try:
        session = _open(command)
        _run(session)
    except errors.Error as error:
        is_wrong = isinstance(error, errors.InvalidError | errors.UnsupportedError)
        return _fail(error, 2 if is_wrong and session is None else 1)
    except OSError as error:
        return _fail(errors.Error(str(error)), 1)
    except KeyboardInterrupt:
        log.end_line()
        return 130
    finally:
        # One that ended with its trainers is not there any more.
        server.kill()
    return 0


def _open(command: Command) -> "Session":
    from paddle.v1.session import open_session

    return open_session(command)


def _run(session: "Session") -> None:
    from paddle.v1 import gradient_check, testing, timing, training
    from paddle.v2 import trainer

    jobs = {
        "train": training.run,
        "test": testing.run,
        "checkgrad": gradient_check.run,
        "time": timing.run,
    }
    jobs[session.command.job](session)
    log.end_line()
    trainer.leave()
    server.stop()


def _introduce(arguments: Sequence[str], command: Command) -> None:
    """The first lines of a log: the job, if this is part of one, and the command line."""
    package = os.environ.get("TRAINER_PACKAGE") or os.environ.get("PADDLE_JOB_NAME")
    if package:
        trainers = os.environ.get("PADDLE_INIT_NUM_GRADIENT_SERVERS", "1")
        rank = os.environ.get("PADDLE_INIT_TRAINER_ID", "0")
        log.line(
            f"Starting training job:  {package}, num_gradient_servers: {trainers}, "
            f"trainer_id:  {rank}, version:  v1"
        )
    told = [f"--{name}={command.values[name]}" for name in sorted(command.from_environment)]
    log.info("commandline: " + shlex.join(["paddle", "train", *arguments, *told]))


def _fail(error: errors.Error, code: int) -> int:
    log.line(f"paddle train: {_shown(error)}")
    return code


def _shown(error: errors.Error) -> str:
    """The message in V1's words, without a place in this program: that is no line of the user's."""
    from paddle.v1.words import in_v1

    text = in_v1(str(error))
    file = (error.at or "").rpartition(":")[0]
    if not os.path.exists(file) or not os.path.samefile(file, __file__):
        return text
    return text.replace(f" (at: {error.at})", "").replace(f", at: {error.at}", "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
