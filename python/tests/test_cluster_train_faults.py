"""`paddle cluster_train` where something goes wrong or strangers ask: nodes and receivers that are
killed, quotas, tokens."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import time
import urllib.error
import urllib.parse
import urllib.request

import processes
import receiver as receivers
from receiver import HOOK, WAITING_HOOK, make_data, running

TELL_STAGE = "tr '\\0' '\\n' < /proc/$PPID/environ | grep PADDLE_STAGE= || true; "


def told(log):
    """What a node that ran [`TELL_STAGE`] was told."""
    return json.loads(re.search(r"PADDLE_STAGE=(\{.*\})", log).group(1))


def status_of(url, token, data=None, method="GET"):
    """The status of a call with the token of a node."""
    headers = {"Authorization": f"Stage {token}"} if token else {}
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def node_of(job, rank):
    """The process ids of a node of a job on this machine."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            environment = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        is_of = any(one.startswith(b"PADDLE_STAGE=") and job.encode() in one for one in environment)
        own = f"PADDLE_INIT_TRAINER_ID={rank}".encode()
        if b"cluster_node" in words and is_of and own in environment:
            found.append(int(process.name))
    return found


def test_nodes_that_wait_end_at_once_and_send_their_logs_when_another_fails(receiver, store):
    work_dir = make_data(store / "toy")
    fails = "[ $(cat $l_workspace_dir/trainer_id) = 0 ] || { while ! [ -e /pfs/public/go ]; do "
    fails += "sleep 0.1; done; exit 1; }; echo"
    receiver.program(hook=HOOK.replace("echo", fails))
    job = receiver.train(work_dir)
    sent = work_dir / "output/log/rank-00000/train.log"
    deadline = time.monotonic() + processes.DEADLINE_SECONDS
    # The first has run its hook, and waits.
    while not (sent.is_file() and "the workspace is ready" in sent.read_text()):
        assert time.monotonic() < deadline, receiver.logs(job)
        time.sleep(0.1)  # polled until the deadline
    (receiver.data / "files/local/public/go").write_text("")
    receiver.wait(job, "failed")
    # A node that had to be killed could not have sent this.
    assert "asked to end" in sent.read_text(), receiver.logs(job)
    assert "before_hook.sh failed" in (work_dir / "output/log/rank-00001/train.log").read_text()


def test_a_node_that_is_killed_while_it_fetches_fails_the_job_and_leaves_nothing(receiver, store):
    work_dir = make_data(store / "toy")
    receiver.program(hook=WAITING_HOOK)
    # So large that it is on its way when it is seen, which the others of its node wait for.
    with open(work_dir / "train/part-00000", "wb") as file:
        file.truncate(1 << 31)
    job = receiver.train(work_dir)
    workspace = receiver.data / "files/local/home/admin/jobs/toy_job/rank-00000"
    deadline = time.monotonic() + processes.DEADLINE_SECONDS
    # Looked for before, so that they are killed as soon as they are seen to fetch.
    killed = node_of(job, 0)
    while not (killed and list(workspace.glob(".fetched-*"))):
        assert time.monotonic() < deadline, receiver.logs(job)
        time.sleep(0.005)  # polled until the deadline
        killed = node_of(job, 0)
    for looked_for in (lambda: killed, lambda: node_of(job, 0)):
        # Again for what was begun meanwhile.
        for process in looked_for():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    receiver.wait(job, "failed")
    log = receiver.logs(job)
    assert not re.search(r"trainer-0\s*\|.*all data is here", log), log
    assert not (workspace / "train_data_dir/train/part-00000").exists()
    assert not node_of(job, 0) and not node_of(job, 1)
    # The next one begins afresh.
    make_data(store / "toy")
    receiver.program()
    receiver.wait(receiver.train(work_dir, name="again"), "succeeded")


def test_a_node_whose_data_has_changed_fails_the_job_and_says_which_file(receiver, store):
    work_dir = make_data(store / "toy")
    # Eight replicas fit: the second job waits for the first.
    receiver.program(hook=WAITING_HOOK)
    first = receiver.train(work_dir, nodes=4, name="first")
    receiver.wait_for_line(first, "running before_hook.sh")
    receiver.program()
    job = receiver.train(work_dir, nodes=2)
    (work_dir / "train" / "part-00001").write_text("1 2 3\n")
    (receiver.data / "files/local/public/go").write_text("")
    receiver.wait(first, "succeeded")
    receiver.wait(job, "failed")
    log = receiver.logs(job)
    assert "was changed after the job was submitted" in log and "part-00001" in log
    for workspace in receiver.workspaces("toy_job"):
        left = [path.name for path in workspace.iterdir()]
        assert not [name for name in left if name.startswith((".fetched", "train_data"))], left


def test_a_killed_receiver_comes_back_and_nothing_is_lost(receiver, store):
    work_dir = make_data(store / "toy")
    receiver.program(hook=WAITING_HOOK)
    job = receiver.train(work_dir)
    receiver.wait_for_line(job, "running before_hook.sh")
    receiver.kill()
    (receiver.data / "files/local/public/go").write_text("")
    receiver.start()
    receiver.wait(job, "succeeded")
    assert (work_dir / "output/output/rank-00000/pass-00000/done").is_file()


def test_a_receiver_that_is_killed_while_nodes_fetch_is_waited_for(receiver, store):
    work_dir = make_data(store / "toy")
    # So large that it is on its way when it is seen, and replaced by points before it is read.
    with open(work_dir / "train/part-00000", "wb") as file:
        file.truncate(1 << 31)
    points = "printf '1 1 1\\n2 2 2\\n' > $l_workspace_dir/train_data_dir/train/part-00000; echo"
    receiver.program(hook=HOOK.replace("echo", points))
    job = receiver.train(work_dir)
    fetched = receiver.data / "files/local/home/admin/jobs/toy_job/rank-00000"
    receivers.wait_until(lambda: list(fetched.glob(".fetched-*")), 0.005)
    receiver.kill()
    assert list(fetched.glob(".fetched-*"))
    receiver.start()
    receiver.wait(job, "succeeded")
    assert re.search(r"trainer-0\s*\|.*trying again", receiver.logs(job))


def test_a_receiver_that_came_back_knows_which_nodes_are_ready(receiver, store):
    work_dir = make_data(store / "toy")
    receiver.program(hook=HOOK.replace("echo", TELL_STAGE + "echo"))
    provider = receiver.programs / "thirdparty/toy_provider.py"
    waits = "    import os, time\n    while not os.path.exists('/pfs/public/go'): time.sleep(0.1)\n"
    slow = provider.read_text().replace("    with (gzip", waits + "    with (gzip")
    provider.write_text(slow)
    job = receiver.train(work_dir)
    for rank in range(2):
        receiver.wait_for_line(job, f"trainer_id:  {rank}")
    stage = told(receiver.logs(job))
    receiver.kill()
    receiver.start()
    # As a node that has not heard of the others so far.
    url = f"{stage['url']}/api/v2/stages/{stage['job']}/ready"
    headers = {"Authorization": f"Stage {stage['token']}", "Content-Type": "application/json"}

    def awaited():
        request = urllib.request.Request(url, data=b'{"rank": 0}', headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["ranks"]

    assert awaited() == []
    (receiver.data / "files/local/public/go").write_text("")
    receiver.wait(job, "succeeded")


def test_results_at_home_count_for_the_quota(receiver, tmp_path):
    data = make_data(tmp_path / "toy")
    receiver.program()
    receiver.run("paddlecloud", "cp", "-r", str(data), "/pfs/local/home/admin/")
    receiver.run("paddlecloud", "user", "quota", "admin", "-disk", "64Ki")
    home = "/pfs/local/home/admin/toy"
    hook = HOOK.replace("echo", "head -c 100000 /dev/zero > $l_workspace_dir/log/large; echo")
    (receiver.programs / "thirdparty/before_hook.sh").write_text(hook)
    job = receiver.train(home, f"--config_args=work_dir={home},fs_name=", nodes=1)
    receiver.wait(job, "failed")
    log = receiver.logs(job)
    assert "the training does not begin" in log and "disk quota would be exceeded" in log
    assert "Pass=" not in log


def test_a_result_that_is_sent_again_counts_once_for_the_quota(receiver, tmp_path):
    data = make_data(tmp_path / "toy")
    receivers.write_points(data / "train", "part-00000", 4000)
    receiver.program(hook=WAITING_HOOK.replace("while", TELL_STAGE + "while"))
    receiver.run("paddlecloud", "cp", "-r", str(data), "/pfs/local/home/admin/")
    receiver.run("paddlecloud", "user", "quota", "admin", "-disk", "192Ki")
    home = "/pfs/local/home/admin/toy"
    job = receiver.train(home, f"--config_args=work_dir={home},fs_name=", nodes=1)
    receiver.wait_for_line(job, "PADDLE_STAGE=")
    stage = told(receiver.logs(job))
    url, token = f"{stage['url']}/api/v2/stages/{stage['job']}", stage["token"]
    # A file of the data, which comes with its checksum.
    size = (data / "train/part-00000").stat().st_size
    part = urllib.request.Request(
        f"{url}/files/0?offset=0&bytes={size}", headers={"Authorization": f"Stage {token}"}
    )
    with urllib.request.urlopen(part, timeout=60) as answer:
        content = answer.read()
    own = {"rank": 0, "path": "log/rank-00000/mine", "checksum": content[-32:].hex()}
    own = f"{url}/results?{urllib.parse.urlencode(own)}"
    for _ in range(10):
        assert status_of(own, token, data=content[:-32], method="PUT") == 204
    (receiver.data / "files/local/public/go").write_text("")
    receiver.wait(job, "succeeded")


def test_a_job_is_looked_for_at_all_receivers(receiver, tmp_path, store):
    receiver.program()
    job = receiver.train(make_data(store / "toy"))
    client = receiver.folder / "client"
    client.mkdir()
    (client / "cluster_train.sh").write_text("")
    path = f"{client}{os.pathsep}{processes.PATH}"
    (tmp_path / "second").mkdir()
    with running(tmp_path / "second", "datacenters: [{name: local}]\n") as second:
        addresses = [f"127.0.0.1:{port}" for port in (second.port, receiver.port)]
        (client / "local_config.py").write_text("\n".join(addresses) + "\n")
        config = receiver.home / ".paddle/config"
        own, other = config.read_text(), (second.home / ".paddle/config").read_text()
        config.write_text(own + other.partition("\n")[2].replace("local", "other"))

        def run(*command, check=False):
            return receiver.run(*command, check=check, PATH=path)

        # The first of the list is healthy, and does not know it.
        output = run("paddle", "cluster_status", job, check=True)[1]
        assert f"jobid={job}" in output
        code, _, error = run("paddle", "cluster_kill", "no-such-job")
        assert code != 0 and "no such job" in error, error
        run("paddle", "cluster_kill", job, check=True)
        receiver.kill()
        code, _, error = run("paddle", "cluster_status", job)
        assert code != 0 and "may be with a receiver that cannot be asked" in error, error
        assert f"the receiver http://{addresses[1]} is not there" in error, error
        assert addresses[1] in error, error
        config.write_text(own)
        receiver.start()


def test_the_token_of_a_node_is_good_for_its_own_job_alone(receiver, store):
    work_dir = make_data(store / "toy")
    # A user can read what their own node was told.
    receiver.program(hook=WAITING_HOOK.replace("while", TELL_STAGE + "while"))
    jobs = [receiver.train(work_dir, nodes=1, name=name) for name in ("one", "other")]
    stages = []
    for job in jobs:
        receiver.wait_for_line(job, "PADDLE_STAGE=")
        stages.append(told(receiver.logs(job)))
    (one, other), token = stages, stages[0]["token"]
    url = f"{one['url']}/api/v2/stages/{one['job']}"
    assert status_of(f"{url}?rank=0", token) == 200
    assert status_of(f"{url}?rank=1", token) == 400
    assert status_of(f"{url}?rank=0", "") == 401
    assert status_of(f"{url}?rank=0", other["token"]) == 401
    assert status_of(f"{other['url']}/api/v2/stages/{other['job']}?rank=0", token) == 401
    assert status_of(f"{one['url']}/api/v2/datacenters", token) == 401
    assert status_of(f"{url}/files/0?offset=0&bytes=99999999", token) == 400
    assert status_of(f"{url}/files/99?offset=0&bytes=1", token) == 404
    sum_of_nothing = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"

    def put(path, checksum=sum_of_nothing):
        query = urllib.parse.urlencode({"rank": 0, "path": path, "checksum": checksum})
        return status_of(f"{url}/results?{query}", token, data=b"", method="PUT")

    for path in ("../x", "log/rank-00001/x", "log/rank-00000/../../../x", "/etc/x", "train/x"):
        assert put(path) == 400, path
    assert put("log/rank-00000/damaged", "00" * 32) >= 400
    assert put("log/rank-00000/mine") == 204
    (receiver.data / "files/local/public/go").write_text("")
    for job in jobs:
        receiver.wait(job, "succeeded")
    assert status_of(f"{url}?rank=0", token) == 403
    # Both began before either had sent anything, and neither writes where the other does.
    assert len(list(work_dir.glob("output*/output/rank-00000/pass-00000/done"))) == 2
    sent = {path.name for path in work_dir.glob("output*/log/rank-00000/*")}
    assert "mine" in sent and "damaged" not in sent
    assert not (work_dir / "x").exists()


def test_a_package_with_compiled_files_and_results_larger_than_memory_are_fine(receiver, store):
    work_dir = make_data(store / "toy")
    large = "rm -r $l_thirdparty_dir/numpy; head -c 70000000 /dev/zero > $l_workspace_dir/log/large"
    receiver.program(hook=HOOK.replace("echo", f"{large}; echo"))
    # The receiver has a numpy, which half of this one would hide.
    own = receiver.programs / "thirdparty/numpy"
    own.mkdir()
    (own / "__init__.py").write_text("from . import _core\n")
    (own / "_core.so").write_bytes(b"compiled")
    job = receiver.train(work_dir, nodes=1)
    receiver.wait(job, "succeeded")
    shown = receiver.run("paddle", "cluster_log", job, "--file", "log/rank-00000/large")[1]
    assert len(shown) == 70_000_000
    shutil.rmtree(own)
    odd = receiver.programs / "v1:2"
    odd.mkdir()
    error = receiver.train(work_dir, "--thirdparty", "./v1:2", name="odd", check=False)
    assert "must not have a colon" in error
