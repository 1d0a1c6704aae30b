"""Logging as the original's programs expect it, without taking it from programs that set up theirs.

The original configured the root logger when it was imported, so the INFO lines of
`logging.getLogger("paddle")` and of loggers with a level of their own were visible. A handler of
the root would also make a program's own `logging.basicConfig` do nothing. So there is none: what
is replaced is Python's handler of last resort, which is used only where nobody has configured any.

Lines of this package have glog's form: `W1116 18:44:08.123456 4711 train.py:12] message`.
"""

import logging
import sys
import time

LOGGER = logging.getLogger("paddle.v2")
# One of glog's letters for each of Python's levels.
LETTERS = {"DEBUG": "I", "INFO": "I", "WARNING": "W", "ERROR": "E", "CRITICAL": "F"}
ORIGINAL_FORMAT = "[%(levelname)s %(asctime)s %(filename)s:%(lineno)s] %(message)s"


def set_up() -> None:
    """Makes INFO of the logger `paddle`, and of loggers at that level, visible on stderr."""
    paddle = logging.getLogger("paddle")
    if paddle.level == logging.NOTSET:
        paddle.setLevel(logging.INFO)
    if isinstance(logging.lastResort, logging.StreamHandler):
        logging.lastResort = _LastResort()


class _LastResort(logging.Handler):
    """Writes to what is stderr at the time, as Python's own handler of last resort does."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(_Formatter(ORIGINAL_FORMAT))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
        except Exception:
            self.handleError(record)


class _Formatter(logging.Formatter):
    """glog's form for lines of this package, the original's for all others."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name != LOGGER.name:
            return super().format(record)
        moment = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        microseconds = int(record.created % 1 * 1e6)
        place = f"{record.process} {record.filename}:{record.lineno}"
        letter = LETTERS.get(record.levelname, "I")
        return f"{letter}{moment}.{microseconds:06} {place}] {record.getMessage()}"
