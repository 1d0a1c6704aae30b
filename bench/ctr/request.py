"""What a step's exchange with one more server costs either side, whatever it carries.

Answers every line, a number of exchanges, by the processor seconds that one of them took of the
trainer and of the server: an exchange pushes and pulls one dense value and one row, so that nothing
but the messages themselves is left.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

from paddle._native import ParameterClient

PADDLE = pathlib.Path(sys.executable).parent / "paddle"
TICKS = os.sysconf("SC_CLK_TCK")
MODEL = {
    "seed": 1,
    "optimizer": {"rule": {"name": "momentum", "momentum": 0.0}, "learning_rate": 0.01},
    "parameters": [
        {
            "name": name,
            "shape": shape,
            "mode": "async",
            "initializer": {"name": "uniform", "low": -0.1, "high": 0.1},
        }
        for name, shape in [
            ("dense", {"dense": {"elements": 1}}),
            ("table", {"sparse": {"width": 1}}),
        ]
    ],
}


def main():
    command = [PADDLE, "pserver", "--port=0", "--num_gradient_servers=1"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = json.loads(server.stdout.readline())["port"]
        client = ParameterClient(json.dumps(MODEL), f"127.0.0.1:{port}")
        client.begin()
        for line in sys.stdin:
            print(json.dumps(exchanges(client, server.pid, int(line))), flush=True)
        client.goodbye()
    finally:
        server.terminate()
        server.wait()


def exchanges(client, server, count):
    keys = np.zeros(1, np.uint64)
    # What is pushed, and where what is pulled goes.
    dense, dense_out = np.zeros(1, np.float32), np.zeros(1, np.float32)
    rows, rows_out = np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32)
    begin = time.process_time(), processor_seconds(server)
    for _ in range(count):
        client.push_pull(
            [(0, dense)], [(1, keys, rows)], 1, [(0, dense_out)], [(1, keys, rows_out)]
        )
    end = time.process_time(), processor_seconds(server)
    return {
        side: (after - before) / count
        for side, before, after in zip(("trainer", "server"), begin, end, strict=True)
    }


def processor_seconds(pid):
    fields = pathlib.Path("/proc", str(pid), "stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    main()
