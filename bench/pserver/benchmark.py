"""What network and protocol cost a parameter server, against the same work without them."""

import functools
import os
import shutil

from harness import HarnessError, Program, at_least, build

TITLE = "Parameter server over loopback"
# Value and AdaGrad state of a row of width 16.
PAYLOAD_BYTES = 2 * 16 * 4


def run(bench):
    if not shutil.which("taskset"):
        raise HarnessError("taskset is not installed; install util-linux")
    # Server on core 0, client on core 1.
    client = ["taskset", "-c", "1" if (os.cpu_count() or 1) > 1 else "0", build("exchange")]
    sparse(bench, client)
    dense(bench, client)


def asked(program, *contenders):
    return {each: functools.partial(program.round, each) for each in contenders}


def sparse(bench, client):
    rows, requests = bench.size((10_000_000, 200), smoke=(50_000, 4))
    bench.section("Sparse, AdaGrad, width 16, M keys/s")
    with Program([*client, "sparse", rows, requests]) as program:
        contenders = asked(program, "pull here", "pull there", "push here", "push there")
        rounds = bench.alternate(contenders, rounds=5)
        keys = rounds.figure("pull here", "keys").median
        bench.say(
            f"\n{512 * 26:,} Zipf draws a request, {keys:,.0f} different keys on average, "
            f"{rows:,} rows."
        )
        table = bench.table(["", "in process", "over loopback"])
        for verb in ("pull", "push"):
            here, there = f"{verb} here", f"{verb} there"
            figures = [rounds.figure(each, "rate") for each in (here, there)]
            table.row([verb, *figures], rounds.ratio(there, here, "rate"), at_least(0.5))
        table = bench.table(["one server core"], judged="M keys/s")
        table.row(["pull"], rounds.figure("pull there", "rate"), at_least(3))
        table.row(["push"], rounds.figure("push there", "rate"))
        latencies = bench.alternate(asked(program, "latencies"), rounds=5)
        table = bench.table(["one request at a time", "p99, ms"], judged="median, ms")
        for verb in ("pull", "push"):
            p99, median = (
                latencies.figure("latencies", f"{verb} {part}") for part in ("p99", "median")
            )
            table.row([verb, p99], median)
        bytes_per_row = program.round("memory")["bytes_per_row"]
        table = bench.table(["memory of a row", "bytes"], judged="beyond value and state")
        table.row([f"of {rows:,}", bytes_per_row], bytes_per_row - PAYLOAD_BYTES)


def dense(bench, client):
    size_bytes = bench.size(64 << 20, smoke=1 << 20)
    bench.section(f"Dense, {size_bytes >> 20} MiB, plain SGD, MiB/s")
    with Program([*client, "dense", size_bytes]) as program:
        rounds = bench.alternate(asked(program, "echo", "push and pull"), rounds=40)
    table = bench.table(["", "raw TCP echo", "push and pull"])
    figures = [rounds.figure(each, "rate") for each in ("echo", "push and pull")]
    ratio = rounds.ratio("push and pull", "echo", "rate")
    table.row(["push + pull", *figures], ratio, at_least(0.7))
