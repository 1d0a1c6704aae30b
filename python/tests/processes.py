"""What tests with real processes share: commands, parameter servers, programs that run together."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

PADDLE = os.path.join(os.path.dirname(sys.executable), "paddle")
# As of a shell that has the wheel's environment activated.
PATH = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
# Only what hangs takes so long, also on a machine that does much else.
DEADLINE_SECONDS = 600


def run(folder, *command, **environment):
    """What a command prints, run in a folder; it must succeed."""
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": PATH, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, (ended.stdout, ended.stderr)
    return ended.stdout


class Server:
    """A parameter server that is ready: `paddle pserver`, or a program that becomes one."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate(timeout=DEADLINE_SECONDS)[1])
        self.ready = json.loads(line)
        self.port = self.ready["port"]
        self.address = f"127.0.0.1:{self.port}"

    def end(self):
        """Waits for the end; exit code and what was logged."""
        logged = self.process.communicate(timeout=DEADLINE_SECONDS)[1]
        return self.process.returncode, logged


@contextlib.contextmanager
def started_servers(count, command, environment=()):
    """Servers that are gone afterwards, whatever happened."""
    started = []
    try:
        for _ in range(count):
            started.append(Server(command, dict(environment)))
        yield started
    finally:
        for server in started:
            server.process.kill()
            server.process.communicate()


def run_together(folder, command, environments):
    """What a command prints in each of the environments, at the same time; all must succeed.

    One that fails does not leave others waiting.
    """
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in environments]
        processes = []
        for environment, output in zip(environments, outputs, strict=True):
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdout=output,
                stderr=output,
                env={**os.environ, "PATH": PATH, **environment},
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            processes.append(process)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes) or time.monotonic() > deadline:
                break
            time.sleep(0.01)  # polled until the deadline
        codes = [process.poll() for process in processes]
        for output in outputs:
            output.seek(0)
        printed = [output.read() for output in outputs]
        assert codes == [0] * len(codes), (codes, printed)
        return printed
