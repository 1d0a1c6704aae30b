"""Where the processor time of a job goes: samples by `perf`, by thread and kind of work.

Only samples between the first and the last step count, so that starting Python is not in it.
"""

import collections
import re
import shutil
import subprocess

from harness import HarnessError, command_output

# The first pattern that fits a sample's symbol and file says what it is.
KINDS = [
    ("matrix products", r"^gemm"),
    (
        "clearing and mapping pages",
        r"clear_page|page_fault|do_anonymous_page|madvise|munmap|_folio|folio_|zap_|unmap_|free_pages|free_frozen|rmqueue|charge|alloc_pages|lru_",
    ),
    ("copies and clearing of buffers", r"^__mem(move|set|cpy)"),
    ("table and optimizer", r"table::|Optimizer|__ieee754"),
    ("sockets", r"tcp|skb|sock|inet|_copy_(to|from)_iter|napi|netif|softirq|ip_|dev_"),
    ("scheduling", r"finish_task_switch|schedule|futex|irq|yield|eventfd|epoll"),
    ("element by element, of the network", r"pulp::|side_by_side|burn_|engine::"),
    ("parsing", r"^feed::|memchr"),
    ("Python", r"^_?Py|libpython|gc_collect|visit_|dict|unicode|tuple"),
    ("allocation", r"mi_|malloc|free"),
]
THREADS = {
    "engine": "trainers: engine",
    "python": "trainers: Python's thread",
    "feed": "trainers: feed",
    "pserver-client": "trainers: client",
    "pserver-port": "server",
    "tokio-rt-worker": "server and supervisors: runtime",
}
LINE = re.compile(
    r"^\s*(?P<comm>.+?)\s+(?P<time>[0-9.]+):\s+[0-9a-f]+ (?P<symbol>.*?)\s+\((?P<file>.*)\)$"
)


def report(bench, command):
    """Profiles a command, and adds its table."""
    bench.section("Where processor time goes, 1 + 2, async")
    if not shutil.which("perf"):
        bench.leave_out("the profile", "perf is not installed (Debian's linux-perf)")
        return
    data = bench.scratch / "perf.data"
    record = ["perf", "record", "--quiet", "-F", "499", "-e", "cpu-clock", "-o", data, "--"]
    tried = subprocess.run([*map(str, record), "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        bench.leave_out("the profile", f"perf does not work here: {tried.stderr.strip()[:200]}")
        return
    command([*record])
    script = ["perf", "script", "-i", data, "-F", "comm,time,ip,sym,dso"]
    shares = count(command_output(script).splitlines())
    total = sum(shares.values())
    if total == 0:
        raise HarnessError(f"perf saw no step of the training; look into {data}")
    table = bench.table(["thread", "kind of work"], judged="% of all samples")
    for (thread, kind), samples in shares.most_common():
        if samples / total >= 0.005:
            table.row([thread, kind], 100 * samples / total)
    table = bench.table(["kind of work, all threads"], judged="% of all samples")
    kinds = collections.Counter()
    for (_, kind), samples in shares.items():
        kinds[kind] += samples
    for kind, samples in kinds.most_common():
        table.row([kind], 100 * samples / total)


def count(lines):
    """Samples by thread and kind, from the first step to the last."""
    found = [match for match in map(LINE.match, lines) if match]
    steps = [float(match["time"]) for match in found if match["comm"].startswith("engine")]
    shares = collections.Counter()
    for match in found:
        if steps and steps[0] <= float(match["time"]) <= steps[-1]:
            name = re.sub(r"-[0-9]+$", "", match["comm"])
            thread = THREADS.get(name, "launcher and others")
            shares[thread, kind_of(match["symbol"], match["file"])] += 1
    return shares


def kind_of(symbol, file):
    text = symbol.lstrip("<&")
    for kind, pattern in KINDS:
        if re.search(pattern, text) or (kind == "Python" and "libpython" in file):
            return kind
    return "the kernel's rest" if "kernel" in file else "the rest"
