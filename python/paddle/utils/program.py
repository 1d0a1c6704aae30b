"""What the programs of this package share: reading a configuration, and errors in one line."""

import contextlib
import os
import sys
from collections.abc import Callable, Sequence

from paddle import errors
from paddle.v1 import configuration
from paddle.v1.configuration import Configuration
from paddle.v1.guess import Guessed
from paddle.v1.words import in_v1
from paddle.v2.topology import Topology


def run(name: str, usage: str, work: Callable[[list[str]], None]) -> None:
    """Runs a program to its end: 0 done, 1 failed, 2 asked for wrongly."""
    arguments = sys.argv[1:]
    if any(each in ("-h", "--help") for each in arguments):
        print(usage)
        sys.exit(0)
    try:
        work(arguments)
    except UsageError as error:
        sys.exit(_report(name, f"{error}\n{usage}", 2))
    except errors.Error as error:
        sys.exit(
            _report(name, in_v1(str(error)), 2 if isinstance(error, errors.InvalidError) else 1)
        )
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            sys.exit(_report(name, f"{error.strerror}: {error.filename}", 1))
        # Whoever read the output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class UsageError(Exception):
    """The command line is not understood."""


def describe(path: str, config_args: str = "") -> tuple[Configuration, Topology]:
    """A configuration and its network.

    Its data provider is asked for the types of the inputs where it can be found with its data;
    otherwise the types are guessed from the network.
    """
    for folder in (os.path.dirname(os.path.abspath(path)), os.getcwd()):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    arguments = configuration.own_arguments() | configuration.parse_arguments(config_args)
    # Standard output is for the result, not for what the configuration prints.
    with contextlib.redirect_stdout(sys.stderr):
        described = Guessed().read(path, arguments)
    return described, Topology(described.outputs, described.extra_layers or None)


def take(arguments: Sequence[str], least: int, most: int) -> list[str]:
    """The words of a command line that are no flags."""
    words = [each for each in arguments if not each.startswith("--")]
    if not least <= len(words) <= most:
        raise UsageError(f"expected {least} to {most} arguments but got {len(words)}")
    return words


def _report(name: str, text: str, code: int) -> int:
    print(f"paddle {name}: {text}", file=sys.stderr)
    return code
