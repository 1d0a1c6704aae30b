"""Runs a command and notes what it used: `watched.py (alone | shared) OUT COMMAND…`.

Writes OUT/used.json: bytes over loopback (headers included), and by role of the replicas the peak
memory of one process, and the processor seconds of all, with the moments (of the clock that
`time.perf_counter` reads in every process) at which they had used them. Roles are what
TRAINING_ROLE says, which both systems set; PyTorch's one process is a trainer. `alone`: it was
started by `unshare --net`, so that the network has to be set up first, and its bytes are nobody
else's; else they are not noted.
"""

import fcntl
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import time

SIOCSIFFLAGS = 0x8914
IFF_UP = 1
SAMPLE_SECONDS = 0.2
TICKS = os.sysconf("SC_CLK_TCK")


def main(network, out, *command):
    is_alone = network == "alone"
    if is_alone:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
    process = subprocess.Popen(command)
    seen, moments = {}, []
    while True:
        look(process.pid, seen)
        moments.append((time.perf_counter(), by_role(seen)))
        try:
            code = process.wait(SAMPLE_SECONDS)
            break
        except subprocess.TimeoutExpired:
            continue
    used = {"loopback_bytes": loopback_bytes() if is_alone else None}
    used |= {"memory_bytes": {}, "moments": moments}
    for role, memory_bytes, _ in seen.values():
        most = used["memory_bytes"].get(role, 0)
        used["memory_bytes"][role] = max(most, memory_bytes)
    pathlib.Path(out, "used.json").write_text(json.dumps(used))
    return code


def by_role(seen):
    """The processor seconds so far of all that have a role, and of those that had one."""
    totals = {}
    for role, _, seconds in seen.values():
        totals[role] = totals.get(role, 0) + seconds
    return totals


def look(root, seen):
    """Notes every descendant that has a role."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = pathlib.Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS)
    for pid, (_, seconds) in parents.items():
        if is_below(pid, root, parents):
            try:
                note(pid, seconds, seen)
            except OSError:
                continue


def is_below(pid, root, parents):
    while pid in parents and pid != root:
        pid = parents[pid][0]
    return pid == root


def note(pid, seconds, seen):
    folder = pathlib.Path("/proc", str(pid))
    role = seen[pid][0] if pid in seen else role_of(folder)
    if role is None:
        return
    status = (folder / "status").read_text()
    peaks = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    if peaks:
        seen[pid] = (role, 1024 * int(peaks[0]), seconds)


def role_of(folder):
    for variable in (folder / "environ").read_bytes().split(b"\0"):
        if variable.startswith(b"TRAINING_ROLE="):
            return variable.split(b"=", 1)[1].decode().lower()
    # One process alone has no role; launchers and supervisors are no replicas.
    is_alone = b"peer_torch.py" in (folder / "cmdline").read_bytes()
    return "trainer" if is_alone else None


def loopback_bytes():
    for line in pathlib.Path("/proc/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split(":")[1].split()[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
