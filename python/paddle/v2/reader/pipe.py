"""Readers of what a command prints: `hadoop fs -cat …`, `curl …`, `zcat …`."""

import shlex
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from paddle import errors
from paddle.v2 import mistake
from paddle.v2.reader.flow import Reader

FILE_TYPES = ("plain", "gzip")


class PipeReader:
    """The output of a command, which is started when its lines are asked for.

    command:   its words, as a shell would split them; no shell is involved.
    bufsize:   bytes read at once.
    file_type: "plain", or "gzip" for output that is to be uncompressed.

    A command that fails is an exception, after the lines that it printed.
    """

    @mistake.checked_arguments
    def __init__(self, command: str, bufsize: int = 8192, file_type: str = "plain") -> None:
        if not isinstance(command, str) or not shlex.split(command):
            raise mistake.wrong_type(f"command must be a text but is {mistake.kind_of(command)}")
        if file_type not in FILE_TYPES:
            accepted = " or ".join(FILE_TYPES)
            raise mistake.invalid(f"file_type must be {accepted}", file_type=file_type)
        self._text = command
        self._bytes_at_once = mistake.whole("bufsize", bufsize)
        self._is_gzip = file_type == "gzip"

    @mistake.checked_arguments
    def get_line(self, cut_lines: bool = True, line_break: str = "\n") -> Iterator[str]:
        """The lines, without their ends; without `cut_lines` pieces of text as they come."""
        for part in self.parts(cut_lines, line_break):
            yield from part

    def parts(self, cut_lines: bool, line_break: str) -> Iterator[list[str]]:
        """The lines that came at once, in lists."""
        end, rest = line_break.encode(), b""
        for piece in self._pieces():
            *lines, rest = (rest + piece).split(end) if cut_lines else (piece, b"")
            yield [line.decode() for line in lines]
        if rest:
            yield [rest.decode()]

    def _pieces(self) -> Iterator[bytes]:
        process = subprocess.Popen(shlex.split(self._text), stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            yield from self._uncompressed(process.stdout)
            code = process.wait()
        finally:
            # Whoever stops in the middle does not leave the command behind.
            process.kill()
            process.stdout.close()
            process.wait()
        if code != 0:
            raise errors.SystemError(
                f"the command of a reader failed (command: {self._text}, exit code: {code})"
            )

    def _uncompressed(self, output: IO[bytes]) -> Iterator[bytes]:
        unzip = None
        while piece := output.read(self._bytes_at_once):
            if not self._is_gzip:
                yield piece
                continue
            # Gzip files may be joined: each begins anew.
            while piece:
                unzip = unzip or zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
                yield unzip.decompress(piece)
                piece = unzip.unused_data
                unzip = None if unzip.eof else unzip
        if unzip is not None:
            raise errors.DamagedError(
                f"the gzip output of the command ends in the middle (command: {self._text})"
            )


@mistake.checked_arguments
def pipe_reader(
    left_cmd: str,
    parser: Callable[[Any], Iterable[Any]],
    bufsize: int = 8192,
    file_type: str = "plain",
    cut_lines: bool = True,
    line_break: str = "\n",
) -> Reader:
    """The samples that `parser` makes of a command's output.

    `parser` is given a list of lines, without `cut_lines` a piece of text, and returns samples.
    """
    pipe = PipeReader(left_cmd, bufsize, file_type)

    def samples() -> Iterator[Any]:
        for part in pipe.parts(cut_lines, line_break):
            yield from parser(part if cut_lines else "".join(part))

    return samples
