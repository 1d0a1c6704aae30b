"""Records a second into Python, through our readers and through plain files.

    read.py FOLDER    writes the records there and prints the tables

All contenders run in this process, in turns; a master is started beside it.
"""

import collections
import json
import os
import pathlib
import pickle
import random
import statistics
import subprocess
import sys
import time

import paddle.v2 as paddle
import recordio

ROUNDS = 7
RECORDS = 200_000
CHUNK_BYTES = 1 << 20
PADDLE = os.path.join(os.path.dirname(sys.executable), "paddle")


def samples():
    """Like Criteo's: 13 numbers, 26 ids, a click."""
    chance = random.Random(1)
    for _ in range(RECORDS):
        numbers = [chance.random() for _ in range(13)]
        yield numbers, [chance.randrange(1_000_001) for _ in range(26)], chance.randrange(2)


def write(folder):
    """The same records as one plain file and as RecordIO; returns the plain one's offsets."""
    offsets = [0]
    with (
        open(folder / "plain", "wb") as plain,
        recordio.writer(folder / "snappy", chunk_bytes=CHUNK_BYTES) as snappy,
        recordio.writer(folder / "none", "none", chunk_bytes=CHUNK_BYTES) as none,
    ):
        for sample in samples():
            record = pickle.dumps(sample, pickle.HIGHEST_PROTOCOL)
            for file in (plain, snappy, none):
                file.write(record)
            offsets.append(offsets[-1] + len(record))
    return offsets


def consume(records):
    """Takes all, as quickly as can be."""
    collections.deque(records, maxlen=0)


def started_master(path):
    command = [PADDLE, "master", "--port=0", f"--dataset={path}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    port = json.loads(process.stdout.readline())["port"]
    return process, f"127.0.0.1:{port}"


def contenders(folder, offsets, masters, loader):
    """Functions that go through all records once, by name; all are compared with the first."""
    pairs = list(zip(offsets, offsets[1:], strict=False))
    load = loader or bytes

    def plain():
        content = memoryview((folder / "plain").read_bytes())
        consume(load(content[start:end]) for start, end in pairs)

    content = (folder / "plain").read_bytes()
    memory = [content[start:end] for start, end in pairs]
    found = {"open().read, a slice a record": plain}
    if loader is not None:
        found = {
            "pickle.loads alone, records in memory": lambda: consume(map(load, memory)),
            **found,
        }
    for kind in ("none", "snappy"):
        recordio_reader = paddle.reader.creator.recordio(str(folder / kind), loader=loader)
        cloud = paddle.reader.creator.cloud_reader(master_endpoint=masters[kind], loader=loader)
        found[f"reader.creator.recordio, {kind}"] = lambda reader=recordio_reader: consume(reader())
        found[f"cloud_reader, {kind}"] = lambda reader=cloud: consume(reader())
    return found


def compare(title, found):
    print(f"\n## {title}\n")
    print("| | records/s | time, the first being 1 | spread |")
    print("|---|--:|--:|--:|")
    times = {name: [] for name in found}
    for _ in range(ROUNDS):
        for name, run in found.items():
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    first = next(iter(times.values()))
    for name, own in times.items():
        ratios = [one / other for one, other in zip(own, first, strict=True)]
        print(
            f"| {name} | {RECORDS / statistics.median(own):,.0f} "
            f"| {statistics.median(ratios):.2f} | {min(ratios):.2f}–{max(ratios):.2f} |"
        )


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    offsets = write(folder)
    print(f"{RECORDS:,} records of {offsets[-1] / RECORDS:.0f} bytes, in chunks of 1 MiB.")
    masters = {kind: started_master(folder / kind) for kind in ("none", "snappy")}
    try:
        addresses = {kind: address for kind, (_, address) in masters.items()}
        for title, loader in (("Pickled tuples", pickle.loads), ("Raw bytes", None)):
            compare(title, contenders(folder, offsets, addresses, loader))
    finally:
        for process, _ in masters.values():
            process.kill()
            process.wait()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
