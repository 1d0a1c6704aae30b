"""Contenders that are other processes, and the environments and programs that they need."""

import hashlib
import json
import pathlib
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRATCH = ROOT / "bench" / "scratch"
# A round, or a command, that takes longer hangs.
LIMIT_SECONDS = 1800.0


class Program:
    """A process that answers every line on its stdin by one line of JSON, figures by name.

    It ends when its stdin is closed. Contenders that are processes do not meet in thread pools,
    allocators or interpreters. What it prints to stderr is passed on.
    """

    def __init__(
        self,
        command: Sequence[object],
        cwd: pathlib.Path | None = None,
        env: Mapping[str, str] | None = None,
        limit_seconds: float = LIMIT_SECONDS,
    ):
        self.command = [str(word) for word in command]
        self.limit_seconds = limit_seconds
        self.process = subprocess.Popen(
            self.command, cwd=cwd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def round(self, request: str = "go") -> dict[str, Any]:
        """Sends a line and waits for the answer."""
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(f"{request}\n".encode())
        except BrokenPipeError:
            raise self._failure("ended") from None
        return figures_of(self._line(), self.command)

    def _line(self) -> str:
        assert self.process.stdout
        line = b""
        deadline = time.monotonic() + self.limit_seconds
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.process.kill()
                raise self._failure(f"did not answer within {self.limit_seconds:.0f} s")
            more = self.process.stdout.read(1 << 16)
            if not more:
                raise self._failure("ended")
            line += more
        return line.decode()

    def _failure(self, what: str) -> RuntimeError:
        code = self.process.wait(self.limit_seconds)
        return RuntimeError(f"{' '.join(self.command)} {what}; exit code {code}")

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        try:
            code = self.process.wait(10 if kind is None else 1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        if kind is None and code != 0:
            raise RuntimeError(f"{' '.join(self.command)} ended with exit code {code}")


def figures_of(text: str, command: Sequence[object]) -> dict[str, Any]:
    """The figures in a program's last line of output."""
    lines = text.strip().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        words = " ".join(map(str, command))
        raise RuntimeError(f"{words}: its last line is no JSON object: {lines[-1:]}")
    return found


def command_output(
    command: Sequence[object],
    cwd: pathlib.Path | None = None,
    env: Mapping[str, str] | None = None,
    limit_seconds: float = LIMIT_SECONDS,
) -> str:
    """What a command prints; one that fails is an error with the end of its stderr."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=env, capture_output=True, text=True, timeout=limit_seconds
    )
    if done.returncode != 0:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}\n{end}")
    return done.stdout


def build(name: str) -> pathlib.Path:
    """The path of a Cargo benchmark's program, built with the profile of everything else."""
    # Features are chosen over the whole workspace, so that `make build` has compiled its crates.
    command = ["cargo", "bench", "--quiet", "--locked", "--workspace", "--bench", name, "--no-run"]
    output = command_output([*command, "--message-format=json"], cwd=ROOT)
    for line in output.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == name:
            return pathlib.Path(message["executable"])
    raise RuntimeError(f"cargo built no benchmark named {name}")


def environment(
    name: str, requirements: Sequence[str], python: str = sys.executable
) -> pathlib.Path:
    """The interpreter of a virtual environment with these packages, kept in bench/scratch."""
    folder = SCRATCH / "environments" / name
    # Another list of packages makes another environment of it.
    stamp = folder / hashlib.sha256("\n".join([python, *requirements]).encode()).hexdigest()[:16]
    if not stamp.exists():
        print(f"installing {', '.join(requirements)}", file=sys.stderr, flush=True)
        command_output([python, "-m", "venv", "--clear", folder])
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
        command_output([*pip, "--disable-pip-version-check", *requirements])
        stamp.touch()
    return folder / "bin" / "python"
