"""The distributed part of the demonstration: two parameter servers and two trainers, real processes.

    demo_training.py            starts everything and shows the result
    demo_training.py RANK LIST  is one trainer, used by the first form

The trainers fit `y = x·w + b[word]` to data that they make: a dense weight, and a sparse table of
which each batch touches a few rows.
"""

import json
import os
import subprocess
import sys

import numpy as np

TRAINERS = 2
SERVERS = 2
WORDS = 1000
STEPS = 300
MODEL = {
    "seed": 1,
    "optimizer": {"rule": {"name": "adagrad"}, "learning_rate": 1.0},
    "parameters": [
        {"name": "w", "shape": {"dense": {"elements": 8}}},
        {"name": "b", "shape": {"sparse": {"width": 1}}},
    ],
}


def train(rank, pservers):
    """One trainer: pull, compute, push."""
    from paddle._native import ParameterClient

    client = ParameterClient(json.dumps(MODEL), pservers, rank=rank, trainers=TRAINERS)
    if rank == 0:
        client.begin()
    truth = np.arange(1, 9, dtype=np.float32)
    draw = np.random.default_rng(rank)
    w = np.zeros(8, np.float32)
    for step in range(STEPS):
        x = draw.normal(size=(64, 8)).astype(np.float32)
        words = np.sort(draw.choice(WORDS, 64, replace=False)).astype(np.uint64)
        y = x @ truth + words / WORDS
        b = np.zeros((64, 1), np.float32)
        client.pull(dense=[(0, w)], rows=[(1, words, b)])
        error = (x @ w + b[:, 0] - y).astype(np.float32)
        client.push(dense=[(0, x.T @ error)], rows=[(1, words, error[:, None])], samples=64)
        if rank == 0 and step % 60 == 0:
            print(f"  step {step:3d}  mean squared error {float((error**2).mean()):9.4f}", flush=True)
    client.finish_pass()
    client.synchronize()
    if rank == 0:
        client.pull(dense=[(0, w)])
        shards = json.loads(client.statistics())
        print(f"  w = {np.round(w, 2)} (truth: {truth})")
        print(f"  {sum(shard['rows'] for shard in shards)} rows of b on {len(shards)} shards")
        assert np.abs(w - truth).max() < 0.1, "the demonstration did not learn"
    client.synchronize()
    client.goodbye()


def main():
    """Starts servers, waits until they are ready, starts trainers, waits for all."""
    paddle = os.path.join(os.path.dirname(sys.executable), "paddle")
    command = [paddle, "pserver", "--port=0", f"--num_gradient_servers={TRAINERS}"]
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    servers = [subprocess.Popen(command, **quiet) for _ in range(SERVERS)]
    try:
        ready = [json.loads(server.stdout.readline()) for server in servers]
        pservers = ",".join(f"127.0.0.1:{line['port']}" for line in ready)
        print(f"  {SERVERS} servers ready at {pservers}", flush=True)
        trainers = [
            subprocess.Popen([sys.executable, __file__, str(rank), pservers])
            for rank in range(TRAINERS)
        ]
        codes = [trainer.wait() for trainer in trainers] + [server.wait() for server in servers]
        if any(codes):
            sys.exit(f"a process failed: exit codes {codes}")
        print("  all trainers have left, the servers have ended")
    finally:
        for server in servers:
            server.kill()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        train(int(sys.argv[1]), sys.argv[2])
    else:
        main()
