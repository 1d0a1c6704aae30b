"""A Slurm for tests: munge, a controller and two nodes on this machine, on ports of their own. They
see this machine's files, or, below some directories, each node its own."""

import contextlib
import os
import subprocess
import time

import processes
from receiver import free_port

CONF = """
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0
NodeName=n0 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=64 RealMemory=65536
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=64 RealMemory=65536
PartitionName=main Nodes=n0,n1 Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=n0,n1 MaxTime=1 State=UP
PartitionName=closed Nodes=n0,n1 MaxTime=INFINITE State=DOWN
"""


def call(conf, *command):
    """What a command of Slurm prints."""
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


@contextlib.contextmanager
def cluster(folder, apart=()):
    """The path of its `slurm.conf`. All its daemons are gone afterwards. In the directories `apart`
    nodes see files of their own."""
    (folder / "state").mkdir(parents=True)
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(folder=folder, ports=[free_port() for _ in range(3)]))
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    # Daemons are not where users look for commands.
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin"])
    environment = {**os.environ, "PATH": path, "SLURM_CONF": str(conf)}
    daemons = []

    def start(*command):
        # One that outlives a killed test would keep its ports.
        command = ["setpriv", "--pdeathsig", "KILL", *command]
        output = open(folder / f"{len(daemons)}.out", "wb")  # noqa: SIM115 (the daemon has it)
        daemons.append(
            subprocess.Popen(
                command, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )
        )
        output.close()

    def wait_until(condition):
        deadline = time.monotonic() + processes.DEADLINE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, [path.read_text() for path in folder.glob("*.out")]
            time.sleep(0.1)  # polled until the deadline

    def are_idle():
        command = ["sinfo", "-h", "-N", "-p", "main", "-o", "%T"]
        asked = subprocess.run(command, env=environment, capture_output=True, text=True)
        return asked.stdout.split() == ["idle", "idle"]

    try:
        flags = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", *flags)
        wait_until((folder / "munge.socket").exists)
        start("slurmctld", "-D")
        mounts = "".join(f"mount -t tmpfs own '{hidden}' && " for hidden in apart)
        own = ["unshare", "--mount", "sh", "-c", f'{mounts}exec "$@"', "sh"] if apart else []
        for node in ("n0", "n1"):
            start(*own, "slurmd", "-D", "-N", node)
        wait_until(are_idle)
        yield conf
    finally:
        for daemon in reversed(daemons):
            daemon.kill()
            daemon.wait()
