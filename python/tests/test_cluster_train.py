"""`paddle cluster_train` with real receivers, nodes and stores: on this machine, ssh and MPI."""

import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

import processes
import pytest
import receiver as receivers
import slurm
from receiver import CONFIG, HOOK, WAITING_HOOK, make_data, running
from test_launch import needs, started_hosts

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def files_of(log, kind):
    """The files that each node was given, by the node."""
    found = re.findall(rf"(\S+)-trainer-(\d+)\s*\| files {kind} (.*)", log)
    return {int(rank): names.split() for _, rank, names in found}


def test_data_is_dealt_out_trained_and_results_come_back(receiver, store):
    work_dir = make_data(store / "toy", files=5)
    (work_dir / "train" / "_SUCCESS").write_text("")
    receiver.program()
    job = receiver.train(work_dir, "--where", "fcr", "--time_limit", "00:30:00")
    assert f"to stop, pls run: paddle cluster_kill {job}" in receiver.printed
    assert "data: 5 files" in receiver.printed and "_SUCCESS is not taken" in receiver.printed
    code, log, told = receiver.run("paddle", "cluster_log", "-f", job, check=False)
    assert code == 0, (log, told)
    train = files_of(log, "train")
    assert train == {
        0: [f"./train_data_dir/train/part-0000{number}" for number in (0, 2, 4)],
        1: [f"./train_data_dir/train/part-0000{number}" for number in (1, 3)],
    }
    assert files_of(log, "test") == {0: ["./test_data_dir/test/part-00000"]}
    assert re.search(r"hook \S*/rank-00001/thirdparty/thirdparty \S*/rank-00001\n", log)
    results = work_dir / "output"
    assert (results / "output/rank-00000/pass-00000/done").is_file()
    assert sorted(path.name for path in (results / "log").iterdir()) == ["rank-00000", "rank-00001"]
    assert "Pass=0" in (results / "log/rank-00000/train.log").read_text()
    assert (results / "log/rank-00001/server.log").is_file()
    shown = receiver.run("paddle", "cluster_log", job, "--file", "log/rank-00000/train.log")[1]
    assert "Pass=0" in shown
    listed = receiver.run("paddle", "cluster_log", job, "--files", "output/rank-00000")[1]
    assert "pass-00000/" in listed
    assert "succeeded" in receiver.state(job)[1]
    # The data is gone from the nodes, and no secret is in anything that can be read.
    workspace = receiver.data / "files/local/home/admin/jobs/toy_job/rank-00000"
    assert (workspace / "train.list").is_file() and not (workspace / "train_data_dir").exists()
    assert "sesame" not in receiver.said() + log + receiver.printed
    saved = (results / "output/rank-00000/pass-00000/conf.py").read_text()
    assert 'fs_ugi="paddle,***"' in saved and "sesame" not in saved
    # Results of the first are not touched by the second.
    again = receiver.train(work_dir, name="toy_again")
    assert re.search(rf"results: file://{work_dir}/output_\d+", receiver.printed)
    receiver.wait(again, "succeeded")


def test_what_a_queue_or_a_store_does_not_allow_is_refused(receiver, store, tmp_path):
    work_dir = make_data(store / "toy")
    receiver.program()

    def refused(*flags, **more):
        return receiver.train(more.pop("work_dir", work_dir), *flags, check=False, **more)

    error = refused("--where", "no-such")
    assert "no such queue" in error and "fcr, demo, fcr-slow" in error
    error = refused("--where", "fcr", "--time_limit", "01:00:00")
    assert "00:30:00 (1800 seconds)" in error and "01:00:00 (3600 seconds)" in error
    assert "has none: give it one" in refused("--where", "fcr")
    limit = ("--time_limit", "01:00:00")
    assert "at most 2 trainers" in refused("--where", "fcr-slow", *limit, nodes=3)
    assert "low or normal" in refused("--where", "fcr-slow", *limit, "-p", "high")
    assert "no devices" in refused("--where", "fcr", "-l", "00:01:00", "--use_gpu", "gpu")
    assert "there are 4 files for 5 nodes" in refused(nodes=5)
    assert "there is no train data" in refused(work_dir=store / "nothing")
    elsewhere = make_data(tmp_path / "elsewhere" / "toy")
    error = refused(work_dir=elsewhere)
    assert "stores:" in error and f"file://{store}" in error
    assert "absolute path" in refused(work_dir=f"{store}/../elsewhere/toy")
    (store / "link").symlink_to(elsewhere)
    assert "link" in refused(work_dir=store / "link")
    assert "--shell is not supported" in refused("--shell", "ls")
    assert "you are logged in as admin" in refused("--submitter", "eve")
    assert "no flag --no_such_flag" in refused("--no_such_flag", "1")
    assert "'_'" not in refused(name="a b")
    for flags, reason in (
        (("--local", "1"), "nodes train through their parameter servers"),
        (("--trainer_id", "1"), "every node is told its own"),
        (("--num_gradient_servers=1",), "it is --num_nodes"),
        (("--pservers", "10.0.0.1"), "every node is told those of its job"),
        (("--start_pserver",), "every node has one"),
        (("--nics", "eth0"), "the administrator of the receiver"),
        (("--job", "test"), "paddle train --job="),
        (("--port", "70000"), "--port is at most 65535"),
    ):
        assert reason in refused(*flags)
    output = receiver.run("paddlecloud", "get", "queues")[1]
    assert re.search(r"fcr-slow +local +99:59:59 +any\n", output), output
    assert "use predict_output_dir" in refused("--predict_file", "a")


HOSTILE = {
    "endless loop": ("while True: pass", "longer than 30 seconds"),
    "fork bomb": (
        "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
        "longer than 30 seconds|more than the",
    ),
    "huge output": ("while True: print('x' * 100000)", "prints more than 1024 KiB"),
    "memory": ("x = [0] * 10\nwhile True: x = x + x", "memory"),
    "ends": ("import os\nos._exit(0)", "ended with code 0"),
    "network": (
        "import socket\nsocket.create_connection(('127.0.0.1', PORT), 5)",
        "unreachable|refused|Network",
    ),
    "files": ("print(open('SECRET').read())", "No such file|Permission denied"),
    "home": ("print(open('HOME/secret').read())", "No such file|Permission denied"),
    "pfs": ("print(open('/pfs/local/home/eve/secret').read())", "No such file|Permission denied"),
    "blobs": (
        "import os\nprint(*os.walk('DATA'))\nraise OSError(len(os.listdir('DATA')))",
        r"\(got: 0\)|OSError: 0|No such file|Permission denied",
    ),
    "syntax": ("cluster_config(", "not Python"),
    "nothing": ("a = 1", "does not call cluster_config"),
    "odd": ("cluster_config(work_dir=[1])", "is a text, a number"),
    "nan": ("cluster_config(work_dir='/a', port=float('nan'))", "a NaN or an infinite number"),
    "unknown": ("cluster_config(work_dir='/a', colour=1)", "no argument colour"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_or_broken_configuration_is_refused_with_the_reason(receiver, store, name):
    text, reason = HOSTILE[name]
    secret = receiver.data / "admin_password"
    # The home of another user, whose files this one may not read by any other way either.
    home = receiver.data / "files/local/home/eve"
    home.mkdir(parents=True)
    (home / "secret").write_text("eve's own data\n")
    words = {"PORT": receiver.port, "SECRET": secret, "HOME": home, "DATA": receiver.data}
    for word, value in words.items():
        text = text.replace(word, str(value))
    receiver.program(config=f"from paddle.trainer_config_helpers import *\n{text}\n")
    error = receiver.train(make_data(store / "toy"), check=False)
    assert re.search(reason, error), error
    assert secret.read_text().strip() not in error and "own data" not in error
    # Nothing of it is left, and the receiver serves.
    assert not list((receiver.data / "cluster_train").iterdir())
    receiver.run("paddlecloud", "get", "jobs")


def test_a_hook_that_fails_fails_the_job_with_its_output(receiver, store):
    work_dir = make_data(store / "toy")
    receiver.program(hook="function private_script()\n{\n  ls /no/such/thing\n  echo went on\n}\n")
    job = receiver.train(work_dir)
    receiver.wait(job, "failed")
    # The reason leads to the log, and blames no argument of anybody.
    reason = receiver.run("paddlecloud", "why", job)[1]
    assert "the end of its log says why" in reason and "arguments" not in reason, reason
    log = receiver.logs(job)
    assert "/no/such/thing" in log and "before_hook.sh failed" in log
    assert "went on" not in log and "Pass=" not in log
    # Whichever node fails first ends the others, perhaps while their hooks run.
    logs = [path.read_text() for path in work_dir.glob("output/log/rank-*/train.log")]
    assert any("before_hook.sh failed" in text for text in logs), logs
    # What was fetched does not stay on any node.
    for workspace in receiver.workspaces("toy_job"):
        left = {path.name for path in workspace.iterdir()}
        assert "log" in left and not left & {"train_data_dir", "test_data_dir"}, left


def test_what_a_hook_leaves_running_keeps_no_node(receiver, store):
    receiver.program(hook=HOOK.replace("echo", "sleep 100000 & echo"))
    job = receiver.train(make_data(store / "toy"))
    receiver.wait(job, "succeeded")


def test_what_node_0_has_is_looked_at_while_its_hook_runs(receiver, store):
    receiver.program(hook=WAITING_HOOK.replace("while", "echo installing; while"))
    job = receiver.train(make_data(store / "toy"), nodes=1)
    shown = ("paddle", "cluster_log", job, "--file", "log/rank-00000/train.log")
    receivers.wait_until(lambda: "installing" in receiver.run(*shown, check=False)[1])
    assert receiver.state(job)[0] == "running"
    (receiver.data / "files/local/public/go").write_text("")
    receiver.wait(job, "succeeded")


def test_a_time_limit_strikes_and_what_there_is_comes_back(receiver, store):
    work_dir = make_data(store / "toy")
    receiver.program()
    thirdparty = receiver.programs / "thirdparty"
    provider = thirdparty / "toy_provider.py"
    slow = "    import time\n    time.sleep(1000)\n    with (gzip"
    provider.write_text(provider.read_text().replace("    with (gzip", slow))
    job = receiver.train(work_dir, "--time_limit", "00:00:20")
    output = receiver.wait(job, "failed")
    assert "time" in output, output
    assert "asked to end" in receiver.logs(job)
    assert (work_dir / "output/log/rank-00000/train.log").is_file()


def test_trainings_that_are_accepted_at_once_have_results_of_their_own(receiver, store):
    work_dir = make_data(store / "toy")
    receiver.program(hook=WAITING_HOOK)
    command = ["paddle", "cluster_train", "-f", "conf.py", "-i", "thirdparty", "--num_passes=1"]
    command += [f"--config_args=work_dir={work_dir}", "-j"]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        asked = pool.map(lambda number: receiver.run(*command, f"toy_{number}"), range(4))
        printed = [output for _, output, _ in asked]
    results = {re.search(r"results: (\S+)", output).group(1) for output in printed}
    assert len(results) == 4, results
    (receiver.data / "files/local/public/go").write_text("")
    for output in printed:
        receiver.wait(re.search(r"^jobid=(\S+)$", output, re.MULTILINE).group(1), "succeeded")


def test_files_that_would_replace_each_other_are_refused(receiver, store):
    work_dir = make_data(store / "toy")
    shutil.copy(work_dir / "train/part-00000", work_dir / "train/part-00000.part")
    receivers.write_points(work_dir / "train", "part-00001.gz", 7, packed=True)
    receiver.program()
    flags = f"--config_args=work_dir={work_dir},decompress=True"
    error = receiver.train(work_dir, flags, check=False)
    assert "would have the same name on a node" in error and "part-00001.gz" in error
    job = receiver.train(work_dir, nodes=1)
    receiver.wait(job, "succeeded")
    files = files_of(receiver.logs(job), "train")[0]
    assert [name.rpartition("/")[2] for name in files] == [
        "part-00000", "part-00000.part", "part-00001", "part-00001.gz", "part-00002", "part-00003",
    ]  # fmt: skip


def test_data_that_cannot_be_trained_with_is_refused(receiver, store):
    work_dir = make_data(store / "toy")
    receiver.program()
    (work_dir / "train" / "a\nb").write_text("1 1 1\n")
    assert r"toy/train/a\nb" in receiver.train(work_dir, check=False)
    (work_dir / "train" / "a\nb").rename(work_dir / "train" / "a b 中")
    odd = os.fsencode(work_dir) + b"/train/\xff"
    with open(odd, "wb"):
        pass
    assert "no UTF-8: rename it" in receiver.train(work_dir, check=False)
    os.unlink(odd)
    output = f"--config_args=work_dir={work_dir}"
    into = CONFIG.replace("has_meta_data", f'output_path="{work_dir}/train", has_meta_data')
    receiver.program(config=into)
    assert "is among the data" in receiver.train(work_dir, check=False)
    receiver.program()
    for path in (work_dir / "train").iterdir():
        path.write_text("")
    assert "the train data is empty" in receiver.train(work_dir, check=False)
    for path in (work_dir / "train").iterdir():
        path.write_text("1 1 -1\n2 2 -2\n")
    # What is typed about ports counts for servers and trainers.
    flags = ("--ports_num", "2", "--ports_num_for_sparse", "2", "--save_dir=", output)
    job = receiver.train(work_dir, *flags)
    receiver.wait(job, "succeeded")
    assert "./train_data_dir/train/a b 中" in files_of_line(receiver.logs(job))
    assert (work_dir / "output/output/rank-00000/pass-00000/done").is_file()


def files_of_line(log):
    """The names, which may have spaces, that nodes were given to train with."""
    return "\n".join(re.findall(r"files train (.*)", log))


def test_a_training_that_is_refused_leaves_no_directory_for_results(receiver, store):
    work_dir = make_data(store / "toy")
    receiver.program(hook=WAITING_HOOK)
    job = receiver.train(work_dir)
    directories = {path.name for path in work_dir.iterdir()}
    assert "has not ended" in receiver.train(work_dir, check=False)
    too_many = ("--trainer_count", "1000")
    assert "ask for less" in receiver.train(work_dir, *too_many, name="large", check=False)
    assert {path.name for path in work_dir.iterdir()} == directories
    (receiver.data / "files/local/public/go").write_text("")
    receiver.wait(job, "succeeded")


def test_a_result_with_an_odd_name_keeps_back_no_other(receiver, store):
    work_dir = make_data(store / "toy")
    odd = "touch $l_workspace_dir/log/$(printf '\\377') $l_workspace_dir/log/own; echo"
    receiver.program(hook=HOOK.replace("echo", odd))
    job = receiver.train(work_dir, nodes=1)
    receiver.wait(job, "failed")
    assert "no UTF-8: rename it" in receiver.logs(job)
    sent = {path.name for path in (work_dir / "output/log/rank-00000").iterdir()}
    assert {"own", "train.log"} <= sent


def test_a_training_can_be_killed(receiver, store):
    work_dir = make_data(store / "toy")
    receiver.program(hook=HOOK.replace("echo", "sleep 1000; echo"))
    job = receiver.train(work_dir)
    receiver.wait_for_line(job, "running before_hook.sh")
    receiver.run("paddle", "cluster_kill", "qdel", job)
    receiver.wait(job, "killed")
    assert "has ended before" in receiver.run("paddle", "cluster_kill", job)[1]
    code, _, error = receiver.run("paddle", "cluster_kill", "rm", "-rf", check=False)
    assert code == 2 or "runs no commands" in error


def test_packed_files_are_kept_or_unpacked(receiver, store):
    work_dir = make_data(store / "toy", packed=True)
    receiver.program()
    kept = receiver.train(work_dir, name="kept")
    receiver.wait(kept, "succeeded")
    assert "./train_data_dir/train/part-00000.gz" in receiver.logs(kept)
    flags = f"--config_args=work_dir={work_dir},decompress=True"
    unpacked = receiver.train(work_dir, flags, name="unpacked")
    receiver.wait(unpacked, "succeeded")
    assert files_of(receiver.logs(unpacked), "train")[0][0].endswith("part-00000")


def test_test_data_is_dealt_out_where_all_nodes_test(receiver, store):
    work_dir = make_data(store / "toy")
    for number in range(1, 3):
        receivers.write_points(work_dir / "test", f"part-{number:05d}", 10 * number)
    receiver.program()
    job = receiver.train(work_dir, "--distribute_test")
    receiver.wait(job, "succeeded")
    log = receiver.logs(job)
    test = "./test_data_dir/test/part-0000"
    assert files_of(log, "test") == {0: [f"{test}2"], 1: [f"{test}0", f"{test}1"]}
    for rank in range(2):
        own = re.findall(rf"toy_job-trainer-{rank}\s*\|.*", log)
        assert any("Test samples=20 " in line for line in own), own
        assert any("of this trainer's share alone" in line for line in own), own


def test_private_programs_go_first(receiver, store):
    work_dir = make_data(store / "toy")
    script = '#!/bin/sh\necho "private paddle $1"\nshift\nexec python3 -P -m paddle.v1.train "$@"\n'
    receiver.program(private_module="")
    thirdparty = receiver.programs / "thirdparty"
    (thirdparty / "private_module.py").write_text("print('private module')\n")
    private = thirdparty / "paddle"
    private.write_text(script)
    private.chmod(0o755)
    provider = thirdparty / "toy_provider.py"
    provider.write_text("import private_module\n" + provider.read_text())
    job = receiver.train(work_dir)
    receiver.wait(job, "succeeded")
    log = receiver.logs(job)
    assert "private paddle train" in log and "private module" in log


def test_a_private_paddle_that_cannot_run_is_named_in_log_and_results(receiver, store):
    work_dir = make_data(store / "toy")
    receiver.program()
    private = receiver.programs / "thirdparty/paddle"
    private.write_text("#!/no/such/interpreter\n")
    private.chmod(0o755)
    job = receiver.train(work_dir, nodes=1)
    receiver.wait(job, "failed")
    for text in (receiver.logs(job), (work_dir / "output/log/rank-00000/train.log").read_text()):
        assert "the interpreter that its first line names is not on this node" in text, text
        assert re.search(r"program: \S+/thirdparty/thirdparty/paddle\b", text), text
    for workspace in receiver.workspaces("toy_job"):
        assert not (workspace / "train_data_dir").exists()


def test_what_was_sent_goes_before_what_is_installed(receiver, store):
    tells = 'for name in PATH LD_LIBRARY_PATH PYTHONPATH; do echo "$name=${!name}"; done; echo'
    receiver.program(hook=HOOK.replace("echo", tells))
    # A module that Python has, too.
    thirdparty = receiver.programs / "thirdparty"
    (thirdparty / "colorsys.py").write_text("print('private colorsys')\n")
    provider = thirdparty / "toy_provider.py"
    provider.write_text("import colorsys\n" + provider.read_text())
    job = receiver.train(make_data(store / "toy"), nodes=1)
    receiver.wait(job, "succeeded")
    log = receiver.logs(job)
    workspace = re.search(r"hook \S+ (\S+/rank-00000)$", log, re.MULTILINE).group(1)
    sent = f"{workspace}/thirdparty/thirdparty"
    for name, folders in (
        ("PATH", [f"{sent}/bin", sent]),
        ("LD_LIBRARY_PATH", [workspace, f"{sent}/lib", sent]),
        ("PYTHONPATH", [workspace, sent]),
    ):
        value = re.search(rf"\b{name}=(\S+)", log).group(1)
        assert value.split(":")[: len(folders)] == folders, value
    assert "private colorsys" in log


def test_the_users_own_files_are_a_store_too(receiver, tmp_path):
    data = make_data(tmp_path / "toy")
    receiver.program()
    receiver.run("paddlecloud", "cp", "-r", str(data), "/pfs/local/home/admin/")
    home = "/pfs/local/home/admin/toy"
    job = receiver.train(home, f"--config_args=work_dir={home},fs_name=")
    receiver.wait(job, "succeeded")
    listed = receiver.run("paddlecloud", "ls", "-r", f"{home}/output")[1]
    assert "output/rank-00000/pass-00000/done" in listed
    error = receiver.train(home, "--config_args=work_dir=/pfs/local/home/eve/toy,fs_name=",
                           name="other", check=False)  # fmt: skip
    assert "another user's home" in error


def test_receivers_come_from_local_config_and_the_first_that_is_there_is_used(receiver, store):
    work_dir = make_data(store / "toy")
    receiver.program()
    client = receiver.folder / "client"
    client.mkdir()
    (client / "cluster_train.sh").write_text("")
    dead, alive = receivers.free_port(), receiver.port
    path = f"{client}{os.pathsep}{processes.PATH}"
    flags = ["paddle", "cluster_train", "--config", "conf.py", "--thirdparty", "thirdparty"]
    flags += [f"--config_args=work_dir={work_dir}"]
    for name, text in (
        ("a_list", f'receivers = ["127.0.0.1:{dead}", "127.0.0.1:{alive}"]\n'),
        ("lines", f"127.0.0.1:{dead}\n127.0.0.1:{alive}\n"),
    ):
        (client / "local_config.py").write_text(text)
        _, output, error = receiver.run(*flags, "--job_name", name, PATH=path)
        assert f"the receiver http://127.0.0.1:{dead} is not there" in error
        assert f"accepted by http://127.0.0.1:{alive}" in output
    (client / "local_config.py").write_text("import os\nreceivers = os.listdir('/')\n")
    code, _, error = receiver.run(*flags, "--job_name", "c", PATH=path, check=False)
    assert code != 0 and "nothing is executed" in error
    (client / "local_config.py").write_text(f"127.0.0.1:{alive}\n127.0.0.1\n")
    code, _, error = receiver.run(*flags, "--job_name", "c", PATH=path, check=False)
    assert code == 2 and "no host:port" in error and "line: 127.0.0.1)" in error
    (client / "local_config.py").write_text(f"127.0.0.1:{dead}\n")
    code, _, error = receiver.run(*flags, "--job_name", "c", PATH=path, check=False)
    assert code != 0 and "none of the 1 receivers is there" in error


def test_nodes_on_ssh_hosts(tmp_path, store):
    with started_hosts(tmp_path / "hosts", 2) as (hosts, ssh_config):
        hosts = ", ".join(f'"{host}"' for host in hosts.split(","))
        config = f"""
datacenters:
- name: local
  backend: ssh
  ssh: {{hosts: [{hosts}], ssh_config: {ssh_config}}}
  queues: [{{name: lab}}]
stores: [{{url: "file://{store}"}}]
"""
        with running(tmp_path, config) as receiver:
            check_two_nodes(receiver, store, "lab")
            assert f"127.0.0.1:{receiver.port}, which no other machine" in receiver.printed


def test_nodes_under_mpi(tmp_path, store):
    needs("mpirun")
    config = f"""
datacenters:
- name: local
  backend: mpi
  mpi: {{ranks: 1}}
  queues: [{{name: mpi-queue, hostfile: "127.0.0.1 slots=2\\n", ranks: 2}}]
stores: [{{url: "file://{store}"}}]
"""
    with running(tmp_path, config) as receiver:
        check_two_nodes(receiver, store, "mpi-queue")


def test_nodes_on_two_machines_under_mpi(tmp_path, store):
    needs("mpirun")
    with started_hosts(tmp_path / "hosts", 2) as (hosts, ssh_config):
        ports = [host.rpartition(":")[2] for host in hosts.split(",")]
        names = [
            f"Host m{rank}\nHostName 127.0.0.1\nPort {own}\n" for rank, own in enumerate(ports)
        ]
        ssh_config.write_text("".join(names) + "Host *\n" + ssh_config.read_text())
        config = f"""
datacenters:
- name: local
  backend: mpi
  mpi: {{ranks: 1, arguments: [--mca, plm_rsh_agent, "ssh -F {ssh_config}"]}}
  queues: [{{name: two, hostfile: "m0 slots=1\\nm1 slots=1\\n", ranks: 2}}]
stores: [{{url: "file://{store}"}}]
"""
        with running(tmp_path, config) as receiver:
            log = check_two_nodes(
                receiver, store, "two", HOOK.replace("echo", "echo home=$HOME; echo")
            )
            # Every ssh server has a home of its own.
            homes = {path.rpartition("-")[2] for path in re.findall(r"home=(\S+)", log)}
            assert homes == set(ports), log


def test_nodes_of_slurm_and_a_time_limit_of_slurm_that_strikes(tmp_path, store):
    needs("slurmctld", "slurmd", "munged")
    with slurm.cluster(tmp_path / "slurm") as conf:
        config = f"""
datacenters:
- name: local
  backend: slurm
  slurm: {{conf: {conf}, shares_files: true}}
  queues: [{{name: long, partition: main}}, {{name: quick, partition: short}}]
stores: [{{url: "file://{store}"}}]
"""
        with running(tmp_path, config) as receiver:
            late = make_data(store / "late/toy")
            receiver.program(hook=HOOK.replace("echo", "sleep 1000; echo"))
            limited = receiver.train(late, "--where", "quick", name="limited")
            check_two_nodes(receiver, store, "long")
            output = receiver.wait(limited, "failed")
            reason = "Slurm ended it after the time limit of its partition"
            assert reason in output, output
            assert reason in receiver.run("paddlecloud", "why", limited)[1]
            assert receiver.run("paddle", "cluster_log", "-f", limited, check=False)[0] == 1
            # Nodes were told, and have sent what they had, before Slurm killed them.
            assert "asked to end" in receiver.logs(limited)
            for rank in range(2):
                assert (late / f"output/log/rank-0000{rank}/train.log").is_file()


def test_nodes_of_slurm_that_share_no_files(tmp_path, store):
    needs("slurmctld", "slurmd", "munged")
    data, own = tmp_path / "data", tmp_path / "own"
    data.mkdir()
    own.mkdir()
    with slurm.cluster(tmp_path / "slurm", apart=[data, store, own]) as conf:
        config = f"""
datacenters:
- name: local
  backend: slurm
  slurm: {{conf: {conf}, shares_files: false, root_dir: {own}}}
  queues: [{{name: apart, partition: main}}]
stores: [{{url: "file://{store}"}}]
"""
        with running(tmp_path, config) as receiver:
            check_two_nodes(receiver, store, "apart")
    assert not list(own.iterdir()), "nodes have written to their own files alone"


def test_a_job_in_slurms_queue_says_why_and_has_asked_for_what_its_queue_says(tmp_path, store):
    needs("slurmctld", "slurmd", "munged")
    with slurm.cluster(tmp_path / "slurm") as conf:
        config = f"""
datacenters:
- name: local
  backend: slurm
  slurm: {{conf: {conf}, shares_files: true}}
  queues: [{{name: later, partition: closed, node: {{cpu: 4, memory: 8Gi, pserver_memory: 3Gi}}}}]
stores: [{{url: "file://{store}"}}]
"""
        with running(tmp_path, config) as receiver:
            receiver.program()
            work_dir = make_data(store / "toy")
            job = receiver.train(work_dir, "--where", "later", "--job_priority", "low")

            def waits():
                said = receiver.run("paddlecloud", "why", job)[1]
                return "its partition is down" in said and "Slurm's queue" in said

            receivers.wait_until(waits)
            # Who follows its log hears why there is none.
            followed = ("timeout", "5", "paddle", "cluster_log", "-f", job)
            assert "its partition is down" in receiver.run(*followed, check=False)[2]
            # Nice, the memory of a node, and the processors of both.
            asked = slurm.call(conf, "squeue", "-h", "-o", "%y %m %C").split()
            assert asked == ["10000", "8G", "8"]
            slurm.call(conf, "scontrol", "update", "PartitionName=closed", "State=UP")
            receiver.wait(job, "succeeded")


def check_two_nodes(receiver, store, queue, hook=HOOK):
    work_dir = make_data(store / "toy")
    receiver.program(hook=hook)
    job = receiver.train(work_dir, "--where", queue)
    receiver.wait(job, "succeeded")
    log = receiver.logs(job)
    assert sorted(files_of(log, "train")) == [0, 1]
    assert (work_dir / "output/output/rank-00000/pass-00000/done").is_file()
    assert (work_dir / "output/log/rank-00001/train.log").is_file()
    return log


def run_demo(receiver, name, *flags):
    """Runs the run.sh of a demo; its job, which must succeed."""
    folder = receiver.folder / "examples"
    if not folder.exists():
        names = ("cluster_train", "sequence_tagging", "image_classification")
        for each in names:
            shutil.copytree(EXAMPLES / each, folder / each)
    demo = folder / "cluster_train" / name
    output = receiver.run("sh", "run.sh", "--where", "demo", *flags, folder=demo)[1]
    job = re.search(r"^jobid=(\S+)$", output, re.MULTILINE).group(1)
    receiver.wait(job, "succeeded")
    return job


def demo_data(folder, name, *arguments):
    script = EXAMPLES / "cluster_train" / name / "data.sh"
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run(["sh", script, folder, *arguments], check=True, env=environment)


def check_demos(receiver, fs_name, work_dir, results):
    """Both demos of the guide; `results` reads a file of theirs."""
    source = f"fs_name={fs_name},work_dir={work_dir}/sequence_tagging/"
    job = run_demo(receiver, "sequence_tagging", f"--config_args={source}")
    assert "chunk_f1" in receiver.logs(job)
    assert b"chunk_f1" in results("sequence_tagging/output/log/rank-00000/train.log")
    source = f"fs_name={fs_name},work_dir={work_dir}/image_classification/"
    small = f"--config_args={source},filters=2,batch_size=16"
    job = run_demo(receiver, "image_classification", small, "--num_nodes", "3")
    log = receiver.logs(job)
    trained = "meta path: ./train_data_dir/image_classification/train_meta"
    assert all(re.search(rf"trainer-{rank}\s*\|.*{trained}", log) for rank in range(3)), log
    assert "Pass=0" in log
    results("image_classification/output/output/rank-00000/pass-00000/done")


def make_demos(folder):
    demo_data(folder / "sequence_tagging", "sequence_tagging")
    demo_data(folder / "image_classification", "image_classification", "60")


def test_the_demos_run_from_a_directory(receiver, store):
    make_demos(store)
    check_demos(receiver, "file://", store, lambda path: (store / path).read_bytes())


@contextlib.contextmanager
def archive(tmp_path, files, settings, fs_name, top):
    """A receiver with a store over the network, to which the cloud itself can send data."""
    config = f"""
datacenters:
- name: local
  queues: [{{name: demo}}]
- name: archive
  files: {files}
  store: {settings}
stores:
- url: {fs_name}{os.path.dirname(top)}
  store: {settings if "key" in settings else "{}"}
"""
    with running(tmp_path, config) as receiver:
        yield receiver


def check_demos_in(tmp_path, files, settings, fs_name, top):
    """Both demos from a store over the network."""
    made = tmp_path / "made"
    make_demos(made)
    with archive(tmp_path, files, settings, fs_name, top) as receiver:
        for name in ("sequence_tagging", "image_classification"):
            receiver.run("paddlecloud", "cp", "-r", str(made / name), "/pfs/archive/home/admin/")

        def results(path):
            shown = receiver.run("paddlecloud", "cat", f"/pfs/archive/home/admin/{path}")
            return shown[1].encode()

        check_demos(receiver, fs_name, f"{top}/home/admin", results)


def hdfs():
    """The URL of the running HDFS, its file system and its directory."""
    url = os.environ.get("PADDLE_TEST_HDFS")
    if not url:
        pytest.skip("PADDLE_TEST_HDFS is not set: `make test-clusters` starts an HDFS")
    return url, *re.fullmatch(r"(hdfs://[^/]+)(/.*)", url).groups()


def test_the_demos_run_from_hdfs(tmp_path):
    url, fs_name, top = hdfs()
    check_demos_in(tmp_path, url, "{user: paddle}", fs_name, top)


def test_hdfs_is_asked_as_the_user_of_fs_ugi(tmp_path):
    # The server itself is root, who may do everything there.
    url, fs_name, top = hdfs()
    made = make_data(tmp_path / "made" / "toy")
    data = f"{top}/home/admin/toy,fs_name={fs_name}"
    with archive(tmp_path, url, "{user: paddle}", fs_name, top) as receiver:
        receiver.run("paddlecloud", "cp", "-r", str(made), "/pfs/archive/home/admin/")
        receiver.program(CONFIG.replace('"paddle,', '"eve,'))
        error = receiver.train(data, check=False)
        assert "HDFS does not let this user do that: look at fs_ugi" in error
        receiver.program()
        job = receiver.train(data)
        receiver.wait(job, "succeeded")
        log = receiver.logs(job)
        # Only their owner may remove results.
        listed = receiver.run("paddlecloud", "ls", "/pfs/archive/home/admin/toy/output/output")[1]
        assert "rank-00000" in listed
        receiver.run("paddlecloud", "rm", "-r", "/pfs/archive/home/admin/toy")
        assert "sesame" not in error + log + receiver.printed + receiver.said()


def test_the_demos_run_from_minio(tmp_path):
    url = os.environ.get("PADDLE_TEST_S3")
    if not url:
        pytest.skip("PADDLE_TEST_S3 is not set: `make test-clusters` starts a MinIO")
    prefix = f"/demos-{os.getpid()}"
    settings = f"{{endpoint: {url}, access_key_id: testkey, secret_access_key: testsecret}}"
    check_demos_in(tmp_path, f"s3://paddle{prefix}", settings, "s3://paddle", prefix)


def test_what_a_configuration_asks_for_is_printed(tmp_path):
    (tmp_path / "conf.py").write_text(CONFIG)
    output = processes.run(
        tmp_path, "paddle", "cluster_config", "--config=conf.py", "--config_args=work_dir=/a/toy"
    )
    answer = output.strip().splitlines()[-1]
    assert answer.startswith("paddle-cluster-config: ") and '"work_dir": "/a/toy"' in answer


def test_the_client_is_installed_beside_its_receivers(receiver, store):
    wheels = sorted((EXAMPLES.parent / "dist").glob("*.whl"))
    if not wheels:
        give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        give_up("there is no wheel in dist/: `make build` makes it")
    scripts, folder = EXAMPLES.parent / "deploy/cluster_train", receiver.folder
    wheel = {"WHEEL": str(wheels[-1])}
    for arguments, reason in ((["cpu", "rdma"], "TCP alone"), (["tpu"], "cpu or gpu")):
        for script in ("build.sh", "build_private_paddle.sh"):
            ended = receiver.run("sh", str(scripts / script), *arguments, check=False, **wheel)
            assert ended[0] == 2 and reason in ended[2]
    for script, *arguments in (["build.sh"], ["build_private_paddle.sh"], ["deploy.sh", "a", "b"]):
        ended = receiver.run("sh", str(scripts / script), *arguments, check=False, WHEEL="nothing")
        assert ended[0] == 1 and ended[2].count("\n") == 1, ended
    assert not (receiver.programs / "b").exists()
    package = receiver.run("sh", str(scripts / "build.sh"), "cpu", "nonrdma", **wheel)[1].strip()
    try:
        for _ in range(2):
            receiver.run("sh", str(scripts / "deploy.sh"), package, "output", folder=folder)
    finally:
        os.unlink(package)
    bashrc = receiver.home / ".bashrc"
    assert bashrc.read_text().count("#PaddlePaddle") == 1
    find = f". {bashrc}; dirname $(which cluster_train.sh)"
    client = receiver.run("bash", "-c", find)[1].strip()
    assert client == str(folder / "output/bin")
    pathlib.Path(client, "local_config.py").write_text(f"127.0.0.1:{receiver.port}\n")
    receiver.program()
    work_dir = make_data(store / "toy")
    command = f". {bashrc}; cluster_train.sh -f conf.py -j by_script -i thirdparty -n 2"
    command += f" --config_args=work_dir={work_dir}"
    assert "by_script was accepted" in receiver.run("bash", "-c", command)[1]
    # A private paddle, as the guide makes one.
    receiver.run("sh", str(scripts / "build_private_paddle.sh"), "cpu", "nonrdma", **wheel)
    thirdparty = receiver.programs / "thirdparty"
    shutil.copytree(receiver.programs / "private_output", thirdparty, dirs_exist_ok=True)
    tells = "python3 -c 'import paddle; print(paddle.__file__)'; echo"
    (thirdparty / "before_hook.sh").write_text(HOOK.replace("echo", tells))
    job = receiver.train(work_dir, name="private", nodes=1)
    receiver.wait(job, "succeeded")
    log = receiver.logs(job)
    assert "using the private" in log
    assert re.search(r"/rank-00000/thirdparty/thirdparty/\S*paddle/__init__\.py", log), log
