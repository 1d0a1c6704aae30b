"""`paddle train`: V1 programs as users run them."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import processes
import pytest
import v1_programs
from v1_programs import figures, files, train, try_to_train

import paddle.v2 as paddle
from paddle.utils import merge_model
from paddle.v2 import config, naming
from paddle.v2.parameters import Parameters

CONFIG = "--config=trainer_config.py"
QUIET = ("--dot_period=0", "--log_period=0")
NUMBER = r"([-+.\de]+)"


def test_a_log_has_the_lines_of_the_original(tmp_path):
    v1_programs.write(tmp_path)
    log = train(
        tmp_path, CONFIG, "--num_passes=2", "--log_period=5", "--dot_period=2", "--save_dir=output"
    )
    prefix = r"I\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ \w+\.py:\d+\] "
    python = r"\[INFO \d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \w+\.py:\d+\] "
    error = f"classification_error_evaluator={NUMBER} "
    for pattern in (
        rf"^{prefix}commandline: paddle train {CONFIG} ",
        rf"^{python}The input order is \[x, word, label\]$",
        rf"^{python}The output order is \[__cost_0__\]$",
        rf"^{prefix}trainer mode: Normal$",
        rf"^{prefix}loading dataprovider dataprovider::process$",
        rf"^{prefix}Initing parameters\.\.$",
        r"^\.\.$",
        rf"^{prefix} Batch=5 samples=40 AvgCost={NUMBER} CurrentCost={NUMBER} Eval: {error} "
        rf"CurrentEval: {error}$",
        rf"^{prefix} Pass=0 Batch=15 samples=120 AvgCost={NUMBER} Eval: {error}$",
        rf"^{prefix} Test samples=60 cost={NUMBER} Eval: {error}$",
        rf"^{prefix}Saving parameters to output/pass-00001$",
    ):
        assert re.search(pattern, log, re.MULTILINE), (pattern, log)


RANKING = """\
from paddle.trainer_config_helpers import *

define_py_data_sources2("train.list", "train.list", module="dataprovider", obj="process")
settings(batch_size=7, learning_rate=0, learning_method=MomentumOptimizer())
x = data_layer(name="x", size=1)
label = data_layer(name="label", size=3)
query = data_layer(name="query", size=5)
weight = data_layer(name="weight", size=1)
score = fc_layer(
    input=x, size=1, bias_attr=False, act=LinearActivation(), param_attr=ParamAttr(name="one")
)
classes = fc_layer(input=x, size=3, act=SoftmaxActivation())
pnpair_evaluator(input=score, label=label, query_id=query, weight=weight)
pnpair_evaluator(score, label, info=query, name="plain")
precision_recall_evaluator(input=classes, label=label, positive_label=1)
classification_error_evaluator(input=classes, label=label, top_k=2)
outputs(classification_cost(input=classes, label=label))
"""

RANKED = """\
from paddle.trainer.PyDataProvider2 import *


@provider(
    input_types=[dense_vector(1), integer_value(3), integer_value(5), dense_vector(1)],
    should_shuffle=False,
)
def process(settings, file_name):
    with open(file_name) as file:
        for line in file:
            x, label, query, weight = line.split()
            yield [float(x)], int(label), int(query), [float(weight)]
"""


def test_a_ranking_is_judged_by_its_pairs(tmp_path):
    draw = np.random.default_rng(5)
    labels, queries = draw.integers(0, 3, 60), draw.integers(0, 5, 60)
    # Better than chance, with ties; what is fed in order is x, label, query, weight.
    scores = np.round(labels + draw.normal(0, 1.5, 60), 1)
    weights = draw.integers(0, 4, 60)
    rows = zip(scores, labels, queries, weights, strict=True)
    (tmp_path / "rows").write_text("".join(" ".join(map(str, row)) + "\n" for row in rows))
    (tmp_path / "train.list").write_text("rows\n")
    (tmp_path / "trainer_config.py").write_text(
        RANKING.replace("outputs(", "inputs(x, label, query, weight)\noutputs(")
    )
    (tmp_path / "dataprovider.py").write_text(RANKED)
    log = train(tmp_path, CONFIG, "--num_passes=1", "--save_dir=output", *QUIET)
    # The definition, over all pairs; the one weight of the score is drawn, and may be negative.
    one = np.frombuffer((tmp_path / "output/pass-00000/one").read_bytes()[16:], "<f4")[0]
    labelled = np.sign(labels[:, None] - labels[None, :])
    ordered = np.sign(scores[:, None] - scores[None, :]) * np.sign(one)
    is_pair = np.triu(queries[:, None] == queries[None, :], 1)

    def rate(weight):
        pairs = (weight[:, None] + weight[None, :]) / 2 * is_pair
        return np.sum(pairs[ordered * labelled > 0]) / np.sum(pairs[ordered * labelled < 0])

    shown = rf" pos/neg={NUMBER}  pos/neg={NUMBER} positive_label=1 precision={NUMBER} "
    shown += rf"recall={NUMBER} F1-score={NUMBER}  top_2_error={NUMBER} "
    for line in (r"Pass=0 Batch=9 samples=60 AvgCost=\S+", r"Test samples=60 cost=\S+"):
        found = re.search(rf"{line} Eval: .*{shown}", log)
        assert found, log
        expected = [rate(weights), rate(np.ones(60))]
        np.testing.assert_allclose([float(found[1]), float(found[2])], expected, rtol=1e-5)


def test_figures_of_a_period_are_those_of_its_batches(tmp_path):
    v1_programs.write(tmp_path)
    log = train(tmp_path, CONFIG, "--num_passes=1", "--log_period=1", "--dot_period=0")
    current = figures(log, rf"CurrentCost={NUMBER}")
    average = figures(log, rf"Batch=\d+ samples=\d+ AvgCost={NUMBER} Cur")
    means = np.cumsum(current) / np.arange(1, len(current) + 1)
    np.testing.assert_allclose(average, means, rtol=1e-4)
    longer = train(tmp_path, CONFIG, "--num_passes=1", "--log_period=5", "--dot_period=0")
    grouped = np.mean(np.reshape(current, (3, 5)), axis=1)
    np.testing.assert_allclose(figures(longer, rf"CurrentCost={NUMBER}"), grouped, rtol=1e-4)


def test_a_pass_directory_has_what_the_original_has(tmp_path):
    v1_programs.write(tmp_path)
    train(tmp_path, CONFIG, "--num_passes=1", "--save_dir=output", *QUIET)
    saved = files(tmp_path / "output/pass-00000")
    assert saved["path.txt"] == b"trainer_config.py\n"
    assert saved["trainer_config.py"] == (tmp_path / "trainer_config.py").read_bytes()
    header = np.frombuffer(saved["___fc_layer_0__.wbias"][:16], dtype="<u4")
    assert header.tolist() == [0, 4, 8, 0]
    assert len(saved["___fc_layer_0__.wbias"]) == 16 + 4 * 8
    assert "done" in saved


@pytest.mark.parametrize(("told", "folder"), [({}, "log"), ({"PADDLE_LOG_DIR": "own"}, "own")])
def test_the_log_goes_to_a_file_and_metrics_beside_it(tmp_path, told, folder):
    v1_programs.write(tmp_path)
    shown = train(
        tmp_path, CONFIG, "--num_passes=2", GLOG_log_dir="log", GLOG_logtostderr="0", **told
    )
    assert shown == ""
    assert "Pass=1 Batch=15" in (tmp_path / "log/paddle_trainer.INFO").read_text()
    lines = (tmp_path / folder / "metrics.jsonl").read_text().splitlines()
    steps = [line for line in map(json.loads, lines) if "batch" in line]
    assert [steps[-1][key] for key in ("step", "pass", "batch")] == [30, 1, 14]


RESUMED = {
    "adam and dropout": ("", {"dropout": 0.3}),
    "momentum, averages and a stream": (
        "min_pool_size=0",
        {
            "method": "MomentumOptimizer(momentum=0.9)",
            "average": "ModelAverage(average_window=0.5)",
            "sparse": False,
        },
    ),
    "rows and a cache": ("cache=CacheType.CACHE_PASS_IN_MEM", {"method": "AdaGradOptimizer()"}),
}


@pytest.mark.parametrize("case", RESUMED)
def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path, case):
    options, choices = RESUMED[case]
    v1_programs.write(tmp_path, options, **choices)
    train(tmp_path, CONFIG, "--num_passes=4", "--save_dir=whole", *QUIET)
    train(tmp_path, CONFIG, "--num_passes=2", "--save_dir=parts", *QUIET)
    # Without --config: the saved pass names its own.
    train(tmp_path, "--start_pass=2", "--num_passes=4", "--save_dir=parts", *QUIET)
    for number in range(4):
        whole = files(tmp_path / f"whole/pass-{number:05}")
        assert whole == files(tmp_path / f"parts/pass-{number:05}"), number


def test_a_training_resumed_through_servers_equals_an_uninterrupted_one(tmp_path):
    v1_programs.write(tmp_path)

    def launch(*flags):
        sizes = ("--pservers", "2", "--trainers", "2")
        command = (processes.PADDLE, "launch", *sizes, *flags, CONFIG, *QUIET)
        return processes.run(tmp_path, *command)

    launch("--num_passes=4", "--save_dir=whole")
    launch("--num_passes=2", "--save_dir=parts", "--checkpoint_dir=ck")
    resumed = ("--start_pass=2", "--num_passes=4", "--save_dir=parts")
    shown = launch("--checkpoint_dir=ck", "--restore", *resumed)
    told = "the servers go on with the values and the optimizer of checkpoint 1, not with parts"
    assert shown.count(told) == 2
    for number in range(4):
        whole = files(tmp_path / f"whole/pass-{number:05}")
        assert whole == files(tmp_path / f"parts/pass-{number:05}"), number
    told = "the optimizer begins anew: the servers have only the values of parts/pass-00001"
    assert told in launch(*resumed)
    assert files(tmp_path / "parts/pass-00003") != whole


def test_threads_share_a_batch(tmp_path):
    v1_programs.write(tmp_path, sparse=False)
    flags = (CONFIG, "--num_passes=3", "--log_period=1", "--dot_period=0")
    costs = {}
    for name, count in (("one", 1), ("three", 3), ("again", 3)):
        # Small batches are not shared.
        threads = ("--config_args=batch_size=60", f"--trainer_count={count}")
        log = train(tmp_path, *flags, *threads, f"--save_dir={name}")
        costs[name] = figures(log, rf"CurrentCost={NUMBER}")
    assert len(costs["one"]) == 6
    # A log shows six digits.
    np.testing.assert_allclose(costs["three"], costs["one"], rtol=1e-5)
    one, three, again = (files(tmp_path / name / "pass-00002") for name in costs)
    assert three == again
    # Sums in another order: the threads did share it.
    assert three["___fc_layer_0__.w0"] != one["___fc_layer_0__.w0"]


def test_another_seed_gives_another_model_and_the_same_seed_the_same(tmp_path):
    v1_programs.write(tmp_path)
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        train(tmp_path, CONFIG, "--num_passes=1", f"--seed={seed}", f"--save_dir={name}", *QUIET)
    saved = [files(tmp_path / name / "pass-00000") for name in "abc"]
    assert saved[0] == saved[1]
    assert saved[0] != saved[2]


def test_models_are_saved_and_removed_as_flags_say(tmp_path):
    v1_programs.write(tmp_path)
    flags = ("--num_passes=5", "--saving_period=2", "--save_only_one", "--save_dir=output")
    train(tmp_path, CONFIG, *flags, "--saving_period_by_batches=10", *QUIET)
    names = sorted(path.name for path in (tmp_path / "output").iterdir())
    assert names == ["pass-00000-010", "pass-00001-010", "pass-00002-010", "pass-00003-010",
                     "pass-00004", "pass-00004-010"]  # fmt: skip


def test_missing_parameters_follow_the_strategy(tmp_path):
    v1_programs.write(tmp_path)
    train(tmp_path, CONFIG, "--num_passes=1", "--save_dir=output", *QUIET)
    (tmp_path / "output/pass-00000/___fc_layer_1__.w0").unlink()
    again = [CONFIG, "--num_passes=1", "--init_model_path=output/pass-00000", *QUIET]
    code, log = try_to_train(tmp_path, *again)
    assert code == 1
    assert "___fc_layer_1__.w0" in log
    for strategy in ("rand", "zero"):
        flag = f"--load_missing_parameter_strategy={strategy}"
        train(tmp_path, *again, flag, f"--save_dir={strategy}")
    assert files(tmp_path / "rand/pass-00000") != files(tmp_path / "zero/pass-00000")


def test_saved_passes_are_tested(tmp_path):
    v1_programs.write(tmp_path)
    log = train(tmp_path, CONFIG, "--num_passes=3", "--save_dir=output", *QUIET)
    tested = train(tmp_path, CONFIG, "--job=test", "--test_pass=0", "--save_dir=output")
    costs = figures(log, rf"Test samples=60 cost={NUMBER}")
    assert figures(tested, rf" Pass=\d samples=60 AvgCost={NUMBER}") == costs
    (tmp_path / "models").write_text("output/pass-00002\noutput/pass-00000\n")
    listed = train(tmp_path, CONFIG, "--job=test", "--model_list=models")
    assert figures(listed, rf" AvgCost={NUMBER}") == [costs[2], costs[0]]


def test_a_pass_that_was_saved_in_its_middle_is_tested_by_its_name(tmp_path):
    v1_programs.write(tmp_path)
    train(
        *(tmp_path, CONFIG, "--num_passes=1", "--saving_period_by_batches=10"),
        *("--save_dir=output", *QUIET),
    )
    (tmp_path / "output/pass-00000").rename(tmp_path / "best")
    (tmp_path / "models").write_text("output/pass-00000-010\nbest/\n")
    log = train(tmp_path, CONFIG, "--job=test", "--model_list=models")
    assert re.findall(r" Pass=(\S+) samples=60 AvgCost=", log) == ["0-010", "best"]
    (tmp_path / "log").write_text(log)
    draw = (processes.PADDLE, "plotcurve", "-i", "log")
    assert processes.run(tmp_path, *draw).count("<circle") == 1


def test_tests_happen_as_often_as_asked(tmp_path):
    v1_programs.write(tmp_path)
    log = train(tmp_path, CONFIG, "--num_passes=2", "--test_period=5", *QUIET)
    assert len(figures(log, rf"Test samples=60 cost={NUMBER}")) == 6


def test_gradients_are_checked(tmp_path):
    v1_programs.write(tmp_path)
    log = train(tmp_path, CONFIG, "--job=checkgrad")
    differences = figures(log, rf"diff={NUMBER}$".replace("$", r"\b"))
    assert len(differences) == 6
    assert max(map(abs, differences)) < 0.05
    v1_programs.write(tmp_path, dropout=0.5)
    code, log = try_to_train(tmp_path, CONFIG, "--job=checkgrad")
    assert code == 1
    assert "dropout" in log


def test_batches_are_timed(tmp_path):
    v1_programs.write(tmp_path)
    log = train(tmp_path, CONFIG, "--job=time", "--test_period=30")
    assert re.search(rf"time: batches=30 samples=240 ms_per_batch={NUMBER} ", log)


def test_parameters_are_shown(tmp_path):
    v1_programs.write(tmp_path)
    log = train(tmp_path, CONFIG, "--num_passes=1", "--show_parameter_stats_period=15", *QUIET)
    shown = rf"___fc_layer_0__.w0 +avg_abs_val={NUMBER} max_val={NUMBER} avg_abs_grad={NUMBER} max"
    assert re.search(shown, log)
    assert "_word" not in log
    assert re.search(rf"___embedding_0__.w0 +avg_abs_val={NUMBER}", log)


def describe_in_v2():
    """The network of `v1_programs`, in V2."""
    naming.reset()
    x = paddle.layer.data(name="x", type=paddle.data_type.dense_vector(4))
    word = paddle.layer.data(name="word", type=paddle.data_type.integer_value_sequence(20))
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(3))
    table = paddle.attr.Param(sparse_update=True)
    emb = paddle.layer.embedding(input=word, size=5, param_attr=table)
    mean = paddle.layer.pooling(input=emb, pooling_type=paddle.pooling.Avg())
    hidden = paddle.layer.fc(input=[x, mean], size=8)
    predict = paddle.layer.fc(input=hidden, size=3, act=paddle.activation.Softmax())
    return paddle.layer.classification_cost(input=predict, label=label)


def read_samples(folder):
    for name in ("part-0", "part-1"):
        for line in (folder / name).read_text().splitlines():
            x, words, label = line.split(";")
            yield [*map(float, x.split())], [*map(int, words.split())], int(label)


def train_in_v2(folder, num_passes):
    """The cost of every batch, and the parameters."""
    config._current = config.Settings(show_progress=False)
    cost = describe_in_v2()
    parameters = paddle.parameters.create(cost)
    trainer = paddle.trainer.SGD(
        cost=cost,
        parameters=parameters,
        update_equation=paddle.optimizer.Adam(learning_rate=1e-2),
        is_local=True,
    )
    costs = []

    def keep(event):
        if isinstance(event, paddle.event.EndIteration):
            costs.append(event.cost)

    reader = paddle.batch(lambda: read_samples(folder), 8)
    trainer.train(reader, num_passes=num_passes, event_handler=keep)
    return costs, parameters


def test_the_same_network_in_v1_and_v2_has_the_same_losses(tmp_path):
    v1_programs.write(tmp_path, "should_shuffle=False")
    log = train(
        tmp_path, CONFIG, "--num_passes=2", "--log_period=1", "--dot_period=0", "--save_dir=output"
    )
    costs, parameters = train_in_v2(tmp_path, 2)
    # A log shows six digits.
    np.testing.assert_allclose(figures(log, rf"CurrentCost={NUMBER}"), costs, rtol=1e-5)
    saved = Parameters(paddle.parameters.create(describe_in_v2()).native)
    saved.load_pass(tmp_path / "output/pass-00001")
    for name in parameters:
        assert np.array_equal(saved[name], parameters[name]), name


def test_through_a_server_the_same_is_learnt(tmp_path):
    v1_programs.write(tmp_path)
    train(tmp_path, CONFIG, "--num_passes=2", "--save_dir=here", *QUIET)
    remote = ("--local=0", "--start_pserver=1", "--port=0", "--save_dir=there")
    log = train(tmp_path, CONFIG, "--num_passes=2", *remote, *QUIET)
    assert re.search(r"pserver 0 127.0.0.1:\d+$", log, re.MULTILINE)
    here, there = (files(tmp_path / name / "pass-00001") for name in ("here", "there"))
    # Servers keep the state of the optimizer.
    del here["trainer_state"]
    assert here == there


def test_servers_alone_do_not_make_a_training_remote(tmp_path):
    v1_programs.write(tmp_path)
    log = train(tmp_path, CONFIG, "--num_passes=1", "--pservers=127.0.0.2:9", *QUIET)
    assert "--pservers has no effect: the training has no parameter servers; --local=0 is" in log
    code, log = try_to_train(tmp_path, CONFIG, "--pservers=127.0.0.2:9", "--local=0")
    assert code == 1
    assert "127.0.0.2:9" in log


def test_trainers_of_a_job_are_told_by_the_environment(tmp_path):
    v1_programs.write(tmp_path, "should_shuffle=False")
    (tmp_path / "train.list").write_text("part-0\n")
    command = [
        *("paddle", "launch", "--pservers", "2", "--trainers", "2", "--passes", "2", "--"),
        *("paddle", "train", CONFIG, *QUIET),
    ]
    shown = processes.run(tmp_path, *command)
    first = r"Starting training job:  .*, num_gradient_servers: 2, trainer_id:  [01], version:  v1"
    assert len(re.findall(first, shown)) == 2
    assert "Pass=1 Batch=8" in shown
    assert "all 2 trainers share train.list, so each trains with all its files" in shown
    assert (tmp_path / "output/pass-00001/done").exists()
    command.insert(2, "--master")
    shown = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": processes.PATH},
        check=False,
    )
    assert shown.returncode == 2
    assert "start the job without --master" in shown.stdout


def test_a_merged_model_is_the_saved_one(tmp_path):
    v1_programs.write(tmp_path)
    train(tmp_path, CONFIG, "--num_passes=1", "--save_dir=output", *QUIET)
    processes.run(
        tmp_path,
        *(processes.PADDLE, "merge_model", "--model_dir=output/pass-00000"),
        *("--config_file=trainer_config.py", "--model_file=merged"),
    )
    with open(tmp_path / "merged", "rb") as file:
        topology, parameters = merge_model.load(file)
    assert [layer.name for layer in topology.outputs] == ["__cost_0__"]
    saved = files(tmp_path / "output/pass-00000")
    for name in parameters:
        assert saved[name][16:] == parameters[name].tobytes()
    for damaged in ((tmp_path / "merged").read_bytes()[:-1], b"\xff" * 100, b""):
        (tmp_path / "damaged").write_bytes(damaged)
        with open(tmp_path / "damaged", "rb") as file, pytest.raises(OSError):
            merge_model.load(file)


IMAGE = """\
from paddle.trainer_config_helpers import *

picture = data_layer(name="picture", size=2 * 8 * 8)
filters = get_config_arg("filters", int, 4)
outputs(img_conv_layer(input=picture, filter_size=3, num_filters=filters, num_channels=2))
"""


def test_a_configuration_is_dumped_and_drawn(tmp_path):
    v1_programs.write(tmp_path)
    paddle_command = processes.PADDLE
    text = processes.run(tmp_path, paddle_command, "dump_config", "trainer_config.py")
    assert 'input_layer_names: "word"' in text
    whole = processes.run(tmp_path, paddle_command, "dump_config", "trainer_config.py", "--whole")
    assert 'learning_method: "adam"' in whole
    # Without its data the types of its inputs are guessed.
    (tmp_path / "train.list").unlink()
    guessed = subprocess.run(
        [paddle_command, "dump_config", "trainer_config.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert guessed.stdout == text
    (warning,) = guessed.stderr.splitlines()
    assert warning.endswith(
        "] the types of the inputs are guessed, as the data provider cannot be asked: cannot read "
        "the list of files 'train.list': No such file or directory (at: trainer_config.py:3)"
    )
    (tmp_path / "image.py").write_text(IMAGE)
    image = processes.run(tmp_path, paddle_command, "dump_config", "image.py", "filters=5")
    assert "num_filters: 5" in image
    assert re.search(r"conv_conf \{\n +filter_size: 3\n +channels: 2\n", image)
    processes.run(tmp_path, paddle_command, "make_diagram", "trainer_config.py", "net.dot")
    assert '"label" -> "__cost_0__";' in (tmp_path / "net.dot").read_text()


def test_a_log_is_drawn(tmp_path):
    v1_programs.write(tmp_path)
    (tmp_path / "log").write_text(train(tmp_path, CONFIG, "--num_passes=3", *QUIET))
    keys = ("AvgCost", "classification_error_evaluator")
    processes.run(tmp_path, processes.PADDLE, "plotcurve", "-i", "log", "-o", "curve.svg", *keys)
    drawn = (tmp_path / "curve.svg").read_text()
    assert drawn.count("<polyline") == 4
    assert "Test classification_error_evaluator" in drawn


def test_a_configuration_that_is_run_as_a_program_is_trained(tmp_path):
    v1_programs.write(tmp_path)
    command = [sys.executable, "trainer_config.py", "--num_passes=1", "--save_dir=output"]
    processes.run(tmp_path, *command)
    assert (tmp_path / "output/pass-00000/done").exists()
    (tmp_path / "trainer_config.py").write_text(
        "from paddle.trainer_config_helpers import *\n1 / 0"
    )
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert ended.returncode == 1


def test_settings_of_a_configuration_stand_in_for_flags(tmp_path):
    v1_programs.write(tmp_path)
    path = tmp_path / "trainer_config.py"
    text = path.read_text()
    path.write_text(text + 'Settings(save_dir="chosen")\n')
    train(tmp_path, CONFIG, "--num_passes=1", *QUIET)
    path.write_text(text + 'Settings(save_dir="chosen", start_pass=1)\n')
    log = train(tmp_path, CONFIG, "--num_passes=2", *QUIET)
    assert "Loading parameters from chosen/pass-00000" in log
    assert (tmp_path / "chosen/pass-00001/done").exists()
    path.write_text(text + 'Settings(init_model_path="chosen/pass-00001")\n')
    log = train(tmp_path, CONFIG, "--num_passes=1", "--save_dir=other", *QUIET)
    assert "Loading parameters from chosen/pass-00001" in log
    assert (tmp_path / "other/pass-00000/done").exists()
    # Alone it has the defaults of the original's low-level form.
    (start, end) = text.index("settings("), text.index("x = data_layer")
    path.write_text(
        text[:start] + 'Settings(batch_size=8, learning_method="adagrad")\n' + text[end:]
    )
    shown = processes.run(tmp_path, processes.PADDLE, "dump_config", path.name, "--whole")
    assert 'algorithm: "async_sgd"\n  learning_rate: 1.0\n' in shown
    train(tmp_path, CONFIG, "--num_passes=1", "--save_dir=raw", *QUIET)
    for wrong in ("save_dir=3", 'start_pass="1"', "start_pass=-1"):
        path.write_text(text + f"Settings({wrong})\n")
        code, log = try_to_train(tmp_path, CONFIG)
        assert code == 2
        assert f"paddle train: {wrong.split('=')[0]} must be" in log, log


def test_a_wrong_flag_is_no_line_of_the_program(tmp_path):
    v1_programs.write(tmp_path)
    code, log = try_to_train(tmp_path, CONFIG, "--trainer_count=0")
    assert code == 2
    assert log.endswith("paddle train: trainer_count must be 1 to 1024 (trainer_count: 0)\n"), log


def test_what_cannot_be_written_is_found_before_the_training(tmp_path):
    v1_programs.write(tmp_path)
    (tmp_path / "file").write_text("")
    code, log = try_to_train(tmp_path, CONFIG, "--save_dir=file/model")
    assert code == 2
    assert "models cannot be saved: Not a directory (save_dir: file/model)" in log
    assert "Batch=" not in log
    train(tmp_path, CONFIG, "--save_dir=file/model", "--saving_period=0", "--num_passes=1")
    code, log = try_to_train(tmp_path, CONFIG, GLOG_log_dir="file/log")
    assert code == 1
    assert log == (
        "paddle train: the log cannot be written: Not a directory (GLOG_log_dir: file/log)\n"
    )


def test_a_provider_that_hangs_ends_the_training(tmp_path):
    v1_programs.write(tmp_path, options="min_pool_size=0, should_shuffle=False")
    path = tmp_path / "dataprovider.py"
    hang = 'if file_name == "part-1":\n        import signal; signal.pause()\n    with open'
    path.write_text(path.read_text().replace("with open", hang, 1))
    code, log = try_to_train(tmp_path, CONFIG, "--provider_timeout=1", "--log_period=1")
    assert code == 1
    assert "Batch=7 " in log
    assert re.search(r"dataprovider.process gave no sample for \d+ seconds \(file: part-1\)", log)


POOL = "import multiprocessing\n    pool = multiprocessing.Pool(2)\n    "


def test_nothing_of_a_provider_is_left(tmp_path):
    """It may start processes, and forget them."""
    v1_programs.write(tmp_path)
    path = tmp_path / "dataprovider.py"
    text = path.read_text().replace("with open", POOL + "with open", 1)
    path.write_text(text.replace("in file:", "in pool.imap(str, file):"))
    config = tmp_path / "trainer_config.py"
    log = train(tmp_path, f"--config={config}", "--num_passes=1")
    assert "Pass=0 Batch=15" in log
    assert processes_with(str(config)) == []


def test_a_provider_ends_with_a_trainer_that_is_killed(tmp_path):
    v1_programs.write(tmp_path)
    path = tmp_path / "dataprovider.py"
    mark = POOL + 'open("reached", "w").close(); import signal; signal.pause()\n    with open'
    path.write_text(path.read_text().replace("with open", mark, 1))
    config = str(tmp_path / "trainer_config.py")
    trainer = subprocess.Popen(
        [processes.PADDLE, "train", f"--config={config}"], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
    wait_until((tmp_path / "reached").exists)
    trainer.kill()
    trainer.wait()
    wait_until(lambda: processes_with(config) == [])


def test_a_server_ends_with_a_trainer_that_is_killed(tmp_path):
    v1_programs.write(tmp_path)
    path = tmp_path / "dataprovider.py"
    mark = 'open("reached", "w").close(); import signal; signal.pause()\n    with open'
    path.write_text(path.read_text().replace("with open", mark, 1))
    trainer = subprocess.Popen(
        [processes.PADDLE, "train", CONFIG, "--local=0", "--start_pserver", "--port=0"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until((tmp_path / "reached").exists)
    trainer.kill()
    # Read to its end, which is that of the server too.
    log = trainer.communicate(timeout=processes.DEADLINE_SECONDS)[1]
    assert "started a parameter server at port" in log
    # It did not have to find out by itself, after a minute.
    assert "heard of" not in log


def test_a_pass_is_saved_whole_or_not_at_all(tmp_path):
    """Killed while it saves, a training leaves passes from which it goes on."""
    v1_programs.write(tmp_path)
    train(tmp_path, CONFIG, "--num_passes=3", "--save_dir=whole", *QUIET)
    flags = [CONFIG, "--save_dir=parts", "--saving_period_by_batches=1", *QUIET]
    trainer = subprocess.Popen(
        [processes.PADDLE, "train", *flags], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    for line in trainer.stderr:
        if line.endswith("pass-00001-004\n"):
            break
    trainer.kill()
    trainer.communicate()
    saved = [path for path in (tmp_path / "parts").iterdir() if path.name.startswith("pass-")]
    assert len(saved) >= 15 + 1 + 3
    assert all((path / "done").exists() for path in saved)
    train(tmp_path, "--start_pass=1", "--num_passes=3", "--save_dir=parts", *QUIET)
    for number in (1, 2):
        whole = files(tmp_path / f"whole/pass-{number:05}")
        assert whole == files(tmp_path / f"parts/pass-{number:05}")


def wait_until(is_so):
    deadline = time.monotonic() + processes.DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)  # polled until the deadline


def processes_with(word):
    """The processes that have a word in their arguments."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found
