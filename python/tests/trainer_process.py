"""One trainer of the parameter-server tests, as a process: linear regression by hand.

Reads a JSON description from its first argument, trains, prints a JSON result line. The model is
`y = x·w + sum(embedding[ids])`; the loss is half the squared error, summed over the batch.
"""

import json
import os
import signal
import sys

import numpy as np

from paddle._native import ParameterClient

WIDTH = 4


def model(mode, features, rule, sparse_mode=None):
    """The description that all trainers send."""
    return json.dumps(
        {
            "seed": 7,
            "optimizer": {"rule": rule, "learning_rate": 0.05},
            "parameters": [
                {
                    "name": "w",
                    "shape": {"dense": {"elements": features}},
                    "mode": mode,
                    "initializer": {"name": "normal", "mean": 0.0, "std": 0.1},
                },
                {
                    "name": "embedding",
                    "shape": {"sparse": {"width": WIDTH}},
                    "mode": sparse_mode or mode,
                    "initializer": {"name": "uniform", "low": -0.1, "high": 0.1},
                },
            ],
        }
    )


def batch(rank, step, features, size=6):
    """The data of one step: the same for whoever asks."""
    draw = np.random.default_rng([rank, step])
    x = draw.normal(size=(size, features)).astype(np.float32)
    ids = draw.integers(0, 50, size=(size, 2)).astype(np.uint64)
    truth = np.linspace(-1, 1, features)
    return x, ids, (x @ truth).astype(np.float32)


def gradients(w, rows, keys, x, ids, y):
    """Gradients of the summed loss, and the loss."""
    places = np.searchsorted(keys, ids)
    error = x @ w + rows[places].sum(axis=(1, 2)) - y
    row_gradients = np.zeros_like(rows)
    for column in range(ids.shape[1]):
        np.add.at(row_gradients, places[:, column], error[:, None])
    return x.T @ error, row_gradients, float((error**2).sum() / 2)


def connect(task):
    """Joins the job; trainer 0 orders the first values."""
    client = ParameterClient(
        model(task["mode"], task["features"], task["rule"], task.get("sparse_mode")),
        task["pservers"],
        rank=task["rank"],
        trainers=task["trainers"],
        ports_num=task["ports_num"],
        ports_num_for_sparse=task["ports_num_for_sparse"],
        token=task.get("token"),
        timeout_seconds=task.get("timeout", 300.0),
        heartbeat_seconds=0.2,
    )
    if task["rank"] == 0 and client.start()["needs_values"]:
        client.begin()
    return client


def train(client, task):
    """All passes; returns the loss of each step."""
    w = np.zeros(task["features"], np.float32)
    losses = []
    for _ in range(task["passes"]):
        for step in range(task["steps"]):
            x, ids, y = batch(task["rank"], step, task["features"])
            keys = np.unique(ids)
            rows = np.zeros((len(keys), WIDTH), np.float32)
            client.pull(dense=[(0, w)], rows=[(1, keys, rows)])
            gradient, row_gradients, loss = gradients(w, rows, keys, x, ids, y)
            losses.append(loss)
            client.push(
                dense=[(0, gradient.astype(np.float32))],
                rows=[(1, keys, row_gradients.astype(np.float32))],
                samples=len(y),
            )
            if task.get("die_after") == len(losses):
                os.kill(os.getpid(), signal.SIGKILL)
            if task.get("checkpoint_after") == len(losses):
                client.checkpoint()
            if task.get("pause_after") == len(losses):
                print("paused", flush=True)
                sys.stdin.readline()
        client.finish_pass()
    return losses


def values(client, task):
    """What the servers hold now."""
    w = np.zeros(task["features"], np.float32)
    keys = np.arange(50, dtype=np.uint64)
    rows = np.zeros((50, WIDTH), np.float32)
    client.pull(dense=[(0, w)], rows=[(1, keys, rows)], read_only=True)
    return {"w": w.tolist(), "rows": rows.tolist()}


def main():
    """Trains as the argument says."""
    task = json.loads(sys.argv[1])
    client = connect(task)
    losses = train(client, task)
    client.synchronize()
    result = {"losses": losses, "position": client.position(), **values(client, task)}
    client.synchronize()
    client.goodbye()
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
