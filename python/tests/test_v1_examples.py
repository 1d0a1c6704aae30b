"""The examples in V1 form, by the commands of their READMEs: alone, as a job, on ssh hosts."""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import processes
import pytest
from test_launch import started_hosts

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
NUMBER = r"([-+.\de]+)"
TEST = rf"Test samples=\d+ cost={NUMBER}"

CHUNKS = rf"{TEST} Eval: chunk_f1={NUMBER} true_chunks=\d+ result_chunks=\d+ correct_chunks=\d+ "

# Folder, how its data is made, the configuration with its flags, the figure of the last test, and
# what it must reach: of F1 more, of costs and errors less.
CASES = {
    "linear_crf": (
        "sequence_tagging",
        "python generate.py",
        "linear_crf.py --num_passes=2",
        CHUNKS,
        lambda figures: figures[1] > 0.95,
    ),
    "rnn_crf": (
        "sequence_tagging",
        "python generate.py",
        "rnn_crf.py --num_passes=4 --config_args=hidden_dim=32,learning_rate=0.01",
        CHUNKS,
        lambda figures: figures[1] > 0.9,
    ),
    "vgg_16_cifar": (
        "image_classification",
        "python generate.py && sh preprocess.sh --batch 100",
        "vgg_16_cifar.py --num_passes=3 "
        "--config_args=filters=8,dropout=0,batch_size=16,learning_rate=0.001",
        rf"{TEST} Eval: classification_error_evaluator={NUMBER}",
        lambda figures: figures[1] < 0.3,
    ),
    "recommendation": (
        "recommendation",
        "python generate.py && python preprocess.py",
        "trainer_config.py --config_args=emb_size=32,batch_size=64 --num_passes=5",
        TEST,
        lambda figures: figures[0] < 2.5,
    ),
}


def prepare(name, target):
    """A copy of an example's folder, with its data."""
    folder, command, *_ = CASES[name]
    shutil.copytree(EXAMPLES / folder, target)
    processes.run(target, "sh", "-c", command, PYTHON=sys.executable)
    return target


def readme(name):
    text = (EXAMPLES / CASES[name][0] / "README.md").read_text().replace("\\\n", "")
    return [" ".join(line.split()) for line in text.splitlines()]


def run(folder, command):
    """What a command of a README prints, with the log; it must succeed."""
    return processes.run(folder, "sh", "-c", f"{command} 2>&1")


def last(name, log):
    found = re.findall(CASES[name][3], log)
    assert found, log
    figures = found[-1] if isinstance(found[-1], tuple) else (found[-1],)
    return [float(each) for each in figures]


@pytest.mark.parametrize("name", CASES)
def test_an_example_learns_in_one_process(name, tmp_path):
    folder = prepare(name, tmp_path / "job")
    command = f"paddle train --config={CASES[name][2]}"
    assert command in readme(name)
    figures = last(name, run(folder, command))
    assert CASES[name][4](figures), figures


@pytest.mark.parametrize("name", CASES)
def test_an_example_learns_as_a_job(name, tmp_path):
    folder = prepare(name, tmp_path / "job")
    starts = (
        f"paddle launch --pservers 2 --trainers 2 -- paddle train --config={CASES[name][2][:8]}"
    )
    command = next(line for line in readme(name) if line.startswith(starts))
    figures = last(name, run(folder, command))
    assert CASES[name][4](figures), figures
    assert (folder / "output/pass-00001/done").exists()


def test_a_package_of_the_original_layout_runs_on_ssh_hosts(tmp_path):
    folder = tmp_path / "recommendation"
    shutil.copytree(EXAMPLES / "recommendation", folder)
    make = "python generate.py && python preprocess.py --parts 2 --package package"
    assert make in (EXAMPLES / "cluster_train/README.md").read_text()
    processes.run(folder, "sh", "-c", make)
    package = folder / "package"
    names = sorted(str(path.relative_to(package)) for path in package.rglob("*") if path.is_file())
    assert names == [
        *("conf/trainer_config.conf", "dataprovider.py", "meta.bin", "test.list"),
        *("test/ratings-00000", "train.list", "train/ratings-00000", "train/ratings-00001"),
    ]
    small = "--config_args=data_dir=.,emb_size=32,batch_size=32"
    shown, here, homes = run_on_hosts(tmp_path, package, 5, small)
    lists = [next(home.glob("jobs/JOB*/train.list")).read_text() for home in homes]
    assert sorted(lists) == ["train/ratings-00000\n", "train/ratings-00001\n"]
    assert CASES["recommendation"][4](last("recommendation", shown)), shown
    for rank in range(2):
        log = (here / f"log/{rank}/paddle_trainer.INFO").read_text()
        assert f"trainer_id:  {rank}, version:  v1" in log
        assert "Pass=4 " in log


def run_on_hosts(tmp_path, package, passes, *flags):
    """Runs a package by `run.sh` on two ssh hosts: what is shown, where, and the hosts' homes."""
    here = tmp_path / "here"
    here.mkdir()
    with started_hosts(tmp_path / "cluster", 2) as (hosts, config):
        command = ["sh", str(EXAMPLES / "cluster_train/run.sh"), "--nics=", "--port=0", "--hosts"]
        command += [hosts, "--ssh_config", str(config), "--root_dir=~/jobs", *flags]
        shown = processes.run(
            here,
            *command,
            PATH_TO_LOCAL_WORKSPACE=str(package),
            NUM_PASSES=str(passes),
            TRAINER_COUNT="1",
            PYTHON=sys.executable,
        )
    assert (here / f"output/pass-{passes - 1:05d}/done").exists()
    return shown, here, sorted((tmp_path / "cluster").glob("home-*"))


# The folder of the lists, passes, and further flags.
PACKAGES = {
    "linear_crf": ("data", 2, []),
    "rnn_crf": ("data", 6, ["--config_args=hidden_dim=32,learning_rate=0.01"]),
    "vgg_16_cifar": (
        "data/cifar-out/batches",
        4,
        [
            "--config_args=data_dir=.,meta=data/cifar-out/batches/batches.meta,"
            "filters=8,dropout=0,batch_size=16,learning_rate=0.001"
        ],
    ),
}


@pytest.mark.parametrize("name", PACKAGES)
def test_every_example_runs_as_such_a_package(name, tmp_path):
    folder, passes, flags = PACKAGES[name]
    package = prepare(name, tmp_path / "package")
    for each in ("train.list", "test.list"):
        (package / folder / each).rename(package / each)
    text = (package / CASES[name][2].split()[0]).read_text()
    (package / "conf").mkdir()
    config = text.replace("data/train.list", "train.list").replace("data/test.list", "test.list")
    (package / "conf/trainer_config.conf").write_text(config)
    shown, _, homes = run_on_hosts(tmp_path, package, passes, *flags)
    lists = [next(home.glob("jobs/JOB*/train.list")).read_text().split() for home in homes]
    assert all(lists) and not set(lists[0]) & set(lists[1])
    assert CASES[name][4](last(name, shown)), shown


def test_the_download_checks_what_it_fetched(tmp_path):
    """The script's own code, against a file that is not the archive."""
    shutil.copy(EXAMPLES / "image_classification/data/download_cifar.sh", tmp_path)
    (tmp_path / "other").write_bytes(b"not the archive")
    url = (tmp_path / "other").as_uri()
    script = shlex.quote(str(tmp_path / "download_cifar.sh"))
    command = ["sh", "-c", f"CIFAR_URL={url} sh {script}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "FAILED" in ended.stdout + ended.stderr or "did NOT match" in ended.stderr, ended
    assert not (tmp_path / "cifar-10-python.tar.gz").exists()
