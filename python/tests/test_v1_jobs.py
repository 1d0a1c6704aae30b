"""`paddle train`: what its jobs and flags do beside training, and what they say of themselves."""

import os
import re
import subprocess
import threading

import processes
import pytest
import v1_programs
from v1_programs import figures, train, try_to_train

CONFIG = "--config=trainer_config.py"
QUIET = ("--dot_period=0", "--log_period=0")
NUMBER = r"([-+.\de]+)"


@pytest.fixture
def trained(tmp_path):
    """A program with two saved passes."""
    v1_programs.write(tmp_path)
    train(tmp_path, CONFIG, "--num_passes=2", "--save_dir=output", *QUIET)
    return tmp_path


def change(folder, right, wrong, file="trainer_config.py"):
    text = (folder / file).read_text()
    assert right in text
    (folder / file).write_text(text.replace(right, wrong))


def test_a_layer_may_have_more_ids_than_the_provider_gives(tmp_path):
    v1_programs.write(tmp_path)
    change(tmp_path, 'name="word", size=20', 'name="word", size=30')
    log = train(tmp_path, CONFIG, "--num_passes=1", *QUIET)
    assert (
        "data layer 'word' has size 30 but the data provider gives ids below 20 "
        "(at: trainer_config.py:11)" in log
    )


def test_tests_may_have_fewer_ids_than_the_training(tmp_path):
    v1_programs.write(tmp_path, "init_hook=hook")
    hook = (
        "def hook(settings, is_train, **_):\n"
        "    settings.input_types = list(settings.input_types)\n"
        "    settings.input_types[1] = integer_value_sequence(20 if is_train else 19)\n\n\n"
    )
    change(tmp_path, "@provider(", f"{hook}@provider(", "dataprovider.py")
    log = train(tmp_path, CONFIG, "--num_passes=1", *QUIET)
    told = (
        "data layer 'word' has size 20 but the data provider of the tests gives ids below 19 (at:"
    )
    assert log.count(told) == log.count("ids below") == 1


def test_ids_of_a_layer_of_size_1_are_those_of_the_provider(tmp_path):
    v1_programs.write(tmp_path)
    log = train(tmp_path, CONFIG, "--num_passes=1", *QUIET)
    change(tmp_path, 'name="label", size=3', 'name="label", size=1')
    again = train(tmp_path, CONFIG, "--num_passes=1", *QUIET)
    pattern = rf"Test samples=60 cost={NUMBER}"
    assert figures(again, pattern) == figures(log, pattern) != []


def test_flags_and_arguments_without_effect_are_told(tmp_path):
    v1_programs.write(tmp_path)
    log = train(
        *(tmp_path, CONFIG, "--num_passes=1", "--test_pass=3", "--start_pserver", "--nics=eth0"),
        *("--small_messages=1", "--saving_period=1", "--config_args=bach_size=4", *QUIET),
        "--rdma_tcp=rdma",
    )
    told = dict(re.findall(r"\] --(\w+) has no effect: (.*)", log))
    assert told == {
        "nics": "the training has no parameter servers; --local=0 is one that has",
        "rdma_tcp": "parameter servers speak TCP, with the same results",
        "small_messages": "connections send at once",
        "start_pserver": "the training has no parameter servers; --local=0 is one that has",
        "test_pass": "it is for --job=test, and this is train",
    }
    assert "trainer_config.py does not ask for 'bach_size'; did you mean 'batch_size'?" in log


def test_jobs_beside_training_use_the_model_that_is_named(trained):
    model = "--init_model_path=output/pass-00001"
    fresh = train(trained, CONFIG, "--job=checkgrad")
    loaded = train(trained, CONFIG, "--job=checkgrad", model, "--local=0")
    cost = rf"original cost={NUMBER}"
    assert figures(loaded, cost)[0] < figures(fresh, cost)[0]
    assert "--local has no effect: it is for --job=train, and this is checkgrad" in loaded
    timed = train(trained, CONFIG, "--job=time", "--test_period=5", model)
    assert "Loading parameters from output/pass-00001" in timed
    for job in ("checkgrad", "time"):
        code, log = try_to_train(trained, CONFIG, f"--job={job}", "--init_model_path=nothing")
        assert code == 1
        assert "(directory: nothing)" in log


def test_a_test_shows_its_batches_and_needs_no_data_to_train(trained):
    (trained / "train.list").unlink()
    flags = ("--job=test", "--init_model_path=output/pass-00001", "--log_period=3")
    log = train(trained, CONFIG, *flags)
    batches = re.findall(rf" Batch=(\d+) samples=(\d+) AvgCost={NUMBER}$", log, re.MULTILINE)
    assert [batch[:2] for batch in batches] == [("3", "24"), ("6", "48")]
    assert re.search(rf" Pass=1 samples=60 AvgCost={NUMBER} Eval: ", log)


def test_a_trainer_that_does_not_test_needs_no_data_to_test(tmp_path):
    v1_programs.write(tmp_path)
    change(
        tmp_path, '"test.list"', '"test.list" if get_config_arg("trainer_id", int) == 0 else "?"'
    )
    flags = ("--passes", "1", "--", "paddle", "train", CONFIG, *QUIET)
    shown = processes.run(
        tmp_path, "paddle", "launch", "--trainers", "2", "--pservers", "1", *flags
    )
    assert shown.count("Pass=0 ") == 2
    assert shown.count("Test samples=60") == 1


def test_tests_without_samples_are_told_and_the_model_is_saved(tmp_path):
    v1_programs.write(tmp_path)
    (tmp_path / "tests").write_text("")
    log = train(tmp_path, CONFIG, "--num_passes=1", "--save_dir=output", *QUIET)
    assert "the data provider gave no sample to test with (at: dataprovider.py:4)" in log
    model = "--init_model_path=output/pass-00000"
    code, log = try_to_train(tmp_path, CONFIG, "--job=test", model)
    assert code == 1
    assert log.endswith("the data provider gave no sample to test with (at: dataprovider.py:4)\n")


def test_a_fault_in_the_data_of_tests_does_not_cost_the_pass(tmp_path):
    v1_programs.write(tmp_path)
    (tmp_path / "test.list").write_text("missing\n")
    flags = ("--save_dir=output", "--saving_period_by_batches=15", *QUIET)
    code, log = try_to_train(tmp_path, CONFIG, "--num_passes=2", *flags)
    assert code == 1
    assert "No such file or directory: 'missing'" in log
    assert (tmp_path / "output/pass-00000/done").exists()
    code, log = try_to_train(tmp_path, CONFIG, "--test_period=15", *flags)
    assert code == 1
    assert (tmp_path / "output/pass-00000-015/done").exists()
    (tmp_path / "test.list").write_text("tests\n")
    train(tmp_path, "--start_pass=1", "--num_passes=2", *flags)
    assert (tmp_path / "output/pass-00001/done").exists()


def test_passes_that_are_not_saved_yet_are_waited_for(trained):
    later = trained / "output/pass-00001"
    later.rename(trained / "later")
    flags = ("--job=test", "--test_pass=0", "--test_wait", "--num_passes=2", "--save_dir=output")
    tester = subprocess.Popen(
        [processes.PADDLE, "train", CONFIG, *flags],
        cwd=trained,
        stderr=subprocess.PIPE,
        text=True,
    )
    log = []
    limit = threading.Timer(processes.DEADLINE_SECONDS, tester.kill)
    limit.daemon = True
    limit.start()
    with tester:
        for line in tester.stderr:
            log.append(line)
            if "waiting for output/pass-00001, for up to 24 hours" in line:
                (trained / "later").rename(later)
    limit.cancel()
    assert tester.returncode == 0
    tested = re.findall(r" Pass=(\d) samples=60 AvgCost=", "".join(log))
    assert tested == ["0", "1"]
    assert not (trained / "later").exists()


def test_samples_that_are_left_out_are_counted(tmp_path):
    v1_programs.write(tmp_path, "check=True, check_fail_continue=True")
    change(tmp_path, "int(label)", 'int(label) if file_name != "part-0" else 9', "dataprovider.py")
    log = train(tmp_path, CONFIG, "--num_passes=2", *QUIET)
    assert log.count("] a sample is left out: the value for 'label' is not as its type") == 20
    told = re.findall(r"\] (\d+ of \d+ samples of pass \d) were left out: .*\(at: (.*):11\)", log)
    assert told == [(f"60 of 120 samples of pass {number}", "dataprovider.py") for number in "01"]


PREDICTED = "inputs(x, word, label)\noutputs(maxid_layer(predict), predict)"


def test_outputs_are_written_a_row_a_line(trained):
    cost = "outputs(classification_cost(input=predict, label=label))"
    change(trained, cost, PREDICTED)
    one = ("--job=test", "--init_model_path=output/pass-00000", "--predict_output_dir=first")
    both = ("--job=test", "--save_dir=output", "--test_pass=0", "--predict_output_dir=both")
    train(trained, CONFIG, *one)
    train(trained, CONFIG, *both)
    assert [path.name for path in (trained / "both").iterdir()] == ["rank-00000"]
    first, lines = (
        (trained / name / "rank-00000").read_text().splitlines() for name in ("first", "both")
    )
    assert lines[:60] == first
    assert len(lines) == 120
    assert lines[60:] != first
    for line in lines:
        best, chances, rest = line.split(";")
        numbers = [float(each) for each in chances.split()]
        assert numbers.index(max(numbers)) == int(best)
        assert abs(sum(numbers) - 1) < 1e-4
        assert rest == ""
    change(trained, PREDICTED, "inputs(x, word, label)\noutputs(predict, emb)")
    code, log = try_to_train(trained, CONFIG, *one[:2], "--predict_output_dir=wrong")
    assert code == 1
    assert "the outputs have different numbers of rows" in log
    assert list((trained / "wrong").iterdir()) == []


def test_a_configuration_imports_what_is_beside_it(tmp_path):
    v1_programs.write(tmp_path)
    folder = tmp_path / "conf"
    (folder / "parts").mkdir(parents=True)
    (tmp_path / "trainer_config.py").rename(folder / "trainer_config.py")
    change(
        tmp_path,
        "x = data_layer",
        "Import('parts/sizes.py')\nx = data_layer",
        "conf/trainer_config.py",
    )
    change(tmp_path, "size=8,", "size=hidden_size,", "conf/trainer_config.py")
    (folder / "parts/sizes.py").write_text("Import('more.py')\n")
    (folder / "parts/more.py").write_text("hidden_size = 8\n")
    # No saved pass, though it has a file of that name.
    (folder / "path.txt").write_text("trainer_config.py\n")
    (folder / "sizes.py").write_text("hidden_size = 9\n")
    train(
        tmp_path, "--config=conf/trainer_config.py", "--num_passes=1", "--save_dir=output", *QUIET
    )
    saved = {path.name for path in (tmp_path / "output/pass-00000").iterdir()}
    assert {"trainer_config.py", "sizes.py", "more.py"} <= saved
    # What was saved is what counts.
    (folder / "parts/sizes.py").write_text("hidden_size = 9\n")
    train(tmp_path, "--start_pass=1", "--num_passes=2", "--save_dir=output", *QUIET)


def test_configurations_of_one_name_are_refused_before_the_training(tmp_path):
    v1_programs.write(tmp_path)
    (tmp_path / "base").mkdir()
    change(tmp_path, "x = data_layer", "Import('base/trainer_config.py')\nx = data_layer")
    (tmp_path / "base/trainer_config.py").write_text("hidden_size = 8\n")
    code, log = try_to_train(tmp_path, CONFIG, "--num_passes=1")
    assert code == 2
    assert "trainer_config.py and base/trainer_config.py cannot both be saved" in log
    train(tmp_path, CONFIG, "--num_passes=1", "--saving_period=0")


def test_tools_give_a_configuration_the_arguments_that_are_always_there(tmp_path):
    v1_programs.write(tmp_path)
    given = 'list("abc")[get_config_arg("trainer_id", int) + get_config_arg("use_gpu", int)]'
    change(tmp_path, "outputs(", f'{given} and get_config_arg("local", str).strip()\noutputs(')
    shown = processes.run(tmp_path, processes.PADDLE, "dump_config", "trainer_config.py")
    assert 'input_layer_names: "word"' in shown


def test_arguments_that_no_hook_takes_are_told(tmp_path):
    v1_programs.write(tmp_path)
    change(tmp_path, 'obj="process"', 'obj="process", args={"a": 1}')
    log = train(tmp_path, CONFIG, "--num_passes=1", *QUIET)
    assert "dataprovider.process has no init_hook, which the args of define_py_data" in log


DOT = """\
#!/bin/sh
# dot -T<form> -o <file>
test "$3" != refused.png || { echo "cannot draw" >&2; exit 1; }
{ echo "$1"; cat; } > "$3"
"""
# As much of matplotlib as is used, and what it is told.
PYPLOT = """\
told = []


def plot(x, y, label, marker):
    told.append(f"{label}: {x} {y}")


def xlabel(text):
    told.append(text)


def legend():
    told.append("legend")


def savefig(path):
    with open(path, "w") as file:
        file.write("\\n".join(told))
"""


def test_a_network_is_drawn_by_graphviz(tmp_path):
    v1_programs.write(tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "dot").write_text(DOT)
    (tools / "dot").chmod(0o755)
    draw = (processes.PADDLE, "make_diagram", "trainer_config.py")
    path = f"{tools}:{processes.PATH}"
    processes.run(tmp_path, *draw, "net.dot")
    for form in ("svg", "png", "pdf"):
        processes.run(tmp_path, *draw, f"net.{form}", PATH=path)
        drawn = (tmp_path / f"net.{form}").read_text()
        assert drawn == f"-T{form}\n" + (tmp_path / "net.dot").read_text()
    for output, search, told in (
        ("refused.png", path, "dot failed: cannot draw"),
        ("net2.png", str(tmp_path), "a .png file needs Graphviz, whose command `dot` is not"),
    ):
        ended = subprocess.run(
            [*draw, output],
            cwd=tmp_path,
            env={**os.environ, "PATH": search},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 1
        assert f"\npaddle make_diagram: {told}" in ended.stderr
        assert not (tmp_path / output).exists()


def test_curves_are_drawn_by_matplotlib(tmp_path):
    stand_in = tmp_path / "modules/matplotlib"
    stand_in.mkdir(parents=True)
    (stand_in / "__init__.py").write_text('def use(backend):\n    assert backend == "Agg"\n')
    (stand_in / "pyplot.py").write_text(PYPLOT)
    lines = [f"I ]  Pass={number} Batch=5 samples=40 AvgCost={2 - number}" for number in (0, 1)]
    (tmp_path / "log").write_text("\n".join(lines))
    draw = (processes.PADDLE, "plotcurve", "-i", "log", "-o", "curve.png")
    processes.run(tmp_path, *draw, PYTHONPATH=str(stand_in.parent))
    drawn = (tmp_path / "curve.png").read_text().splitlines()
    assert drawn == ["AvgCost: [0, 1] [2.0, 1.0]", "pass", "legend"]


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("make_diagram trainer_config.py no/net.dot", 1, "No such file or directory: no/net.dot"),
        ("plotcurve -i log -o no/curve.svg", 1, "No such file or directory: no/curve.svg"),
        ("plotcurve -i log -o curve.gif", 2, "a drawing is an .svg or a .png file, not curve.gif"),
        (
            "merge_model --model_dir output/pass-00001 --config_file trainer_config.py "
            "--model_file no/merged",
            1,
            "No such file or directory: no/merged.partial",
        ),
    ],
)
def test_what_a_tool_cannot_write_is_told_in_one_line(trained, command, code, told):
    (trained / "log").write_text("I ]  Pass=0 Batch=5 samples=40 AvgCost=2 Eval: \n")
    ended = subprocess.run(
        [processes.PADDLE, *command.split()],
        cwd=trained,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in ended.stderr.splitlines() if line.startswith("paddle ")]
    assert (ended.returncode, lines) == (code, [f"paddle {command.split()[0]}: {told}"])
    assert "Traceback" not in ended.stderr
