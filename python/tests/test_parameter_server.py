"""Parameter servers and trainers as real processes."""

import contextlib
import json
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import numpy as np
import pytest
import trainer_process as trainer
from processes import DEADLINE_SECONDS, PADDLE, started_servers

from paddle import errors

SCRIPT = pathlib.Path(trainer.__file__)
SGD = {"name": "momentum", "momentum": 0.0}


def servers(count, *flags, port=0, environment=()):
    """Servers that are gone afterwards, whatever happened."""
    command = [PADDLE, "pserver", f"--port={port}", *flags]
    return started_servers(count, command, environment)


def task(started, rank=0, trainers=1, **changes):
    return {
        "pservers": ",".join(server.address for server in started),
        "rank": rank,
        "trainers": trainers,
        "ports_num": started[0].ready["ports_num"],
        "ports_num_for_sparse": started[0].ready["ports_num_for_sparse"],
        "mode": "sync",
        "features": 20,
        "rule": SGD,
        "steps": 5,
        "passes": 1,
        **changes,
    }


def start(description):
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), json.dumps(description)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    output, failure = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0, failure
    return json.loads(output.splitlines()[-1])


def wait_until(condition):
    """Returns when the condition holds; fails at the deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited for too long"
        time.sleep(0.01)  # polled until the deadline


def run(descriptions):
    """All trainers of a job; results by rank. One that fails does not leave others waiting."""
    processes = [start(each) for each in descriptions]
    try:
        wait_until(lambda: has_failed(processes) or all_ended(processes))
    finally:
        states = [process.poll() for process in processes]
        for process in processes:
            process.kill()
    failures = [process.stderr.read() for process in processes if process.returncode]
    assert not any(states), (states, failures)
    return [finish(process) for process in processes]


def has_failed(processes):
    return any(process.poll() not in (None, 0) for process in processes)


def all_ended(processes):
    return all(process.poll() is not None for process in processes)


def first_values(features):
    """What the servers begin with, read from a job that does nothing."""
    with servers(1) as started:
        client = trainer.connect(task(started, features=features))
        held = trainer.values(client, {"features": features})
        client.goodbye()
        assert started[0].end()[0] == 0
    return np.array(held["w"]), np.array(held["rows"])


def alone(batch_counts, passes, features=20):
    """The same training in one process: the batches of a step together, plain SGD in float64."""
    w, rows = first_values(features)
    keys = np.arange(50, dtype=np.uint64)
    for _ in range(passes):
        for step in range(max(batch_counts)):
            sums = np.zeros_like(w), np.zeros_like(rows)
            for rank, count in enumerate(batch_counts):
                if step < count:
                    x, ids, y = trainer.batch(rank, step, features)
                    gradient, row_gradients, _ = trainer.gradients(w, rows, keys, x, ids, y)
                    sums[0][:] += gradient
                    sums[1][:] += row_gradients
            w = w - 0.05 * sums[0]
            rows = rows - 0.05 * sums[1]
    return w, rows


def untrained_loss(rank, steps, features=20):
    """The mean loss of a trainer's steps with the first values, before anybody has pushed."""
    w, rows = first_values(features)
    keys = np.arange(50, dtype=np.uint64)
    steps = (trainer.batch(rank, step, features) for step in range(steps))
    return np.mean([trainer.gradients(w, rows, keys, *step)[2] for step in steps])


def check_same(result, expected):
    np.testing.assert_allclose(result["w"], expected[0], rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(result["rows"], expected[1], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("trainers", [1, 2, 4])
def test_sync_training_equals_one_process_fed_the_batches_together(trainers):
    flags = [f"--num_gradient_servers={trainers}", "--ports_num=2", "--ports_num_for_sparse=2"]
    with servers(2, *flags) as started:
        tasks = [task(started, rank, trainers, steps=3) for rank in range(trainers)]
        results = run(tasks)
        assert [server.end()[0] for server in started] == [0, 0]
    expected = alone([3] * trainers, passes=1)
    for result in results:
        check_same(result, expected)
        assert result["w"] == results[0]["w"], "trainers hold different values"


def test_equal_runs_are_equal_to_the_bit():
    def once():
        with servers(2, "--num_gradient_servers=3") as started:
            return run([task(started, rank, 3) for rank in range(3)])[0]

    first, second = once(), once()
    assert first["w"] == second["w"] and first["rows"] == second["rows"]


def test_trainers_with_different_numbers_of_batches_finish_their_passes_together():
    counts = [2, 5, 3]
    with servers(2, "--num_gradient_servers=3") as started:
        tasks = [task(started, rank, 3, steps=count, passes=2) for rank, count in enumerate(counts)]
        results = run(tasks)
    check_same(results[0], alone(counts, passes=2))
    assert results[0]["position"]["pass"] == 2


@pytest.mark.parametrize("mode", ["async", "stale:2"])
def test_async_training_converges_on_a_convex_problem(mode):
    rule = {"name": "adagrad"}
    with servers(2, "--num_gradient_servers=2") as started:
        tasks = [
            task(started, rank, 2, mode=mode, rule=rule, steps=20, passes=15) for rank in range(2)
        ]
        results = run(tasks)
    # In whatever order gradients arrive; what a trainer itself sees first may be others' work.
    for rank, result in enumerate(results):
        first, last = untrained_loss(rank, 20), np.mean(result["losses"][-20:])
        assert last < 0.1 * first, f"{mode}: {first} -> {last}"


def test_hybrid_training_mixes_both():
    with servers(1, "--num_gradient_servers=2") as started:
        tasks = [
            task(started, rank, 2, sparse_mode="async", rule={"name": "adagrad"}, passes=15)
            for rank in range(2)
        ]
        results = run(tasks)
    for rank, result in enumerate(results):
        assert np.mean(result["losses"][-5:]) < 0.5 * untrained_loss(rank, 5)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_job_whose_server_is_killed_goes_on_from_the_checkpoint(tmp_path, mode):
    flags = [f"--checkpoint_dir={tmp_path}", "--num_gradient_servers=2"]
    with servers(1, *flags) as started, contextlib.ExitStack() as stack:
        pauses = {"checkpoint_after": 10, "pause_after": 20}
        rule = {"name": "adagrad"}
        tasks = [
            task(started, rank, 2, mode=mode, rule=rule, steps=200, **pauses) for rank in range(2)
        ]
        del tasks[1]["checkpoint_after"]
        processes = [start(each) for each in tasks]
        for process in processes:
            stack.callback(process.kill)
            assert process.stdout.readline() == "paused\n"
        wait_until(lambda: len(list(tmp_path.glob("cut-*/*.json"))) == 2)
        started[0].process.kill()
        started[0].process.wait()
        again = stack.enter_context(servers(1, *flags, "--restore", port=started[0].port))
        for process in processes:
            _, failure = process.communicate("go on\n", timeout=DEADLINE_SECONDS)
            assert process.returncode == 1
            assert "server was started again" in failure
        tasks = [task(again, rank, 2, mode=mode, rule=rule, steps=200) for rank in range(2)]
        for result in run(tasks):
            # Updates of before the checkpoint count; in async each trainer's are updates.
            assert result["position"]["version"] > (200 if mode == "sync" else 400)
        assert again[0].end()[0] == 0


def test_a_checkpoint_of_two_servers_is_restored_on_three_to_the_bit(tmp_path):
    folder = f"--checkpoint_dir={tmp_path}"
    rule = {"name": "adam"}
    with servers(2, folder) as started:
        before = run([task(started, rule=rule)])[0]
        assert [server.end()[0] for server in started] == [0, 0]
    description = {"rule": rule, "features": 20}
    with servers(3, folder, "--restore", "--ports_num=2", "--ports_num_for_sparse=3") as started:
        client = trainer.connect(task(started, **description))
        assert client.start()["restored_cut"] == 1
        assert not client.start()["needs_values"]
        held = trainer.values(client, description)
        client.goodbye()
        assert [server.end()[0] for server in started] == [0, 0, 0]
    assert held["w"] == before["w"]
    assert held["rows"] == before["rows"]


def test_sigterm_writes_a_checkpoint_and_ends(tmp_path):
    with servers(1, f"--checkpoint_dir={tmp_path}") as started:
        client = trainer.connect(task(started))
        trainer.train(client, task(started, steps=2))
        started[0].process.send_signal(signal.SIGTERM)
        code, logged = started[0].end()
        assert code == 0, logged
        assert list(tmp_path.glob("cut-*/dense-*.json"))


def test_a_damaged_checkpoint_is_named_and_an_older_one_offered(tmp_path):
    folder = f"--checkpoint_dir={tmp_path}"
    for flags in ([], ["--restore"]):
        with servers(1, folder, *flags) as started:
            run([task(started, steps=1)])
            started[0].end()
    newest = sorted(tmp_path.glob("cut-*/dense-*.part"))[-1]
    damaged = bytearray(newest.read_bytes())
    damaged[-1] ^= 1
    newest.write_bytes(damaged)
    with servers(1, folder, "--restore") as started:
        with pytest.raises(errors.DamagedError, match="an older good one is 1"):
            trainer.connect(task(started))


def test_a_trainer_that_is_killed_ends_the_job_with_its_rank():
    # Long enough for the survivor to be heard of on a machine that does much else.
    with servers(2, "--num_gradient_servers=2", "--trainer_timeout=10") as started:
        survivor = start(task(started, 0, 2))
        victim = start(task(started, 1, 2, die_after=2))
        assert victim.wait(timeout=DEADLINE_SECONDS) == -signal.SIGKILL
        victim.communicate()
        _, failure = survivor.communicate(timeout=DEADLINE_SECONDS)
        assert survivor.returncode == 1
        assert "trainer 1 has not been heard of" in failure
        for server in started:
            code, logged = server.end()
            assert code == 1
            assert "trainer 1 has not been heard of for 10 s" in logged


def test_only_peers_with_the_token_are_served():
    with servers(1, environment={"PADDLE_JOB_TOKEN": "correct"}) as started:
        for token in (None, "wrong"):
            with pytest.raises(errors.UnauthenticatedError):
                trainer.connect(task(started, token=token))
        client = trainer.connect(task(started, token="correct"))
        client.goodbye()
        assert started[0].end()[0] == 0
    with servers(1) as started:
        with pytest.raises(errors.UnauthenticatedError):
            trainer.connect(task(started, token="a token that the server does not have"))


def test_random_bytes_do_not_disturb_a_server():
    draw = np.random.default_rng(3)
    with servers(1) as started:
        client = trainer.connect(task(started))
        for size in (1, 50, 64, 1000, 100_000):
            with socket.create_connection(("127.0.0.1", started[0].port)) as stranger:
                with contextlib.suppress(OSError):
                    stranger.sendall(draw.bytes(size))
                    stranger.shutdown(socket.SHUT_WR)
                    while stranger.recv(4096):
                        pass
        assert len(trainer.train(client, task(started))) == 5
        client.goodbye()
        assert started[0].end()[0] == 0


def test_a_trainer_with_another_model_is_refused_with_the_difference():
    with servers(1, "--num_gradient_servers=2") as started:
        trainer.connect(task(started, 0, 2))
        with pytest.raises(errors.ConflictError, match='mode of parameter "w" is "sync" in the '):
            trainer.connect(task(started, 1, 2, mode="async"))
        with pytest.raises(errors.ConflictError, match="--num_gradient_servers=2"):
            trainer.connect(task(started, 1, 3))


def test_wrong_arrays_are_refused_before_anything_is_sent():
    with servers(1) as started:
        client = trainer.connect(task(started))
        with pytest.raises(ValueError, match="w"):
            client.push(dense=[(0, np.zeros(19, np.float32))])
        with pytest.raises(ValueError, match="ascontiguousarray"):
            client.push(dense=[(0, np.zeros(40, np.float32)[::2])])
        with pytest.raises(TypeError):
            client.push(dense=[(0, np.zeros(20, np.float64))])
        with pytest.raises(errors.NotFoundError, match="the model has no such parameter"):
            client.parameter("no such parameter")
        assert len(trainer.train(client, task(started))) == 5
        client.goodbye()


def test_no_server_gives_an_error_that_names_the_address():
    # As long as it is bound, nobody else can listen there.
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        nobody = {**task([Stand()]), "pservers": address, "timeout": 0.5}
        with pytest.raises(ConnectionError, match="cannot connect .peer: 127.0.0.1:"):
            trainer.connect(nobody)


class Stand:
    """Describes a server that is not there."""

    address = "127.0.0.1"
    ready = {"ports_num": 1, "ports_num_for_sparse": 1}


def test_rows_are_scanned_and_statistics_told():
    with servers(2) as started:
        client = trainer.connect(task(started))
        trainer.train(client, task(started, steps=10))
        seen = {}
        client.scan(
            1,
            lambda keys, values: seen.update(
                zip(keys.tolist(), values.reshape(-1, 4), strict=True)
            ),
        )
        rows = np.array(trainer.values(client, task(started))["rows"], np.float32)
        for key, row in seen.items():
            np.testing.assert_array_equal(rows[key], row)
        statistics = json.loads(client.statistics())
        assert sum(shard["rows"] for shard in statistics) == len(seen) > 10
        assert {shard["version"] for shard in statistics} == {10}
        client.goodbye()


def test_prometheus_metrics_are_served():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        metrics_port = unused.getsockname()[1]
    with servers(1, f"--metrics_port={metrics_port}") as started:
        client = trainer.connect(task(started))
        trainer.train(client, task(started))
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as answer:
            text = answer.read().decode()
        for name in ("pushes", "pulls", "push_bytes", "pull_bytes"):
            assert f"paddle_pserver_{name}_total" in text
        assert "paddle_pserver_rows" in text
        client.goodbye()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="lo has all of 127.0.0.0/8")
def test_metrics_are_served_where_the_server_is():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        metrics_port = unused.getsockname()[1]
    with servers(1, "--nics=lo", f"--metrics_port={metrics_port}"):
        with socket.create_connection(("127.0.0.1", metrics_port), 60):
            pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", metrics_port), 60)
