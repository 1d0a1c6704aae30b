"""CTR training on parameter servers, against PaddlePaddle's, PyTorch, and the arithmetic alone."""

import concurrent.futures
import contextlib
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import sampling
import scaling

from harness import Measured, at_least, at_most, command_output

TITLE = "CTR training: 26 slots, width 16, 400×400×400, batch 512, Adam"
HERE = pathlib.Path(__file__).resolve().parent
PADDLE = pathlib.Path(sys.executable).parent / "paddle"
TORCH = ["torch==2.15.0", "numpy>=1.26"]
PADDLEPADDLE = ["paddlepaddle==2.6.2", "numpy<2", "protobuf==4.25.3", "setuptools"]
PARTS = 20
CORES = os.cpu_count() or 1
JOBS = {"1 + 2": (1, 2), "2 + 2": (2, 2)}
SECTIONS = ("speed", "threads", "auc", "growth", "profile", "scaling")
# Where others take part.
SECTIONS_WITH_PEERS = {"speed", "auc"}
MIB = 1 << 20


def options(parser):
    parser.add_argument("--rows", type=int, help="of the pass for the AUC; 2,000,000")
    parser.add_argument("--timed-rows", type=int, help="of each timed pass; a fifth of all")
    parser.add_argument("--grown", type=int, help="rows of the table at its largest; 50,000,000")
    parser.add_argument("--torch-python", help="an interpreter with torch; else one is installed")
    parser.add_argument("--paddle-python", help="one with paddlepaddle 2.6.2 (Python 3.8 to 3.12)")
    parser.add_argument("--only", action="append", choices=SECTIONS, help="repeatable")


def run(bench):
    given = bench.options
    sections = given.only or SECTIONS
    world = World(bench, has_peers=bool(SECTIONS_WITH_PEERS & set(sections)))
    rounds = speed(bench, world) if "speed" in sections else None
    if "threads" in sections:
        threads(bench, world)
    if "auc" in sections:
        areas(bench, world)
    if "growth" in sections:
        growth(bench, world)
    if "profile" in sections:
        words = world.ours("1 + 2", world.timed).args[0]
        sampling.report(bench, lambda prefix: watched([*prefix, *words]))
    if "scaling" in sections:
        own = "ours, 1 + 2"
        if rounds is None:
            job = world.ours("1 + 2", world.timed)
            rounds = bench.alternate({own: job}, rounds=3, warm_up=0)
        scaling.report(bench, rounds, own)


class World:
    """The data, and the commands that train on it."""

    def __init__(self, bench, has_peers):
        given = bench.options
        self.folder = bench.scratch
        self.rows = given.rows or bench.size(2_000_000, smoke=20 * 512)
        self.torch = self.paddle = None
        if has_peers:
            self.torch = given.torch_python or bench.large_environment("torch", TORCH)
            self.paddle = given.paddle_python or bench.large_environment("paddle", PADDLEPADDLE)
        self.clicks = self.generated("click", self.rows)
        self.timed_parts = 4
        if given.timed_rows:
            self.timed_parts = max(2, round(PARTS * given.timed_rows / self.rows))
        self.timed_rows = self.rows // PARTS * self.timed_parts
        self.timed = self.folder / f"timed-{self.rows}-{self.timed_parts}"
        self.timed.mkdir(exist_ok=True)
        for part in range(self.timed_parts):
            link = self.timed / f"part-{part:05d}"
            if not link.exists():
                link.symlink_to(self.clicks / link.name)

    def generated(self, kind, count, *more):
        """The folder of some data; it is made once."""
        name = "-".join(map(str, (kind, count, *more)))
        command_output(
            [sys.executable, HERE / "generate.py", kind, count, PARTS, self.folder / name, *more]
        )
        return self.folder / name

    def ours(self, job, folder, mode="async", batch=512, wire="f32", ports=None):
        servers, trainers = JOBS[job]
        flags = [f"--pservers={servers}", f"--trainers={trainers}", f"--mode={mode}", "--quiet"]
        # A thread serves a port: as many of each kind, on all servers, as there are cores.
        ports = ports or max(1, CORES // servers)
        flags += [f"--ports_num={ports}", f"--ports_num_for_sparse={ports}"]
        return self.launched(flags, folder, batch, wire)

    def alone(self, folder, count):
        """One process without servers, and so many threads that compute."""
        flags = ["--pservers=0", "--trainers=1", f"--trainer_count={count}", "--quiet"]
        return self.launched(flags, folder)

    def launched(self, flags, folder, batch=512, wire="f32"):
        program = [sys.executable, HERE / "ours.py", "train", f"{folder}/part-*"]
        program += [f"--batch={batch}", f"--wire={wire}"]
        launch = [PADDLE, "launch", *flags, "--", *program, "--out"]
        return functools.partial(watched, launch)

    def paddles(self, job, folder):
        program = [self.paddle, HERE / "peer_paddle.py", "launch", *JOBS[job]]
        return functools.partial(watched, [*program, f"{folder}/part-*"])

    def torchs(self, rows):
        program = [self.torch, HERE / "peer_torch.py", "train", self.clicks, rows, CORES]
        return functools.partial(watched, program)

    def arithmetic(self, python, steps):
        """The dense layers alone, in a process per core, ours; or PyTorch's."""
        if python == sys.executable:
            program = [python, HERE / "ours.py", "dense", steps, "--out"]
            return functools.partial(together, program, CORES)
        program = [python, HERE / "peer_torch.py", "dense", steps]
        return functools.partial(together, [*program, CORES], 1)

    def arithmetic_by_process(self, steps):
        program = [self.torch, HERE / "peer_torch.py", "dense", steps, 1]
        return functools.partial(together, program, CORES)


@functools.cache
def alone_in_network():
    """A command's prefix that gives it a network of its own, where that is allowed."""
    for words in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        if shutil.which("unshare"):
            tried = subprocess.run([*words, "true"], capture_output=True)
            if tried.returncode == 0:
                return words
    return None


def watched(command):
    """Runs a job, and makes figures of what its processes wrote and used."""
    with tempfile.TemporaryDirectory() as out:
        prefix = alone_in_network()
        watch = [sys.executable, HERE / "watched.py", "alone" if prefix else "shared", out]
        command_output([*(prefix or []), *watch, *command, out], cwd=out)
        results = read_results(out)
        used = json.loads(pathlib.Path(out, "used.json").read_text())
    rows = sum(result["rows"] for result in results)
    found = {
        "rate": rows / max(result["seconds"] for result in results),
        "auc": sum(result["auc"] for result in results) / len(results),
        "passes": results[0].get("passes", []),
    }
    if used["loopback_bytes"] is not None:
        found["bytes"] = used["loopback_bytes"] / rows
    for role, memory_bytes in used["memory_bytes"].items():
        found[f"{role} memory"] = memory_bytes / MIB
    # Of the pass alone: processes have begun by then, which takes as long as some thousand samples.
    found["trainer seconds"] = sum(result["processor_seconds"] for result in results) / rows
    if "pserver" in used["memory_bytes"]:
        begin = min(result["began"] for result in results)
        end = max(result["began"] + result["seconds"] for result in results)
        found["pserver seconds"] = server_seconds(used["moments"], begin, end) / rows
    return found


def server_seconds(moments, begin, end):
    """What servers used between two moments, of which others were looked at."""
    known = [at for at, _ in moments]
    used = [seconds.get("pserver", 0.0) for _, seconds in moments]
    before, after = np.interp([begin, end], known, used)
    return float(after - before)


def together(command, count):
    """Samples a second of several processes at once."""
    with contextlib.ExitStack() as stack:
        outs = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(count)]
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda out: command_output([*command, out]), outs))
        results = [result for out in outs for result in read_results(out)]
    return {"rate": sum(each["rows"] for each in results) / max(r["seconds"] for r in results)}


def read_results(out):
    results = [
        json.loads(path.read_text()) for path in sorted(pathlib.Path(out).glob("trainer-*.json"))
    ]
    if not results or not all(result["rows"] > 0 for result in results):
        raise RuntimeError(f"no rows were trained: {results}")
    return results


def speed(bench, world):
    """Samples a second of all systems, in turns, and what they used."""
    bench.section(f"Speed: passes over {world.timed_rows:,} rows, async")
    steps = bench.size(300, smoke=2)
    contenders = {f"ours, {job}": world.ours(job, world.timed) for job in JOBS}
    contenders["arithmetic, ours"] = world.arithmetic(sys.executable, steps)
    if world.paddle:
        for job in JOBS:
            contenders[f"PaddlePaddle, {job}"] = world.paddles(job, world.timed)
    if world.torch:
        contenders["PyTorch"] = world.torchs(world.timed_rows)
        contenders["arithmetic, PyTorch"] = world.arithmetic(world.torch, steps)
        contenders["arithmetic, PyTorch by process"] = world.arithmetic_by_process(steps)
    rounds = bench.alternate(contenders, rounds=3, warm_up=0)

    columns = ["servers + trainers", "against", "ours, samples/s", "that, samples/s"]
    table = bench.table(columns)
    for job in JOBS:
        for name, shown, aim in [
            ("arithmetic, PyTorch", "dense arithmetic alone: PyTorch, all cores", 0.7),
            ("arithmetic, PyTorch by process", "the same, a process per core", None),
            ("arithmetic, ours", "the same by our engine, a process per core", 0.7),
            (f"PaddlePaddle, {job}", f"PaddlePaddle 2.6.2's parameter server, {job}", 3),
            ("PyTorch", "PyTorch 2.15, one process on all cores, data in memory", 2.5),
        ]:
            if name in contenders:
                own = f"ours, {job}"
                figures = [rounds.figure(each, "rate") for each in (own, name)]
                ratio = rounds.ratio(own, name, "rate")
                table.row([job, shown, *figures], ratio, at_least(aim) if aim else None)
    used(bench, rounds, contenders)
    return rounds


def threads(bench, world):
    """What a second thread brings a trainer, and a second port of each kind a server."""
    bench.section(f"Threads: passes over {world.timed_rows:,} rows")
    pairs = {
        "threads of one process, without servers": [world.alone(world.timed, n) for n in (1, 2)],
        "ports of each kind, 1 + 2, async": [
            world.ours("1 + 2", world.timed, ports=n) for n in (1, 2)
        ],
    }
    columns = ["two instead of one", "with one, samples/s", "with two, samples/s"]
    table = bench.table(columns)
    for what, jobs in pairs.items():
        rounds = bench.alternate(dict(zip("12", jobs, strict=True)), rounds=3, warm_up=0)
        figures = [rounds.figure(each, "rate") for each in "12"]
        table.row([what, *figures], rounds.ratio("2", "1", "rate"))


def used(bench, rounds, contenders):
    bench.section("What a process and a sample take")
    columns = ["system", "trainer, MiB", "server, MiB", "trainers, µs/sample", "servers, µs/sample"]
    table = bench.table([*columns, "cores busy"], judged="bytes on the wire/sample")
    for name in contenders:
        if "arithmetic" not in name:
            table.row(
                [
                    name,
                    cell(rounds, name, "trainer memory"),
                    cell(rounds, name, "pserver memory"),
                    cell(rounds, name, "trainer seconds", 1e6),
                    cell(rounds, name, "pserver seconds", 1e6),
                    busy(rounds, name),
                ],
                rounds.figure(name, "bytes") if has(rounds, name, "bytes") else None,
            )
    if alone_in_network() is None:
        bench.leave_out("bytes on the wire", "no network namespace can be made here")


def has(rounds, name, figure):
    return all(figure in answer for answer in rounds.answers[name])


def cell(rounds, name, figure, scale=1):
    return scale * rounds.figure(name, figure).median if has(rounds, name, figure) else "–"


def busy(rounds, name):
    """The share of all cores that the job's processes used while they trained."""
    shares = [
        answer["rate"] * (answer["trainer seconds"] + answer.get("pserver seconds", 0)) / CORES
        for answer in rounds.answers[name]
        if "trainer seconds" in answer
    ]
    return Measured.of(shares) if shares else "–"


def areas(bench, world):
    """The progressive AUC over one pass."""
    bench.section(f"Progressive AUC over one pass of {world.rows:,} rows, 1 + 2")
    contenders = {
        "sync, 2 × 256": world.ours("1 + 2", world.clicks, "sync", 256),
        "async, 2 × 512": world.ours("1 + 2", world.clicks, "async"),
        "async, 2 × 512, bf16 on the wire": world.ours("1 + 2", world.clicks, wire="bf16"),
        "hybrid, 2 × 512": world.ours("1 + 2", world.clicks, "hybrid"),
    }
    own = list(contenders)
    if world.torch:
        contenders["PyTorch, 512"] = world.torchs(world.rows)
    if world.paddle:
        contenders["PaddlePaddle, async, 2 × 512"] = world.paddles("1 + 2", world.clicks)
    rounds = bench.alternate(contenders, rounds=1, warm_up=0)
    found = {name: rounds.figure(name, "auc").median for name in contenders}
    rates = {name: rounds.figure(name, "rate") for name in contenders}
    table = bench.table(["", "samples/s", "AUC"], judged="bytes on the wire/sample")
    for name, area in found.items():
        sent = rounds.figure(name, "bytes") if has(rounds, name, "bytes") else None
        table.row([name, rates[name], f"{area:.4f}"], sent)
    if not (world.torch or world.paddle):
        return
    table = bench.table(["distance of", "from"], judged="AUC")
    for name in own:
        if world.torch:
            away = found[name] - found["PyTorch, 512"]
            is_sync = name.startswith("sync")
            # Sync is the same arithmetic, so that it may not be better either.
            judged, aim = (abs(away), at_most(0.003)) if is_sync else (away, at_least(-0.01))
            table.row([name, "PyTorch"], judged, aim)
        if world.paddle:
            above = found[name] - found["PaddlePaddle, async, 2 × 512"]
            table.row([name, "PaddlePaddle"], above, at_least(0))


def growth(bench, world):
    """The same batches on a table that is small, and one that is large."""
    largest = bench.options.grown or bench.size(50_000_000, smoke=20_800)
    sizes = {f"{rows:,}": rows for rows in (bench.size(1_000_000, smoke=10_400), largest)}
    count = bench.size(100_000, smoke=20 * 128)
    bench.section(f"Growth: passes over {count:,} rows, 1 + 2, async")
    contenders = {}
    for name, rows in sizes.items():
        fill = world.generated("rows", rows)
        even = world.generated("uniform", count, rows)
        job = world.ours("1 + 2", even)
        words = list(job.args[0])
        # Before `--out`: the rows are made first, then each kind of ids is drawn three times.
        at = words.index("--out")
        words[at:at] = ["--before", f"{fill}/part-*", "--again", "3"]
        words[at:at] = ["--also", f"{world.timed}/part-*"]
        contenders[name] = functools.partial(watched, words)
    rounds = bench.alternate(contenders, rounds=1, warm_up=0)
    table = bench.table(["ids", *(f"{name} rows, samples/s" for name in sizes), "server, MiB"])
    small, large = (rounds.answers[name][0] for name in sizes)
    for kind, title in (("also", "Zipf, as above"), ("source", "drawn evenly from all rows")):
        own = [[rate for of, rate in answer["passes"] if of == kind] for answer in (small, large)]
        ratios = [big / little for little, big in zip(*own, strict=True)]
        rates = [Measured.of(each) for each in own]
        memory = large.get("pserver memory", "–")
        table.row([title, *rates, memory], Measured.of(ratios), at_least(0.8))
