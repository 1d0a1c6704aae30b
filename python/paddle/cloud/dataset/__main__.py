"""`python -m paddle.cloud.dataset NAME FOLDER` writes the files of a data set to a folder."""

import sys

from paddle import errors
from paddle.cloud.dataset import common


def main(arguments: list[str]) -> int:
    """The exit code."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    name, folder = arguments
    try:
        common.write(name, folder)
    except errors.Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
