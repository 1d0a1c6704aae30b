"""The log of `paddle train`, in the form of the original: to standard error, or to a file.

Lines of the trainer have the prefix of glog, `I0719 19:16:45.952062 15563 train.py:160] `; those of
configurations and providers, which use `logging.getLogger("paddle")`, have Python's.
"""

import datetime
import logging
import os
import sys
import threading
from typing import TextIO

FILE_NAME = "paddle_trainer.INFO"


class Log:
    """Where lines go. Before `open` that is standard error."""

    def __init__(self) -> None:
        self._stream: TextIO | None = sys.stderr
        self._file: TextIO | None = None
        self._is_in_line = False
        self._lock = threading.Lock()

    def open(self, directory: str | None, to_stderr: bool) -> None:
        """Writes to `paddle_trainer.INFO` in a directory; to standard error too, or not."""
        if directory:
            os.makedirs(directory, exist_ok=True)
            path = os.path.join(directory, FILE_NAME)
            self._file = open(path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115
        self._stream = sys.stderr if to_stderr or self._file is None else None
        logger = logging.getLogger("paddle")
        logger.setLevel(logging.INFO)
        logger.propagate = False
        handler = _Handler(self)
        handler.setFormatter(
            logging.Formatter("[%(levelname)s %(asctime)s %(filename)s:%(lineno)s] %(message)s")
        )
        logger.handlers = [handler]

    def info(self, message: str) -> None:
        """A line of the trainer."""
        self.line(f"{_prefix('I')}{message}")

    def warning(self, message: str) -> None:
        """A line about something odd that is dealt with."""
        self.line(f"{_prefix('W')}{message}")

    def dot(self) -> None:
        """A dot on standard error, to show that batches go on."""
        with self._lock:
            if self._stream is not None:
                self._stream.write(".")
                self._stream.flush()
                self._is_in_line = True

    def line(self, text: str) -> None:
        """A line as it is."""
        with self._lock:
            if self._stream is not None:
                self._stream.write(f"\n{text}\n" if self._is_in_line else f"{text}\n")
                self._stream.flush()
                self._is_in_line = False
            if self._file is not None:
                self._write_to_file(f"{text}\n")

    def _write_to_file(self, text: str) -> None:
        assert self._file is not None
        try:
            self._file.write(text)
        except OSError as error:
            # A training is worth more than its log, which goes on where people can see it.
            self._file, self._stream = None, sys.stderr
            sys.stderr.write(f"the log file cannot be written any more: {error.strerror}\n{text}")

    def end_line(self) -> None:
        """Ends a line of dots, before somebody else writes."""
        with self._lock:
            if self._stream is not None and self._is_in_line:
                self._stream.write("\n")
                self._is_in_line = False


class _Handler(logging.Handler):
    def __init__(self, target: Log) -> None:
        super().__init__()
        self._target = target

    def emit(self, record: logging.LogRecord) -> None:
        self._target.line(self.format(record))


def _prefix(level: str) -> str:
    frame = sys._getframe(2)
    now = datetime.datetime.now()
    file = os.path.basename(frame.f_code.co_filename)
    thread = threading.get_native_id()
    return f"{level}{now:%m%d %H:%M:%S.%f} {thread:5d} {file}:{frame.f_lineno}] "


log = Log()
