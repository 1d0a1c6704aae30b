"""Sequential read of RecordIO: from Rust against what no reader can beat, from Python against
readers that Python programs use today. README.md explains both.
"""

import functools
import os
import pathlib
import shutil
import sys

from harness import Program, at_least, build, command_output, environment

TITLE = "RecordIO: sequential read of 1 KiB records"
HERE = pathlib.Path(__file__).resolve().parent
COMPRESSORS = ("none", "snappy", "gzip", "zstd")
PEERS = ["tfrecord==1.14.6", "webdataset==1.0.2", "crc32c>=2.7", "numpy>=1.26"]
CORES = sorted(os.sched_getaffinity(0))
# What each is compared with: none with the CRC-32 of its file, the others with their decode.
AIMS = {"none": at_least(0.8), "snappy": at_least(0.8)}


def run(bench):
    records = bench.size(1 << 20, smoke=1 << 12)
    program = build("read")
    command_output([program, "prepare", bench.scratch, records])
    bench.say(f"\n{records:,} records; MiB of record bytes per second, warm page cache.")
    from_rust(bench, [program, "serve", bench.scratch, records])
    from_python(bench, records)


def pinned(cores):
    """A command's prefix that keeps it on these cores, where it can be kept."""
    where = ",".join(map(str, cores))
    return ["taskset", "-c", where] if shutil.which("taskset") else []


def from_rust(bench, serve):
    for title, prefetch, cores in [
        ("One core, no prefetch", 0, CORES[-1:]),
        ("All cores, one chunk of prefetch", 1, CORES),
    ]:
        bench.section(title)
        columns = ["compressor", "stored", "reader", "limit a: CRC-32", "limit b: decode"]
        table = bench.table([*columns, "of a, then b"], judged="of its limit")
        with Program([*pinned(cores), *serve]) as program:
            for compressor in COMPRESSORS:
                row(bench, table, program, (compressor, prefetch))


def row(bench, table, program, what):
    compressor, prefetch = what
    requests = {"reader": f"read {compressor} {prefetch}", "checksum": f"checksum {compressor}"}
    if compressor != "none":
        requests["decode"] = f"decode {compressor}"
    asked = {
        name: functools.partial(lambda request: program.round(request)["rate"], request)
        for name, request in requests.items()
    }
    rounds = bench.alternate(asked)
    stored = (bench.scratch / f"{compressor}.recordio").stat().st_size
    plain = (bench.scratch / "none.recordio").stat().st_size
    cells = [compressor, stored / plain, rounds.figure("reader"), rounds.figure("checksum")]
    # With prefetch the limits are still those of one core: for information.
    aim = AIMS.get(compressor) if prefetch == 0 else None
    if compressor == "none":
        table.row([*cells, "–", "–"], rounds.ratio("reader", "checksum"), aim)
        return
    pairs = zip(rounds.values("checksum"), rounds.values("decode"), strict=True)
    both = [1 / (1 / checksum + 1 / decode) for checksum, decode in pairs]
    shares = sorted(own / each for own, each in zip(rounds.values("reader"), both, strict=True))
    cells += [rounds.figure("decode"), shares[len(shares) // 2]]
    table.row(cells, rounds.ratio("reader", "decode"), aim)


def from_python(bench, records):
    bench.section("Python: one core, except with prefetch")
    # Slow peers read less, so that all take about as long.
    most, part = min(records, 1 << 17), min(records, 1 << 15)
    peers = environment("recordio-peers", PEERS)
    serve = [HERE / "read.py", bench.scratch]
    # Our files in the peers' formats.
    command_output([sys.executable, HERE / "read.py", bench.scratch, "export", most])
    command_output([peers, *serve, "prepare", most, part])
    contenders = {
        "recordio, none": (sys.executable, "none 0", records, CORES[-1:]),
        "recordio, none, prefetch": (sys.executable, "none 1", records, CORES),
        "recordio, snappy": (sys.executable, "snappy 0", records, CORES[-1:]),
        "recordio, snappy, prefetch": (sys.executable, "snappy 1", records, CORES),
        "tfrecord": (peers, "tfrecord", most, CORES[-1:]),
        "tfrecord, gzip": (peers, "tfrecord_gzip", part, CORES[-1:]),
        "webdataset": (peers, "tar", part, CORES[-1:]),
    }
    programs, asked = [], {}
    try:
        for name, (python, reader, count, cores) in contenders.items():
            command = [*pinned(cores), python, *serve, "serve", count, *reader.split()]
            program = Program(command)
            programs.append(program)
            asked[name] = functools.partial(lambda program: program.round()["rate"], program)
        aims = {"recordio, none": at_least(5), "recordio, none, prefetch": at_least(5)}
        bench.compare(asked, "MiB/s", base="tfrecord", aims=aims)
    finally:
        for program in programs:
            program.__exit__(*sys.exc_info())
    bench.say(f"\nPeers: {', '.join(PEERS[:2])}.")
