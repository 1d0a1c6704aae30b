"""`--start_pserver`: a parameter server beside the trainer, for as long as the trainer runs."""

import ctypes
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import threading

from paddle import errors
from paddle.v1.flags import Command
from paddle.v1.log import log
from paddle.v2 import config

# How long a server may take until it serves.
READY_SECONDS = 60
# How long a server may take to end after its trainers have left.
END_SECONDS = 60

# The prctl by which a process gets a signal when its parent dies.
_DEATH_SIGNAL = 1
# Loaded here: between fork and exec nothing may be.
_libc = ctypes.CDLL(None)

_started: list["subprocess.Popen[str]"] = []


def start(command: Command) -> None:
    """Starts a server and waits until it serves."""
    settings = config.current()
    program = os.path.join(os.path.dirname(sys.executable), "paddle")
    program = program if os.path.exists(program) else shutil.which("paddle") or program
    arguments = [
        program,
        "pserver",
        f"--port={settings.port}",
        f"--ports_num={settings.ports_num}",
        f"--ports_num_for_sparse={settings.ports_num_for_sparse}",
        f"--num_gradient_servers={settings.num_gradient_servers}",
    ]
    if command.nics:
        arguments.append(f"--nics={command.nics}")
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, text=True, preexec_fn=_end_with_trainer
    )
    _started.append(process)
    assert process.stdout is not None
    is_late = threading.Event()

    def give_up() -> None:
        # This ends the loop below.
        is_late.set()
        process.kill()

    late = threading.Timer(READY_SECONDS, give_up)
    late.daemon = True
    late.start()
    for line in process.stdout:
        if line.startswith('{"paddle_ready"'):
            late.cancel()
            ready = json.loads(line)
            log.info(f"started a parameter server at port {ready['port']}")
            threading.Thread(target=process.stdout.read, daemon=True).start()
            if settings.port == 0:
                _use_port(int(ready["port"]))
            return
    late.cancel()
    how = f"ended (exit code {process.wait()})"
    if is_late.is_set():
        how = f"did not serve within {READY_SECONDS} seconds"
    raise errors.Error(f"the parameter server that --start_pserver started {how}")


def _end_with_trainer() -> None:
    """A server does not outlive the trainer that started it, however that ends."""
    if sys.platform == "linux":
        _libc.prctl(_DEATH_SIGNAL, signal.SIGTERM)


def _use_port(port: int) -> None:
    """A server that chose its port is the one that this trainer uses."""
    settings = config.current()
    if settings.num_gradient_servers > 1:
        raise errors.InvalidError(
            "--start_pserver with --port=0 is for one trainer: others could not know the port"
        )
    config._current = dataclasses.replace(settings, pservers=f"127.0.0.1:{port}", port=port)


def stop() -> None:
    """Waits for the servers to end, which they do when their trainers have left."""
    for process in _started:
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()


def kill() -> None:
    """Ends the servers that are left at once: the training failed."""
    for process in _started:
        process.terminate()
