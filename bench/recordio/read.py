"""One reader of records in Python, as a process of its own; `benchmark.py` runs several in turns.

    read.py FOLDER export COUNT                 our first records as a plain file, for the peers
    read.py FOLDER prepare COUNT PART           the plain file in the peers' formats, and checked;
                                                PART records for the slow ones
    read.py FOLDER serve COUNT READER [AHEAD]   answers each line by the MiB/s of one reading

The peers have an environment of their own, without our packages. Their files hold the first of our
records: TFRecord with valid checksums, plain and gzipped (the only compression its reader knows),
and a tar file for WebDataset. No peer verifies checksums; we always do.
"""

import gzip
import itertools
import json
import pathlib
import struct
import sys
import time

RECORD_BYTES = 1024


def main():
    folder, verb, count, *rest = sys.argv[1:]
    folder, count = pathlib.Path(folder), int(count)
    if verb == "export":
        export(folder, count)
    elif verb == "prepare":
        prepare(folder, count, int(rest[0]))
    else:
        serve(readers(folder, rest), count)


def serve(open_records, count):
    for _ in sys.stdin:
        start = time.perf_counter()
        records = total_bytes = first_bytes = 0
        for record in itertools.islice(open_records(), count):
            records += 1
            total_bytes += len(record)
            first_bytes += record[0]
        seconds = time.perf_counter() - start
        assert records == count and total_bytes == count * RECORD_BYTES and first_bytes > 0
        print(json.dumps({"rate": total_bytes / 2**20 / seconds}), flush=True)


def readers(folder, words):
    """A function that opens the records."""
    if words[0] == "tar":
        return lambda: read_tar(folder)
    if words[0].startswith("tfrecord"):
        return lambda: read_tfrecord(folder, words[0].endswith("gzip"))
    import recordio

    path, prefetch = folder / f"{words[0]}.recordio", int(words[1])
    return lambda: recordio.reader(path, prefetch=prefetch)


def export(folder, count):
    import recordio

    with open(folder / "plain", "wb") as file:
        file.writelines(recordio.reader(folder / "none.recordio", count=count))


def plain(folder, count):
    with open(folder / "plain", "rb") as file:
        for _ in range(count):
            yield file.read(RECORD_BYTES)


def prepare(folder, count, part):
    """Writes the peers' files, unless they are there, and checks what the peers make of them."""
    for name, records, write, read in [
        ("peer.tfrecord", count, write_tfrecord, lambda: read_tfrecord(folder, False)),
        ("peer.tfrecord.gz", part, write_tfrecord, lambda: read_tfrecord(folder, True)),
        ("peer.tar", part, write_tar, lambda: read_tar(folder)),
    ]:
        path = folder / name
        if path.exists():
            continue
        try:
            write(path, plain(folder, records))
            same = (a == b for a, b in zip(read(), plain(folder, records), strict=True))
            assert all(same), f"{name} differs"
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def read_tfrecord(folder, is_gzip):
    from tfrecord.reader import tfrecord_iterator

    if is_gzip:
        return tfrecord_iterator(str(folder / "peer.tfrecord.gz"), compression_type="gzip")
    return tfrecord_iterator(str(folder / "peer.tfrecord"))


def read_tar(folder):
    import webdataset

    dataset = webdataset.WebDataset(str(folder / "peer.tar"), shardshuffle=False)
    return (sample["bin"] for sample in dataset)


def write_tfrecord(path, records):
    with open(path, "wb") if path.suffix == ".tfrecord" else gzip.open(path, "wb") as file:
        for record in records:
            length = struct.pack("<Q", len(record))
            file.write(length + masked_checksum(length) + record + masked_checksum(record))


def masked_checksum(data):
    import crc32c

    checksum = crc32c.crc32c(data)
    masked = ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", masked)


def write_tar(path, records):
    import webdataset

    with webdataset.TarWriter(str(path)) as writer:
        for number, record in enumerate(records):
            writer.write({"__key__": f"{number:08}", "bin": record})


if __name__ == "__main__":
    main()
