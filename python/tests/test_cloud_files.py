"""Files of the cloud from Python, by the client and as `pfs://`, against a real server."""

import concurrent.futures
import gzip
import io
import multiprocessing
import os
import pathlib
import pickle
import subprocess
import sys
import urllib.request

import clouds
import fsspec
import pandas
import pyarrow
import pyarrow.dataset
import pyarrow.parquet
import pytest
from looking_process import look_at_all

from paddle import cloud, errors


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with the configuration of a cloud of its own."""
    folder = tmp_path_factory.mktemp("cloud")
    with clouds.serving(folder):
        yield folder


@pytest.fixture
def home(place, monkeypatch, tmp_path):
    """The home of the user in the cloud; the current directory is an empty one."""
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.delenv("PADDLECLOUD_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    fsspec.spec.AbstractFileSystem.clear_instance_cache()
    return f"/pfs/local/home/admin/{tmp_path.name}"


def test_files_go_there_and_back(home):
    client = cloud.Client()
    assert client.home == "/pfs/local/home/admin"
    os.makedirs("data/deep")
    pathlib.Path("data/a").write_text("alpha")
    pathlib.Path("data/deep/b").write_bytes(bytes(3_000_000))
    copied = client.cp("data", f"{home}/", recursive=True)
    assert (copied.files, copied.bytes) == (2, 3_000_005)
    entries = client.ls(f"{home}/data", recursive=True)
    assert [(entry.name, entry.is_directory, entry.bytes) for entry in entries] == [
        ("a", False, 5),
        ("deep", True, 0),
        ("b", False, 3_000_000),
    ]
    assert client.cat(f"{home}/data/a") == b"alpha"
    assert client.stat(f"{home}/data/a").mode == pathlib.Path("data/a").stat().st_mode & 0o777
    assert client.du(f"{home}/data").bytes == 3_000_005
    client.cp([f"{home}/data/a", f"{home}/data/deep/b"], "./")
    assert pathlib.Path("b").stat().st_size == 3_000_000
    client.cp(f"{home}/data/a", f"{home}/data/c")
    client.mv(f"{home}/data/c", f"{home}/data/d")
    assert [entry.name for entry in client.glob(f"{home}/data/[a-d]")] == ["a", "d"]
    client.rm(f"{home}/data", recursive=True)
    assert not client.exists(f"{home}/data")


def test_what_is_no_file_is_not_read_as_an_empty_one(place, home):
    client = cloud.Client()
    client.mkdir(home)
    # As a job could.
    os.symlink("a", place / "data" / "files" / home.replace("/pfs/", "", 1) / "link")
    for path, words in ((f"{home}/link", "this is a link"), (home, "this is a directory")):
        with pytest.raises(errors.InvalidError, match=words):
            client.cat(path)
        with pytest.raises(errors.InvalidError, match=words):
            fsspec.filesystem("pfs").cat_file(path)
        with pytest.raises(errors.InvalidError, match=words):
            fsspec.open(f"pfs://{path}").open()


def test_what_cannot_be_copied_is_an_exception(home):
    client = cloud.Client()
    pathlib.Path("file").write_text("x")
    os.mkdir("folder")
    with pytest.raises(errors.InvalidError, match="neither is in the cloud"):
        client.cp("file", "other")
    with pytest.raises(errors.InvalidError, match="use -r"):
        client.cp("folder", home)
    with pytest.raises(errors.InvalidError, match="at least one source"):
        client.cp([], home)
    with pytest.raises(FileNotFoundError, match="none"):
        client.cp("none", home)
    with pytest.raises(FileNotFoundError):
        client.stat(f"{home}/none")
    with pytest.raises(errors.InvalidError, match="climbs out"):
        client.rm("/pfs/local/home/admin/../eve")
    client.cp("file", f"{home}/file")
    with pytest.raises(FileExistsError):
        client.cp("file", f"{home}/file", replace=False)
    client.mkdir(f"{home}/folder")
    with pytest.raises(errors.InvalidError, match="this is a directory"):
        client.cat(f"{home}/folder")
    with pytest.raises(errors.ConflictError, match="not empty"):
        client.rm(home)


def test_links_are_made_listed_and_revoked(home):
    client = cloud.Client()
    pathlib.Path("file").write_text("for all")
    client.cp("file", f"{home}/file")
    link = client.publish(f"{home}/file")
    with urllib.request.urlopen(link.url) as answer:
        assert answer.read() == b"for all"
    assert link in client.links()
    client.revoke(link)
    assert link not in client.links()


def test_pandas_reads_and_writes_files_of_the_cloud(home):
    frame = pandas.DataFrame({"clicks": [1, 0, 1], "ad": ["x", "y", "z"]})
    url = f"pfs://{home.removeprefix('/pfs/')}/table.csv"
    frame.to_csv(url, index=False)
    assert cloud.Client().cat(f"{home}/table.csv") == b"clicks,ad\n1,x\n0,y\n1,z\n"
    assert pandas.read_csv(url).equals(frame)
    assert pandas.read_csv(f"pfs://{home}/table.csv").equals(frame)
    frame.to_csv(f"{url}.gz", index=False)
    assert pandas.read_csv(f"{url}.gz").equals(frame)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_a_data_loader_get_their_own_answers(home, method):
    system = fsspec.filesystem("pfs")
    contents = [(f"{home}/{at}", os.urandom(100_000 + at * 1000)) for at in range(8)]
    for path, content in contents:
        system.pipe_file(path, content)
    # Connections that wait for the next call, which forked processes would share.
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda one: system.cat_file(one[0]), contents))
    context = multiprocessing.get_context(method)
    told = context.Queue()
    processes = [
        context.Process(target=look_at_all, args=(system, contents, first, told))
        for first in range(4)
    ]
    for process in processes:
        process.start()
    # While the parent asks, too.
    assert look_at_all(system, contents, 0) == []
    assert [told.get(timeout=120) for _ in processes] == [[]] * 4
    for process in processes:
        process.join()
    assert pickle.loads(pickle.dumps(system)).cat_file(contents[0][0]) == contents[0][1]


def test_a_forked_process_leaves_what_its_parent_writes(home):
    system = fsspec.filesystem("pfs")
    with system.open(f"{home}/file", "wb") as file:
        file.write(b"first ")
        file.flush()
        child = os.fork()
        if child == 0:
            try:
                file.discard()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        file.write(b"second")
    assert system.cat_file(f"{home}/file") == b"first second"


def test_pyarrow_reads_and_writes_tables_and_datasets(home):
    system = fsspec.filesystem("pfs")
    frame = pandas.DataFrame({"a": range(1000), "b": [str(at % 3) for at in range(1000)]})
    url = f"pfs://{home.removeprefix('/pfs/')}/table.parquet"
    frame.to_parquet(url)
    assert pandas.read_parquet(url).equals(frame)
    table = pyarrow.Table.from_pandas(frame)
    pyarrow.parquet.write_table(table, f"{home}/own.parquet", filesystem=system)
    assert pyarrow.parquet.read_table(f"{home}/own.parquet", filesystem=system).equals(table)
    for behaviour in ("error", "delete_matching"):
        pyarrow.dataset.write_dataset(
            table,
            f"{home}/parts",
            format="parquet",
            partitioning=["b"],
            filesystem=system,
            existing_data_behavior=behaviour,
        )
        found = pyarrow.dataset.dataset(
            f"{home}/parts", format="parquet", partitioning=["b"], filesystem=system
        )
        assert (found.count_rows(), len(found.files)) == (1000, 3)


def test_the_file_system_keeps_its_promises(home):
    system = fsspec.filesystem("pfs")
    path = f"{home}/deep/file"
    content = os.urandom(9_000_000)
    with system.open(path, "wb") as file:
        file.write(content)
        assert not system.exists(path), "half a file is seen"
    with system.open(path, "rb") as file:
        file.seek(5_000_000)
        assert file.read(100) == content[5_000_000:5_000_100]
        assert file.seek(0, io.SEEK_END) == len(content)
    assert system.cat_file(path, start=-10) == content[-10:]
    assert system.info(path)["size"] == len(content) and system.isfile(path)
    with system.open(path, "ab") as file:
        file.write(b"end")
    assert system.tail(path, 3) == b"end"
    with pytest.raises(RuntimeError, match="broken"), system.open(f"{home}/half", "w") as file:
        file.write("half")
        raise RuntimeError("broken")
    assert not system.exists(f"{home}/half")
    with pytest.raises(FileExistsError):
        system.open(path, "xb")
    system.put_file(__file__, f"{home}/deep/test.py")
    assert system.ls(f"{home}/deep", detail=False) == [path, f"{home}/deep/test.py"]
    assert system.glob(f"{home}/*/*.py") == [f"{home}/deep/test.py"]
    assert [name for _, _, names in system.walk(home) for name in names] == ["file", "test.py"]
    system.get(f"{home}/deep", "back", recursive=True)
    assert pathlib.Path("back/file").read_bytes() == content + b"end"
    system.mv(path, f"{home}/moved")
    system.rm(f"{home}/deep", recursive=True)
    assert system.find(home) == [f"{home}/moved"]
    assert system.ls("pfs://local", detail=False) == ["/pfs/local/home", "/pfs/local/public"]
    with pytest.raises(FileNotFoundError):
        system.open(f"{home}/none")
    with pytest.raises(errors.InvalidError, match="rb, wb"):
        system.open(path, "r+b")


@pytest.mark.parametrize("compression", ["gzip", "bz2", "infer"])
def test_what_is_compressed_on_its_way_appears_when_it_is_closed(home, compression):
    system = fsspec.filesystem("pfs")
    path = f"{home}/text.gz"
    with system.open(path, "wt", compression=compression) as file:
        file.write("clicks")
        assert not system.exists(path), "half a file is seen"
    with system.open(path, "rt", compression=compression) as file:
        assert file.read() == "clicks"
    with system.open(path, "wb", compression=compression) as file:
        file.write(b"shows")
    with system.open(path, "rb", compression=compression) as file:
        assert file.read() == b"shows"
    for mode, content in [("wt", "half"), ("wb", b"half")]:
        with (
            pytest.raises(RuntimeError, match="broken"),
            system.open(f"{home}/half", mode, compression="gzip") as file,
        ):
            file.write(content)
            raise RuntimeError("broken")
    assert not system.exists(f"{home}/half")


class Closing(gzip.GzipFile):
    """Closes what it writes to, as zstandard does."""

    def __init__(self, file, mode):
        self._below = file
        super().__init__(fileobj=file, mode=mode)

    def close(self):
        try:
            super().close()
        finally:
            self._below.close()


@pytest.fixture
def closing():
    """The name of a compression that closes what it writes to."""
    fsspec.compression.register_compression("closing", Closing, [])
    yield "closing"
    del fsspec.compression.compr["closing"]


@pytest.mark.parametrize("mode", ["wb", "wt"])
def test_a_compressor_that_closes_its_file_does_not_decide_that_it_is_kept(home, closing, mode):
    system = fsspec.filesystem("pfs")
    path = f"{home}/text"
    whole, half = ("whole", "half") if mode == "wt" else (b"whole", b"half")
    with system.open(path, mode, compression=closing) as file:
        file.write(whole)
    with (
        pytest.raises(RuntimeError, match="broken"),
        system.open(path, mode, compression=closing) as file,
    ):
        file.write(half)
        raise RuntimeError("broken")
    file = system.open(path, mode, compression=closing)
    file.write(half)
    with pytest.warns(ResourceWarning, match="never closed"):
        del file
    assert gzip.decompress(system.cat_file(path)) == b"whole"


def test_files_of_a_transaction_appear_at_its_end(home):
    system = fsspec.filesystem("pfs")
    with system.transaction:
        with system.open(f"{home}/a", "wb") as file:
            file.write(b"a")
        assert not system.exists(f"{home}/a")
    assert system.cat_file(f"{home}/a") == b"a"
    with pytest.raises(RuntimeError, match="broken"), system.transaction:
        with system.open(f"{home}/b", "wb") as file:
            file.write(b"b")
        raise RuntimeError("broken")
    assert not system.exists(f"{home}/b")


UNCLOSED = pytest.mark.parametrize(
    ("mode", "compression"), [("wb", None), ("wt", None), ("wb", "gzip"), ("wt", "gzip")]
)


@UNCLOSED
def test_a_file_that_is_never_closed_is_not_kept_and_says_so(home, mode, compression):
    system = fsspec.filesystem("pfs")
    file = system.open(f"{home}/lost", mode, compression=compression)
    file.write("half" if mode == "wt" else b"half")
    with pytest.warns(ResourceWarning, match="never closed"):
        del file
    assert not system.exists(f"{home}/lost")


@UNCLOSED
def test_a_file_that_is_open_at_the_end_of_a_transaction_is_not_kept(home, mode, compression):
    system = fsspec.filesystem("pfs")
    with pytest.warns(ResourceWarning, match="never closed"), system.transaction:
        with system.open(f"{home}/whole", mode, compression=compression) as file:
            file.write("whole" if mode == "wt" else b"whole")
        file = system.open(f"{home}/lost", mode, compression=compression)
        file.write("half" if mode == "wt" else b"half")
    assert not system.exists(f"{home}/lost")
    with system.open(f"{home}/whole", "rb", compression=compression) as file:
        assert file.read() == b"whole"


def test_without_fsspec_it_says_what_to_install():
    script = "import sys; sys.modules['fsspec.spec'] = None; import paddle.cloud.filesystem"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "pfs:// needs fsspec: pip install fsspec" in done.stderr
