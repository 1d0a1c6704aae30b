"""Records a second into Python, through our readers and through plain files.

All contenders run in this process; a master is started beside it for each file.
"""

import collections
import functools
import json
import os
import pickle
import random
import subprocess
import sys
import time

import paddle.v2 as paddle
import recordio
from harness import at_least

TITLE = "Records a second into Python"
CHUNK_BYTES = 1 << 20
# At most 1.3 times the time of unpickling alone; and no slower than slices of a plain file.
AIMS = {"Pickled tuples": at_least(1 / 1.3), "Raw bytes": at_least(1)}
PADDLE = os.path.join(os.path.dirname(sys.executable), "paddle")


def samples(records):
    """Like Criteo's: 13 numbers, 26 ids, a click."""
    chance = random.Random(1)
    for _ in range(records):
        numbers = [chance.random() for _ in range(13)]
        yield numbers, [chance.randrange(1_000_001) for _ in range(26)], chance.randrange(2)


def write(folder, records):
    """The same records as one plain file and as RecordIO; returns the plain one's offsets."""
    offsets = [0]
    with (
        open(folder / "plain", "wb") as plain,
        recordio.writer(folder / "snappy", chunk_bytes=CHUNK_BYTES) as snappy,
        recordio.writer(folder / "none", "none", chunk_bytes=CHUNK_BYTES) as none,
    ):
        for sample in samples(records):
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
    with open(f"{path}.log", "w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
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


def compare(bench, title, found):
    bench.section(title)
    records = size(bench)

    def timed(run):
        start = time.perf_counter()
        run()
        return records / (time.perf_counter() - start)

    asked = {name: functools.partial(timed, each) for name, each in found.items()}
    aims = {name: AIMS[title] for name in found if "reader" in name}
    bench.compare(asked, "records/s", base=next(iter(found)), aims=aims)


def size(bench):
    return bench.size(200_000, smoke=2_000)


def run(bench):
    folder = bench.scratch
    offsets = write(folder, size(bench))
    each = offsets[-1] / size(bench)
    bench.say(f"\n{size(bench):,} records of {each:.0f} bytes, in chunks of 1 MiB.")
    masters = {kind: started_master(folder / kind) for kind in ("none", "snappy")}
    try:
        addresses = {kind: address for kind, (_, address) in masters.items()}
        for title, loader in (("Pickled tuples", pickle.loads), ("Raw bytes", None)):
            compare(bench, title, contenders(folder, offsets, addresses, loader))
    finally:
        for process, _ in masters.values():
            process.kill()
            process.wait()
            process.stdout.close()
