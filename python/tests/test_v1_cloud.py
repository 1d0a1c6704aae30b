"""V1 programs of the original cloud, which look at the root of a container for who they are.

Where `/` is private to a trainer they run unchanged; elsewhere the four files are in the workspace.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys

import clouds
import processes
import pytest
import v1_programs
from v1_programs import train

CONFIG = "--config=trainer_config.py"
QUIET = ("--dot_period=0", "--log_period=0")
# As the original's guide has it.
DEAL = """\
import glob

TRAIN_FILE_PATTERN = "part-*"
TEST_FILE_PATTERN = "tests"


def gen_train_list():
    # write "/train.list" and "/test.list" for each node
    trainer_id = -1
    trainer_count = -1
    with open("/trainer_id", "r") as f:
        trainer_id = int(f.readline()[:-1])
    with open("/trainer_count", "r") as f:
        trainer_count = int(f.readline()[:-1])

    train_file_list = glob.glob(TRAIN_FILE_PATTERN)
    train_file_list.sort()
    my_train_list = []
    for idx, f in enumerate(train_file_list):
        if idx % trainer_count == trainer_id:
            my_train_list.append(f)
    with open("/train.list", "w") as f:
        f.write('\\n'.join(my_train_list))

    test_file_list = glob.glob(TEST_FILE_PATTERN)
    test_file_list.sort()
    my_test_list = []
    for idx, f in enumerate(test_file_list):
        if idx % trainer_count == trainer_id:
            my_test_list.append(f)
    with open("/test.list", "w") as f:
        f.write('\\n'.join(my_test_list))


gen_train_list()
"""


@pytest.fixture
def program(tmp_path):
    """A program that deals its files out; it has no lists yet."""
    if os.path.exists("/trainer_id"):
        pytest.skip("/ is private to this process")
    v1_programs.write(tmp_path)
    path = tmp_path / "trainer_config.py"
    text = path.read_text().replace('"train.list", "test.list"', '"/train.list", "/test.list"')
    path.write_text(text.replace("define_py", DEAL + "define_py", 1))
    for name in ("train.list", "test.list"):
        (tmp_path / name).unlink()
    return tmp_path


def test_a_program_finds_its_lists_in_the_workspace(program):
    (program / "trainer_id").write_text("1\n")
    (program / "trainer_count").write_text("2\n")
    log = train(program, CONFIG, "--num_passes=1", *QUIET)
    assert "/train.list is ./train.list here" in log
    assert (program / "train.list").read_text() == "part-1"
    assert "Pass=0 Batch=8 samples=60" in log


@pytest.mark.parametrize(
    "command",
    [f"{CONFIG} {' '.join(QUIET)}", "-- python trainer_config.py --log_period=0"],
    ids=["a topology", "an entry"],
)
def test_trainers_that_share_a_workspace_have_lists_of_their_own(program, command):
    # Of an earlier job.
    (program / "trainer_id").write_text("0\n")
    (program / "trainer_count").write_text("1\n")
    launch = ["paddle", "launch", "--pservers", "1", "--trainers", "2", *shlex.split(command)]
    shown = processes.run(program, *launch)
    assert len(re.findall(r"Pass=0 Batch=8 samples=60", shown)) == 2
    mine = [(program / f"log/trainer-{rank}/train.list").read_text() for rank in range(2)]
    assert mine == ["part-0", "part-1"]
    assert "trainers share" not in shown


def test_trainers_of_one_log_directory_have_lists_of_their_own(program):
    """As pods, which know no other folder of their own."""
    trainers = []
    for rank in range(2):
        told = {"PADDLE_INIT_TRAINER_ID": str(rank), "PADDLE_INIT_NUM_GRADIENT_SERVERS": "2"}
        command = [processes.PADDLE, "train", CONFIG, "--num_passes=1", f"--save_dir={rank}"]
        trainers.append(
            subprocess.Popen(
                [*command, "--local=1", *QUIET],
                cwd=program,
                env={**os.environ, **told, "PADDLE_LOG_DIR": str(program / "shared")},
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for trainer in trainers:
        log = trainer.communicate(timeout=processes.DEADLINE_SECONDS)[1]
        assert "Pass=0 Batch=8 samples=60" in log, log
    mine = [(program / f"shared/trainer-{rank}/train.list").read_text() for rank in range(2)]
    assert mine == ["part-0", "part-1"]


def test_a_module_is_told_where_the_files_of_the_root_are(program):
    """`open` of a configuration finds them; that of a module is Python's own."""
    path = program / "dataprovider.py"
    text = path.read_text()
    path.write_text(text.replace("@provider", 'open("/trainer_id").close()\n\n\n@provider'))
    told = {"PADDLE_INIT_TRAINER_ID": "0", "PADDLE_LOG_DIR": "log/trainer-0"}
    code, log = v1_programs.try_to_train(program, CONFIG, "--num_passes=1", **told)
    assert code == 2
    assert (
        "'/trainer_id'; / is not private to this trainer: import open from "
        "paddle.trainer_config_helpers, which finds it as log/trainer-0/trainer_id (at: "
        "dataprovider.py:4)" in log
    )
    path.write_text(f"from paddle.trainer_config_helpers import open\n{path.read_text()}")
    train(program, CONFIG, "--num_passes=1", **told)


def test_a_program_runs_unchanged_where_the_root_is_private(program):
    root = program / "root"
    inside = (
        f"mount -t tmpfs none {root} && cd {root} && for each in /*; do "
        '[ -d "$each" ] && [ ! -L "$each" ] || continue; '
        'mkdir ".$each" && mount --rbind "$each" ".$each"; done; '
        'for each in /*; do [ -L "$each" ] && cp -d "$each" ".$each"; done; '
        "echo 0 > trainer_id && echo 2 > trainer_count && "
        f"exec chroot {root} sh -c "
        + shlex.quote(
            f"cd {program} && {processes.PADDLE} train {CONFIG} --num_passes=1 "
            f"{' '.join(QUIET)} && cp /train.list mine"
        )
    )
    root.mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("unshare is not installed")
    unshare = ["unshare", "--mount", "--map-root-user"]
    if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", str(root)]).returncode != 0:
        pytest.skip("mounts are not permitted here")
    ended = subprocess.run(
        [*unshare, "sh", "-c", inside],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PATH": processes.PATH, "PYTHON": sys.executable},
        timeout=processes.DEADLINE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert "Pass=0 Batch=8 samples=60" in ended.stdout
    assert "is not private" not in ended.stdout
    assert (program / "mine").read_text() == "part-0"
    assert not os.path.exists("/train.list")


def test_a_program_runs_unchanged_in_a_cloud(program, tmp_path_factory):
    """As a topology and as an entry; each trainer has its files of the data."""
    home = tmp_path_factory.mktemp("home")

    def run(*words):
        ended = subprocess.run(
            [clouds.PADDLECLOUD, *words],
            cwd=program,
            env={**os.environ, "HOME": str(home), "PATH": processes.PATH},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    with clouds.serving(home):
        how = {
            "topology": ("-topology", "trainer_config.py"),
            "entry": ("-entry", "python trainer_config.py --num_passes=1"),
        }
        for name, words in how.items():
            sizes = ("-parallelism", "2", "-pservers", "1", "-passes", "1")
            run("submit", "-jobname", name, *sizes, *words, ".")
            run("wait", name, "-timeout", "280s")
            for rank in range(2):
                log = run("logs", "-w", f"{name}-trainer-{rank}", "-all", name)
                version = "v1" if name == "topology" else "v2"
                started = f"num_gradient_servers: 2, trainer_id:  {rank}, version:  {version}"
                assert started in log, log
                assert "Pass=0 Batch=8 samples=60" in log, log
