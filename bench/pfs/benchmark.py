"""Files to the cloud and back: one large one and many small ones, on loopback and one disk."""

import contextlib
import mmap
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

from harness import HarnessError, at_least, at_most, command_output

TITLE = "Copies of users' files"
PADDLECLOUD = pathlib.Path(sys.executable).with_name("paddlecloud")
MIB = 1 << 20
SMALL_BYTES = 10 << 10
ROOM_LEFT = 4 << 30
FILES_OF_A_DIRECTORY = 100
# Of 10,000 files; its rate does not depend on how many there are, and is some 30 a second.
PEER_FILES_SHARE = 10
# What a copy, or anything else, may take: at 40 MiB/s and 40 files a second, and some more.
SECONDS_LEAST, MIB_PER_SECOND, FILES_PER_SECOND = 120, 40, 40


def options(parser):
    parser.add_argument("--gib", type=float, default=2, help="the large file (2; a larger one: 5)")
    parser.add_argument("--files", type=int, default=10_000, help="the small ones (or 100000)")
    parser.add_argument("--paddlecloud", type=pathlib.Path, default=PADDLECLOUD)


def run(bench):
    remove(bench.scratch)
    bench.scratch.mkdir(parents=True)
    try:
        run_in_scratch(bench)
    finally:
        shutil.rmtree(bench.scratch, ignore_errors=True)


def run_in_scratch(bench):
    large_bytes = int(getattr(bench.options, "gib", 2) * (1 << 30)) // MIB * MIB
    large_bytes = bench.size(large_bytes, 8 * MIB)
    files = bench.size(getattr(bench.options, "files", 10_000), 100)
    program = getattr(bench.options, "paddlecloud", PADDLECLOUD)
    check_room(bench.scratch, 4 * large_bytes + 4 * files * 2 * SMALL_BYTES)
    limit = SECONDS_LEAST + large_bytes / MIB / MIB_PER_SECOND + files / FILES_PER_SECOND
    with Cloud(bench.scratch / "cloud", program, limit) as cloud:
        if rclone := shutil.which("rclone"):
            peer = Rclone(bench.scratch / "rclone", rclone, limit)
        else:
            bench.leave_out("rclone", "it is not installed")
            peer = contextlib.nullcontext()
        with peer as peer:
            large(bench, cloud, peer, large_bytes)
            small(bench, cloud, peer, files)


def check_room(folder, needed):
    """A disk that others need, too, is not filled: the source, two stores and a copy are there."""
    free = shutil.disk_usage(folder).free
    if free < needed + ROOM_LEFT:
        raise HarnessError(
            f"this needs {needed / 2**30:.1f} GiB and leaves {ROOM_LEFT >> 30} to others; the disk "
            f"has {free / 2**30:.1f}: give less by --gib and --files"
        )


def large(bench, cloud, peer, size):
    """One large file; the rates are MiB a second."""
    source, back, copy = (bench.scratch / name for name in ("large", "back", "copy"))
    write(source, size)
    mib = size / MIB

    def rate(work, made=None, is_kept=False):
        remove(made)
        os.sync()
        warm(bench.scratch / "warm", size)
        began = time.monotonic()
        work()
        seconds = time.monotonic() - began
        if not is_kept:
            remove(made)
        return mib / seconds

    def upload():
        cloud.remove("large")
        return rate(lambda: cloud.command("cp", source, cloud.path("large")))

    def download():
        # The page cache is what it reads from, as with all others: what counts is what is written.
        read(cloud.stored("large"))
        return rate(lambda: cloud.command("cp", cloud.path("large"), back), back)

    contenders = {
        "disk, written and synced": lambda: rate(lambda: write(copy, size, is_synced=True), copy),
        "loopback, one socket": lambda: loopback(size) / MIB,
        "disk, written directly": lambda: rate(lambda: write_directly(copy, size), copy),
        "`cp`, then `sync`": lambda: rate(lambda: cp(source, copy), copy),
        "upload": upload,
        "download": download,
    }
    if peer:
        contenders["rclone, upload"] = lambda: rate(
            lambda: peer.copy(source, ":webdav:"), peer.folder / "large", is_kept=True
        )
        contenders["rclone, download"] = lambda: rate(
            lambda: peer.copy(":webdav:large", bench.scratch / "peer"), bench.scratch / "peer"
        )
    cloud.forget_peak()
    rounds = bench.alternate(contenders, rounds=3)
    bench.section(f"One file of {mib / 1024:.3g} GiB")
    disk, wire = (rounds.figure(name).median for name in list(contenders)[:2])
    limit = list(contenders)[0 if disk <= wire else 1]
    table = bench.table(["", "MiB/s"], judged=f"of the slower limit ({limit})")
    aims = {"upload": at_least(0.9), "download": at_least(0.9)}
    for name in contenders:
        ratio = None if name == limit else rounds.ratio(name, limit)
        table.row([name, rounds.figure(name)], ratio, aims.get(name))
    memory(bench, cloud)
    cloud.remove("large")
    remove(source)
    if peer:
        remove(peer.folder / "large")


def small(bench, cloud, peer, files):
    """Many small files; the rates are files a second."""
    source, few, back, copy = (bench.scratch / name for name in ("small", "few", "back", "copy"))
    make_files(source, files)
    peer_files = max(min(files, 10_000) // PEER_FILES_SHARE, 1)
    make_files(few, peer_files)

    def rate(work, *made, count=files):
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
        os.sync()
        began = time.monotonic()
        work()
        return count / (time.monotonic() - began)

    def upload():
        cloud.remove("small")
        return rate(lambda: cloud.command("cp", "-r", source, cloud.path("small")))

    def download():
        def work():
            cloud.command("cp", "-r", cloud.path("small"), back)
            # As after every other copy.
            command_output(["sync", "-f", back])

        return rate(work, back)

    contenders = {
        "`cp -r`, then `sync`": lambda: rate(lambda: cp(source, copy), copy),
        "upload": upload,
        "download": download,
    }
    if peer:
        target, theirs = peer.folder / "small", bench.scratch / "peer"
        contenders["rclone, upload"] = lambda: rate(
            lambda: peer.copy(few, ":webdav:small"), target, count=peer_files
        )
        contenders["rclone, download"] = lambda: rate(
            lambda: peer.copy(":webdav:small", theirs), theirs, count=peer_files
        )
    cloud.forget_peak()
    rounds = bench.alternate(contenders, rounds=3, warm_up=0)
    bench.section(f"{files:,} files of 10 KiB")
    if peer:
        bench.say(f"\nrclone copies {peer_files:,} of them, because it takes so long.")
    table = bench.table(["", "files/s"], judged="ratio to rclone")
    for name in contenders:
        other = {"upload": "rclone, upload", "download": "rclone, download"}.get(name)
        ratio = rounds.ratio(name, other) if peer and other else None
        table.row([name, rounds.figure(name)], ratio, at_least(3.0) if ratio else None)
    memory(bench, cloud)
    cloud.remove("small")
    for path in (source, few, back, copy):
        shutil.rmtree(path, ignore_errors=True)


def make_files(folder, files):
    for index in range(files):
        below = folder / f"{index // FILES_OF_A_DIRECTORY:04}"
        if index % FILES_OF_A_DIRECTORY == 0:
            below.mkdir(parents=True)
        (below / f"part-{index:06}").write_bytes(os.urandom(SMALL_BYTES))


def memory(bench, cloud):
    table = bench.table(["server"], judged="peak memory, MiB")
    table.row(["resident"], cloud.peak() / MIB, at_most(200.0))


def remove(path):
    if path is not None:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def write(path, size, is_synced=False):
    """A file that no store can make smaller."""
    block = os.urandom(MIB)
    with open(path, "wb", buffering=0) as file:
        for _ in range(size // MIB):
            file.write(block)
        if is_synced:
            os.fsync(file.fileno())


def write_directly(path, size):
    """The same past the page cache, in the place that was reserved for it, and synced."""
    block = mmap.mmap(-1, MIB)
    block.write(os.urandom(MIB))
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT, 0o600)
    try:
        os.posix_fallocate(file, 0, size)
        for index in range(size // MIB):
            os.pwrite(file, block, index * MIB)
        os.fsync(file)
    finally:
        os.close(file)


def read(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(MIB):
            pass


def warm(path, size):
    """Takes the memory that a copy's pages will need from the host of a virtual machine.

    Such a host takes free memory back, and the first use of a page after that costs several times
    what copying it does: whoever came first would pay for the others.
    """
    write(path, size)
    path.unlink()


def cp(source, target):
    command_output(["cp", "-r", source, target])
    command_output(["sync", "-f", target])


def loopback(size):
    """Bytes a second through one socket of this machine."""
    listener = socket.create_server(("127.0.0.1", 0))
    block = bytes(MIB)

    def send():
        with socket.create_connection(listener.getsockname()) as out:
            for _ in range(size // MIB):
                out.sendall(block)

    sender = threading.Thread(target=send)
    began = time.monotonic()
    sender.start()
    taken, buffer = 0, bytearray(MIB)
    with listener, listener.accept()[0] as incoming:
        while taken < size:
            taken += incoming.recv_into(buffer)
    sender.join()
    return size / (time.monotonic() - began)


class Cloud:
    """A server of ours, and its administrator."""

    def __init__(self, folder, program, limit):
        self.folder, self.program, self.limit = folder, program, limit

    def __enter__(self):
        data = self.folder / "data"
        data.mkdir(parents=True)
        with open(self.folder / "server.log", "wb") as log:
            self.server = subprocess.Popen(
                [self.program, "serve", "-listen", "127.0.0.1:0", "-data_dir", data],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        endpoint = self.server.stdout.readline().split()[-1]
        password = (data / "admin_password").read_text().strip()
        (self.folder / ".paddle").mkdir()
        (self.folder / ".paddle" / "config").write_text(
            f"datacenters:\n- name: local\n  username: admin\n  password: {password}\n"
            f"  endpoint: {endpoint}\n"
        )
        return self

    def __exit__(self, *_):
        self.server.terminate()
        self.server.wait(60)

    def stored(self, name):
        """Where the server keeps a file."""
        return self.folder / "data" / "files" / "local" / "home" / "admin" / name

    def path(self, name):
        return f"/pfs/local/home/admin/{name}"

    def command(self, *words):
        env = os.environ | {"HOME": str(self.folder)}
        env.pop("PADDLECLOUD_TOKEN", None)
        command_output([self.program, *words], env=env, limit_seconds=self.limit)

    def remove(self, name):
        self.command("rm", "-r", "-f", self.path(name))

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.server.pid}/clear_refs").write_text("5")

    def peak(self):
        status = pathlib.Path(f"/proc/{self.server.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s*(\d+) kB", status)[1]) * 1024


class Rclone:
    """A server of rclone's, over WebDAV, which Debian's release has."""

    def __init__(self, folder, program, limit):
        self.folder, self.program, self.limit = folder, program, limit

    def __enter__(self):
        self.folder.mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.server = subprocess.Popen(
            [
                *[self.program, "serve", "webdav", self.folder, "--addr", f"127.0.0.1:{port}"],
                # It sees at once what is removed between two rounds.
                "--dir-cache-time=1s",
            ],
            stderr=subprocess.DEVNULL,
        )
        for _ in range(300):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return self
            time.sleep(0.1)
        raise RuntimeError("rclone does not serve")

    def __exit__(self, *_):
        self.server.terminate()
        self.server.wait(60)

    def copy(self, source, target):
        command_output(
            [
                self.program,
                "copy",
                source,
                target,
                "--webdav-url",
                self.url,
                "--config",
                "/dev/null",
                # Debian's release fails on ranges of a large file from its own server.
                "--multi-thread-streams=0",
            ],
            limit_seconds=self.limit,
        )
        # Ours is on the disk when the command comes back.
        local = str(target)
        command_output(["sync", "-f", self.folder if local.startswith(":") else local])
