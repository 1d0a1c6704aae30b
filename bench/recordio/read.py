"""Iteration over the records from Python, against readers that Python programs use today.

Run after `read.rs` has prepared the files. The peers' files hold the same records, the slow peers'
only the first of them: TFRecord with valid checksums, plain and gzipped (the only compression its
reader knows), and a tar file for WebDataset. No peer verifies checksums; we always do. Contenders
take turns; prints Markdown.
"""

import gzip
import os
import statistics
import struct
import time
from importlib.metadata import version
from pathlib import Path

import crc32c
import webdataset
from tfrecord.reader import tfrecord_iterator

import recordio

DATA = Path(__file__).parent.parent / "scratch" / "recordio"
RECORD_BYTES = 1024
RECORDS = 1 << 20
PART_RECORDS = 1 << 15
ROUNDS = 5
ALL_CORES = os.sched_getaffinity(0)
ONE_CORE = {max(ALL_CORES)}


def ours(compressor, prefetch):
    return lambda: recordio.reader(DATA / f"{compressor}.recordio", prefetch=prefetch)


def tfrecord():
    return tfrecord_iterator(str(DATA / "peer.tfrecord"))


def tfrecord_gzip():
    return tfrecord_iterator(str(DATA / "peer.tfrecord.gz"), compression_type="gzip")


def tar():
    dataset = webdataset.WebDataset(str(DATA / "peer.tar"), shardshuffle=False)
    return (sample["bin"] for sample in dataset)


CONTENDERS = {
    "recordio, none": (ours("none", 0), RECORDS, ONE_CORE),
    "recordio, none, prefetch": (ours("none", 1), RECORDS, ALL_CORES),
    "recordio, snappy": (ours("snappy", 0), RECORDS, ONE_CORE),
    "recordio, snappy, prefetch": (ours("snappy", 1), RECORDS, ALL_CORES),
    "tfrecord": (tfrecord, RECORDS, ONE_CORE),
    "tfrecord, gzip": (tfrecord_gzip, PART_RECORDS, ONE_CORE),
    "webdataset": (tar, PART_RECORDS, ONE_CORE),
}


def masked_checksum(data):
    checksum = crc32c.crc32c(data)
    masked = ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", masked)


def write_tfrecord(path, records):
    with open(path, "wb") if path.suffix == ".tfrecord" else gzip.open(path, "wb") as file:
        for record in records:
            length = struct.pack("<Q", len(record))
            file.write(length + masked_checksum(length) + record + masked_checksum(record))


def write_tar(path, records):
    with webdataset.TarWriter(str(path)) as writer:
        for number, record in enumerate(records):
            writer.write({"__key__": f"{number:08}", "bin": record})


def prepare():
    """Writes the peers' files, unless they are there, and checks what the peers make of them."""
    files = [
        ("peer.tfrecord", write_tfrecord, tfrecord, RECORDS),
        ("peer.tfrecord.gz", write_tfrecord, tfrecord_gzip, PART_RECORDS),
        ("peer.tar", write_tar, tar, PART_RECORDS),
    ]
    for name, write, read, count in files:
        path = DATA / name
        if path.exists():
            continue
        try:
            write(path, recordio.reader(DATA / "none.recordio", count=count))
            ours = recordio.reader(DATA / "none.recordio", count=count)
            assert all(a == b for a, b in zip(read(), ours, strict=True)), f"{name} differs"
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def measure(open_records, count, cores):
    """MiB of record bytes per second."""
    os.sched_setaffinity(0, cores)
    start = time.perf_counter()
    total_bytes = first_bytes = 0
    for record in open_records():
        total_bytes += len(record)
        first_bytes += record[0]
    seconds = time.perf_counter() - start
    assert total_bytes == count * RECORD_BYTES and first_bytes > 0
    return total_bytes / 2**20 / seconds


def main():
    prepare()
    rates = {name: [] for name in CONTENDERS}
    for _ in range(ROUNDS):
        for name, contender in CONTENDERS.items():
            rates[name].append(measure(*contender))
    medians = {name: statistics.median(rate) for name, rate in rates.items()}
    peers = [name for name in medians if not name.startswith("recordio")]
    print("| reader | MiB/s |", " | ".join(f"× {peer}" for peer in peers), "| spread |")
    print("|---|--:|" + "--:|" * (len(peers) + 1))
    for name, rate in medians.items():
        ratios = " | ".join(f"{rate / medians[peer]:.1f}" for peer in peers)
        spread = (max(rates[name]) - min(rates[name])) / rate
        print(f"| {name} | {rate:.0f} | {ratios} | {spread:.0%} |")
    print("\nPeers:", ", ".join(f"{name} {version(name)}" for name in ["tfrecord", "webdataset"]))


if __name__ == "__main__":
    main()
