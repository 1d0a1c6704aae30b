"""How a CTR job would scale from 2 to 1000 trainers: on paper and by a small simulation, from costs
that were measured on this machine.

Assumptions, all here:

- A trainer has one core and computes a step of 512 samples in what its processor time says, times
  a factor that varies by 10 % from step to step (log-normal). It waits for its values: that rows
  are pushed and pulled while the next step is computed is left out, as dense values are waited for.
- A server has one core. Keys and dense elements are dealt out evenly, so each of P servers has
  1/P of a step's work, and a fixed cost per request, which trainers pay too: what an exchange of
  one value and one row takes (`request.py`). The difference between jobs with one server and with
  two is smaller than the noise of both.
- Trainers and servers each have a network of 10 Gbit/s to themselves, and 100 µs between them.
- There are as many servers as keep their cores and networks at most 70 % busy.
- Sync: a step ends when the slowest trainer has pushed. Async: no trainer waits for another.
- Nothing fails, and the time to start is left out.

Not in it: switches that are shared, memory bandwidth between processes of one machine, the loss in
accuracy by stale gradients.
"""

import dataclasses
import heapq
import math
import pathlib
import random
import sys

from harness import Program

BATCH = 512
REQUEST = pathlib.Path(__file__).resolve().with_name("request.py")
NETWORK_BYTES_PER_SECOND = 10e9 / 8
DELAY_SECONDS = 100e-6
BUSY_MAX = 0.7
VARIATION = 0.1
# A request that takes more of a step's processor time was not measured alone.
REQUEST_SHARE_MAX = 0.02
TRAINERS = (2, 8, 32, 100, 320, 1000)
# Servers are alike; a step waits for the slowest of at most so many that are simulated.
SERVERS_SIMULATED = 8


@dataclasses.dataclass(frozen=True)
class Costs:
    """Measured on one machine; seconds are of a processor."""

    trainer_seconds: float
    server_seconds: float
    bytes: float
    request_seconds: float

    @classmethod
    def of(cls, rounds, job, request_seconds):
        """From the figures of a job of ours, and those of a request."""
        sides = [rounds.figure(job, f"{role} seconds").median for role in ("trainer", "pserver")]
        has_bytes = all("bytes" in answer for answer in rounds.answers[job])
        share = request_seconds / (BATCH * sum(sides))
        if share > REQUEST_SHARE_MAX:
            raise ValueError(
                f"a request of {request_seconds * 1e6:.0f} µs would be {share:.0%} of a step, more "
                f"than {REQUEST_SHARE_MAX:.0%}; measure again on a machine that is quiet"
            )
        return cls(
            *sides, rounds.figure(job, "bytes").median if has_bytes else 0.0, request_seconds
        )


@dataclasses.dataclass(frozen=True)
class Plan:
    """A job of so many trainers, and what it can reach on paper."""

    trainers: int
    servers: int
    step_seconds: float
    # One request of a step at one server, and its way there and back.
    service_seconds: float
    wire_seconds: float

    @property
    def rate(self):
        """Samples a second if nobody ever waits in a queue."""
        return self.trainers * BATCH / self.step_seconds


def plan(costs, trainers):
    """The fewest servers that are not too busy, by trying."""
    servers = 1
    while True:
        service = BATCH * costs.server_seconds / servers + costs.request_seconds
        wire = BATCH * costs.bytes / servers / NETWORK_BYTES_PER_SECOND
        own = BATCH * costs.trainer_seconds + servers * costs.request_seconds
        # Bytes of all servers share the trainer's network; whether a server's own network carries
        # the bytes of all trainers, BUSY_MAX decides.
        step = own + service + wire * servers + 2 * DELAY_SECONDS
        if trainers * max(service, wire) / step <= BUSY_MAX:
            return Plan(trainers, servers, step, service, wire)
        servers = math.ceil(servers * 1.1) if servers > 1 else 2


def simulate(costs, job, is_sync, steps=20):
    """Samples a second of a job with queues at its servers."""
    draw = random.Random(1)
    servers = min(job.servers, SERVERS_SIMULATED)
    free = [0.0] * servers
    own = BATCH * costs.trainer_seconds + job.servers * costs.request_seconds
    send = BATCH * costs.bytes / NETWORK_BYTES_PER_SECOND
    hold = max(job.service_seconds, job.wire_seconds)

    def compute():
        return own * draw.lognormvariate(0, VARIATION)

    # Moments at which trainers have computed a step and send it.
    ready = [(compute() * draw.random(), 0) for _ in range(job.trainers)]
    heapq.heapify(ready)
    ended, waiting, done = 0.0, [], 0
    while ready:
        at, step = heapq.heappop(ready)
        arrival = at + send + DELAY_SECONDS
        back = 0.0
        for server in range(servers):
            free[server] = max(free[server], arrival) + hold
            back = max(back, free[server])
        back += DELAY_SECONDS
        ended, done = max(ended, back), done + 1
        if step + 1 == steps:
            continue
        if not is_sync:
            heapq.heappush(ready, (back + compute(), step + 1))
            continue
        waiting.append(back)
        if len(waiting) == job.trainers:
            slowest = max(waiting)
            waiting = []
            for _ in range(job.trainers):
                heapq.heappush(ready, (slowest + compute(), step + 1))
    return done * BATCH / ended


def measure_request(bench):
    """Processor seconds of either side, which are about the same."""
    count = bench.size(5000, smoke=200)
    with Program([sys.executable, REQUEST]) as program:
        rounds = bench.alternate({"request": lambda: program.round(str(count))})
    return sum(rounds.figure("request", side).median for side in ("trainer", "server")) / 2


def report(bench, rounds, job):
    bench.section("From 2 to 1000 trainers, on paper and simulated")
    costs = Costs.of(rounds, job, measure_request(bench))
    bench.say(
        f"\nFrom the costs of {job}: {costs.trainer_seconds * 1e6:.1f} µs of a trainer's core, "
        f"{costs.server_seconds * 1e6:.1f} µs of a server's, {costs.bytes:,.0f} bytes a sample, "
        f"{costs.request_seconds * 1e6:.0f} µs a request. Assumptions: `bench/ctr/scaling.py`."
    )
    columns = ["trainers", "servers", "on paper, samples/s", "async, samples/s", "sync, samples/s"]
    table = bench.table([*columns, "sync, per trainer"], judged="async, per trainer")
    first = None
    for trainers in bench.size(TRAINERS, smoke=TRAINERS[:2]):
        job = plan(costs, trainers)
        rates = [simulate(costs, job, is_sync) for is_sync in (False, True)]
        first = first or [rate / trainers for rate in rates]
        shares = [rate / trainers / one for rate, one in zip(rates, first, strict=True)]
        table.row([trainers, job.servers, job.rate, *rates, shares[1]], shares[0])
