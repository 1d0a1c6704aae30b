"""The machine: what it is, and how much of it others use while we measure.

The load average remembers what ran a minute ago, our own benchmarks too. So it is only printed;
whether the machine is busy is decided by processor time that was not ours.
"""

import os
import pathlib
import resource
import time

# Other processes may use this share of all cores in a run whose results are kept.
OTHERS_SHARE_MAX = 0.10
# How long the machine is watched before a run whose results are to be kept.
WATCH_SECONDS = 2.0


def describe() -> str:
    """Processor, cores and memory."""
    info = pathlib.Path("/proc/cpuinfo").read_text()
    models = [line.split(":", 1)[1] for line in info.splitlines() if line.startswith("model name")]
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    model = models[0].strip() if models else os.uname().machine
    return f"{model}, {os.cpu_count()} cores, {memory_bytes / 2**30:.0f} GiB"


def load() -> float:
    """The load average of the last minute."""
    return os.getloadavg()[0]


class Watch:
    """Processor time of others since the watch began, as a share of all cores."""

    def __init__(self) -> None:
        self.begin = time.monotonic()
        self.all_seconds = _all_seconds()
        self.own_seconds = _own_seconds()

    def others_share(self) -> float:
        """Correct once the processes of ours that ran meanwhile were waited for."""
        elapsed = time.monotonic() - self.begin
        used = _all_seconds() - self.all_seconds
        own = _own_seconds() - self.own_seconds
        return max(used - own, 0.0) / max(elapsed * (os.cpu_count() or 1), 1e-9)


def others_share_now() -> float:
    """What others use just now; we sleep meanwhile."""
    watch = Watch()
    time.sleep(WATCH_SECONDS)
    return watch.others_share()


def _all_seconds() -> float:
    """Processor time of all processes, and what the host withheld."""
    # user nice system idle iowait irq softirq steal; interrupts are mostly those of our traffic.
    first = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    ticks = [int(first[place]) for place in (0, 1, 2, 7)]
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    used = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        used += usage.ru_utime + usage.ru_stime
    return used
