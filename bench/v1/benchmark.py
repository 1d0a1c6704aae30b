"""Samples a second of a V1 training: the engine alone, a V2 reader, a V1 provider."""

import functools
import pathlib
import sys

import contender

from harness import Measured, at_least, command_output, figures_of

TITLE = "Samples a second of a V1 training"
PROGRAM = pathlib.Path(contender.__file__)
CONTENDERS = {
    "engine": "the engine alone, batches converted before",
    "generator": "the generator alone, parsing lines in one process",
    "v2": "the reader in V2, `paddle.v2`'s SGD",
    "v2_buffered": "the reader in V2, in `paddle.reader.buffered`",
    "v1": "the provider in V1, `paddle train`",
}
# A provider has a core of its own, so the slower of generator and engine is its limit.
AIMS = {"v1": at_least(0.8)}


def run(bench):
    samples = bench.size(40_000, smoke=2_000)
    contender.write(bench.scratch, samples)
    bench.say(f"\n{samples:,} samples in batches of {contender.BATCH}, one thread.")

    def rate(name):
        command = [sys.executable, PROGRAM, name, samples]
        return figures_of(command_output(command, cwd=bench.scratch), command)["rate"]

    contenders = {name: functools.partial(rate, name) for name in CONTENDERS}
    rounds = bench.alternate(contenders, rounds=5, warm_up=0)
    limits = [
        min(pair) for pair in zip(rounds.values("engine"), rounds.values("generator"), strict=True)
    ]
    table = bench.table(["", "samples/s"], judged="of the slower of the first two")
    for name, shown in CONTENDERS.items():
        pairs = zip(rounds.values(name), limits, strict=True)
        share = Measured.of([own / limit for own, limit in pairs])
        table.row([shown, rounds.figure(name)], share, AIMS.get(name))
