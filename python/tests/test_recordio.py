"""The package `recordio`, as a Python program uses it."""

import glob
import os
import pickle
import struct
import subprocess
import sys
import threading

import pytest

import paddle
import recordio
from paddle import errors


def write(path, records, **options):
    with recordio.writer(path, **options) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def test_records_come_back_in_order_with_nuls_and_empty_ones(tmp_path):
    records = [b"hello", b"", b"a\0b\0", bytes(range(256)) * 100]
    path = write(tmp_path / "data", records)
    reader = recordio.reader(path)
    assert [reader.read() for _ in records] == records
    assert reader.read() is None
    assert reader.read() is None
    reader.close()


def test_the_reader_of_the_documentation_runs_as_written(tmp_path):
    # The sharding reader that the cloud's manual shows, Python 3 spelling aside.
    for part in range(4):
        items = [pickle.dumps((part, item)) for item in range(3)]
        write(tmp_path / f"uci_housing_train-{part:05d}", items)

    def recordio_reader(filepath, parallelism, trainer_id):
        def reader():
            if trainer_id >= parallelism:
                sys.stdout.write("invalied trainer_id: %d\n" % trainer_id)  # noqa: UP031
                return
            files = glob.glob(filepath)
            files.sort()
            my_file_list = []
            for idx, f in enumerate(files):
                if idx % parallelism == trainer_id:
                    my_file_list.append(f)

            for fn in my_file_list:
                r = recordio.reader(fn)
                while True:
                    d = r.read()
                    if not d:
                        break
                    yield pickle.loads(d)

        return reader

    pattern = str(tmp_path / "uci_housing_train*")
    shards = [list(recordio_reader(pattern, 2, rank)()) for rank in range(2)]
    assert shards[0] == [(part, item) for part in (0, 2) for item in range(3)]
    assert shards[1] == [(part, item) for part in (1, 3) for item in range(3)]


def test_iteration_len_seek_and_ranges(tmp_path):
    for part in range(3):
        write(
            tmp_path / f"part-{part}", [b"%d%d" % (part, item) for item in range(4)], chunk_bytes=4
        )
    pattern = str(tmp_path / "part-*")
    with recordio.reader(pattern) as reader:
        assert len(reader) == 12
        assert list(reader)[5] == b"11"
        reader.seek(10)
        assert list(reader) == [b"22", b"23"]
    with recordio.reader(pattern, start=3, count=4) as reader:
        assert len(reader) == 4
        assert list(reader) == [b"03", b"10", b"11", b"12"]
    assert list(recordio.reader([tmp_path / "part-1", tmp_path / "part-0"], count=1)) == [b"10"]
    assert len(list(recordio.reader(f"{tmp_path}/part-0,{tmp_path}/part-2"))) == 8


def test_scanner_and_index_of_the_older_package(tmp_path):
    path = write(tmp_path / "data", [b"0", b"1", b"2", b"3"], chunk_bytes=2, compressor="none")
    index = recordio.Index(path)
    assert (index.num_records(), len(index), index.num_chunks(), index.layout) == (4, 4, 2, "go")
    assert index.chunks == [(0, 30, 2, "none"), (30, 30, 2, "none")]
    assert index.locate(2) == (1, 0)
    assert index.locate(4) is None
    scanner = recordio.Scanner(path, 1, 2, index)
    assert [scanner.record() for _ in range(3)] == [b"1", b"2", None]
    assert len(recordio.Scanner(path)) == 4


@pytest.mark.parametrize("compressor", ["none", "snappy", "gzip", "zstd"])
def test_every_compressor_reads_back(tmp_path, compressor):
    records = [os.urandom(100), b"x" * 100_000, b""] * 20
    path = write(tmp_path / "data", records, compressor=compressor, chunk_bytes=50_000, threads=2)
    assert list(recordio.reader(path)) == records
    assert list(recordio.reader(path, prefetch=0)) == records


def test_text_is_stored_as_utf8_and_other_types_are_refused(tmp_path):
    path = write(tmp_path / "data", ["naïve 中文", bytearray(b"bytes"), memoryview(b"view")])
    assert list(recordio.reader(path)) == ["naïve 中文".encode(), b"bytes", b"view"]
    with pytest.raises(TypeError, match="a record is bytes or str, not dict"):
        write(tmp_path / "other", [{}])


def test_a_file_appears_only_when_its_writer_closes(tmp_path):
    path = tmp_path / "data"
    writer = recordio.writer(path)
    writer.write(b"1")
    assert not path.exists()
    writer.close()
    assert path.exists()
    writer.close()
    with pytest.raises(errors.ConflictError, match="this RecordIO writer is closed"):
        writer.write(b"2")


def test_an_exception_in_the_with_block_discards_the_file(tmp_path):
    with pytest.raises(ZeroDivisionError), recordio.writer(tmp_path / "data") as writer:
        writer.write(b"1")
        1 / 0
    assert list(tmp_path.iterdir()) == []


def test_a_forgotten_writer_warns(tmp_path):
    writer = recordio.writer(tmp_path / "data")
    writer.write(b"1")
    with pytest.warns(ResourceWarning, match="was never closed, so nothing was written"):
        del writer


@pytest.mark.parametrize("prefetch", [0, 1])
def test_damage_is_an_exception_and_never_an_end(tmp_path, prefetch):
    path = tmp_path / "data"
    write(path, [b"first", b"second"], chunk_bytes=5)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    reader = recordio.reader(path, prefetch=prefetch)
    assert reader.read() == b"first"
    for _ in range(2):
        with pytest.raises(errors.DamagedError) as caught:
            reader.read()
        assert f"chunk checksum does not match (file: {path}, chunk: 1, offset:" in str(
            caught.value
        )
        assert isinstance(caught.value, (errors.Error, OSError))


def test_mistakes_get_the_exception_and_the_text_that_help(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file matches .pattern: .*missing-"):
        recordio.reader(str(tmp_path / "missing-*"))
    with pytest.raises(ValueError, match="is a directory, not a RecordIO file; name its files"):
        recordio.reader(tmp_path)
    with pytest.raises(ValueError, match="unknown compressor; use one of none, snappy, gzip, zstd"):
        recordio.writer(tmp_path / "data", compressor="lz4")
    with pytest.raises(errors.UnsupportedError, match="this layout has no such compressor"):
        recordio.writer(tmp_path / "data", layout="fluid", compressor="gzip")
    with pytest.raises(FileNotFoundError, match="cannot create RecordIO file"):
        recordio.writer(tmp_path / "no" / "such" / "folder")
    write(tmp_path / "data", [b"12345"])
    with pytest.raises(errors.LimitExceededError, match="chunk is larger than allowed"):
        list(recordio.reader(tmp_path / "data", chunk_bytes_max=4))


def test_threads_share_a_reader_and_each_record_is_read_once(tmp_path):
    records = [struct.pack("<I", number) for number in range(20_000)]
    path = write(tmp_path / "data", records, chunk_bytes=4_000)
    reader = recordio.reader(path)
    parts = [[] for _ in range(4)]
    threads = [threading.Thread(target=lambda part=part: part.extend(reader)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(record for part in parts for record in part) == sorted(records)


def test_the_interpreter_runs_on_while_a_chunk_is_read(tmp_path):
    # A counter that only moves while the reader waits for its one large chunk.
    path = write(tmp_path / "data", [b"x" * (1 << 20)] * 64, compressor="gzip", chunk_bytes=1 << 30)
    reader = recordio.reader(path, prefetch=0)
    moved = threading.Event()
    sys.setswitchinterval(1000)
    try:
        thread = threading.Thread(target=moved.set)
        thread.start()
        was_moved_before = moved.is_set()
        reader.read()
        # With a switch interval this long the thread ran before the read or during it.
        assert was_moved_before or moved.is_set()
    finally:
        sys.setswitchinterval(0.005)
        thread.join()


def test_a_reader_used_after_fork_says_so_instead_of_hanging(tmp_path):
    path = write(tmp_path / "data", [b"1", b"2"], chunk_bytes=1)
    program = """
import os, sys, recordio
reader = recordio.reader(sys.argv[1])
child = os.fork()
if child == 0:
    try:
        reader.read()
    except RuntimeError as error:
        print(error, flush=True)
        os._exit(0)
    os._exit(1)
assert os.waitpid(child, 0)[1] == 0
assert reader.read() == b"1"
"""
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "was opened before a fork; open it in the child process" in done.stdout


def test_the_command_of_the_wheel_reads_what_python_wrote(tmp_path):
    path = write(tmp_path / "data", [b"hello", b"world"])
    command = os.path.join(os.path.dirname(sys.executable), "paddle")
    done = subprocess.run([command, "recordio", "cat", path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "hello\nworld\n")
    done = subprocess.run([command, "version"], capture_output=True, text=True)
    assert done.stdout.startswith(f"PaddlePaddle {paddle.__version__}, compiled with\n")
