"""Habits of the original's demos: programs and scripts that were written for it run as they are."""

import re

import numpy as np
import pytest
import v1_programs
from v1_programs import figures, files, train, try_to_train

CONFIG = "--config=trainer_config.py"
QUIET = ("--dot_period=0", "--log_period=0")
NUMBER = r"([-+.\de]+)"

HEAD = "from paddle.trainer_config_helpers import *\n\n"
PROVIDER_HEAD = "from paddle.trainer.PyDataProvider2 import *\n\n\n"


def write(folder, configuration, provider):
    (folder / "trainer_config.py").write_text(HEAD + configuration)
    (folder / "dataprovider.py").write_text(PROVIDER_HEAD + provider)


def test_scripts_find_the_pass_of_a_test(tmp_path):
    v1_programs.write(tmp_path)
    log = train(tmp_path, CONFIG, "--num_passes=2", "--save_dir=output", *QUIET)
    # What get_best_pass of the demos looks for.
    found = re.findall(r"Test .* cost=[\d.]+ .*\n.*pass-(\d+)", log)
    assert found == ["00000", "00001"]


# The fewest lines of the original's `sequence_nest_rnn.conf`.
NESTED = """\
define_py_data_sources2(["none"], None, module="dataprovider", obj="process")
settings(batch_size=2, learning_rate=0.01)
word = data_layer(name="word", size=10)


def outer_step(x):
    outer = memory(name="outer_state", size=4)

    def inner_step(y):
        inner = memory(name="inner_state", size=4, boot_layer=outer)
        return fc_layer(input=[y, inner], size=4, bias_attr=True, name="inner_state")

    rows = recurrent_group(step=inner_step, name="inner", input=x)
    last_seq(input=rows, name="outer_state")
    return rows


rows = recurrent_group(
    name="outer", step=outer_step, input=SubsequenceInput(embedding_layer(input=word, size=4))
)
predict = fc_layer(input=last_seq(input=rows), size=3, act=SoftmaxActivation())
outputs(classification_cost(input=predict, label=data_layer(name="label", size=3)))
"""

NESTED_PROVIDER = """\
@provider(input_types=[integer_value_sub_sequence(10), integer_value(3)], should_shuffle=False)
def process(settings, file_name):
    yield [[[1, 3, 2], [4, 5, 2]], 0]
    yield [[[0, 2], [2, 5], [0, 1, 2]], 1]
"""


def test_a_group_in_a_group_goes_along_what_the_outer_one_sees(tmp_path):
    write(tmp_path, NESTED, NESTED_PROVIDER)
    log = train(tmp_path, CONFIG, "--num_passes=1", *QUIET)
    assert "The input order is [word, label]" in log
    assert " Pass=0 Batch=1 samples=2 " in log


# A step that needs its second input first: the original goes from the outputs to the data.
TURNED = """\
define_py_data_sources2(["none"], None, module="dataprovider", obj="process")
settings(batch_size=2, learning_rate=0.01)
first = data_layer(name="first", size=2)
second = data_layer(name="second", size=3)
start = data_layer(name="start", size=4)
whole = data_layer(name="whole", size=5)


def step(one, two, all):
    state = memory(name="state", size=4, boot_layer=start)
    return fc_layer(input=[two, state, one, all], size=4, name="state")


rows = recurrent_group(step=step, input=[first, second, StaticInput(whole)])
outputs(sum_cost(last_seq(rows)))
"""

TURNED_PROVIDER = """\
@provider(
    input_types=[dense_vector_sequence(3), dense_vector(4), dense_vector_sequence(2),
                 dense_vector(5)],
)
def process(settings, file_name):
    yield [[1.0] * 3] * 2, [1.0] * 4, [[1.0] * 2] * 2, [1.0] * 5
"""


def test_the_order_of_the_inputs_of_a_group_is_that_in_which_its_step_needs_them(tmp_path):
    write(tmp_path, TURNED, TURNED_PROVIDER)
    log = train(tmp_path, CONFIG, "--num_passes=1", *QUIET)
    assert "The input order is [second, start, first, whole]" in log


@pytest.mark.parametrize(
    ("layer", "order"),
    [
        ("scaling_layer(input=first, weight=weight)", "weight, first"),
        ("interpolation_layer(input=[first, second], weight=weight)", "weight, first, second"),
        ("power_layer(input=first, weight=weight)", "first, weight"),
    ],
)
def test_a_weight_is_an_input_where_the_original_counts_it(tmp_path, layer, order):
    sizes = {"first": 2, "second": 2, "weight": 1}
    layers = "".join(f"{name} = data_layer({name!r}, {size})\n" for name, size in sizes.items())
    types = ", ".join(f"dense_vector({sizes[name]})" for name in order.split(", "))
    values = ", ".join(f"[0.5] * {sizes[name]}" for name in order.split(", "))
    write(
        tmp_path,
        'define_py_data_sources2(["none"], None, module="dataprovider", obj="process")\n'
        f"settings(batch_size=2, learning_rate=0.1)\n{layers}outputs(sum_cost({layer}))\n",
        f"@provider(input_types=[{types}])\n"
        f"def process(settings, file_name):\n    yield {values}\n",
    )
    log = train(tmp_path, CONFIG, "--num_passes=1", *QUIET)
    assert f"The input order is [{order}]" in log


INTRODUCTION = """\
data_file = "empty.list"
with open(data_file, "w") as f:
    f.writelines(" ")
define_py_data_sources2(
    train_list=data_file, test_list=None, module="dataprovider", obj="process", args={}
)
settings(batch_size=12, learning_rate=1e-3, learning_method=MomentumOptimizer())
x = data_layer(name="x", size=1)
y = data_layer(name="y", size=1)
predict = fc_layer(input=x, size=1, act=LinearActivation())
outputs(regression_cost(input=predict, label=y))
"""

MADE_UP = """\
@provider(input_types={"x": dense_vector(1), "y": dense_vector(1)}, use_seq=False)
def process(settings, input_file):
    for place in range(24):
        yield {"x": [place / 24], "y": [2 * place / 24 + 0.3]}
"""


def test_a_provider_that_reads_no_files_has_a_list_of_a_blank(tmp_path):
    write(tmp_path, INTRODUCTION, MADE_UP)
    log = train(tmp_path, CONFIG, "--num_passes=1", *QUIET)
    assert " Pass=0 Batch=2 samples=24 " in log
    assert "init_hook" not in log


def test_a_table_that_was_learnt_elsewhere_is_taken_from_a_folder(tmp_path):
    v1_programs.write(tmp_path)
    train(tmp_path, CONFIG, "--num_passes=1", "--save_dir=output", *QUIET)
    (tmp_path / "data").mkdir()
    table = "___embedding_0__.w0"
    content = files(tmp_path / "output/pass-00000")[table]
    values = np.full((len(content) - 16) // 4, 0.25, np.float32)
    (tmp_path / "data" / table).write_bytes(content[:16] + values.tobytes())
    flags = [CONFIG, "--num_passes=1", "--config_args=batch_size=1000", *QUIET]
    given = ["--init_model_path=data", "--load_missing_parameter_strategy=rand"]
    plain = figures(train(tmp_path, *flags, "--save_dir=one"), rf" AvgCost={NUMBER}")
    log = train(tmp_path, *flags, *given, "--save_dir=two")
    assert "data is no saved pass" in log
    assert figures(log, rf" AvgCost={NUMBER}") != plain
    rand = given[1]
    for wrong, told in (
        (["--init_model_path=data"], "it has no file `done` (directory: data)"),
        (["--init_model_path=nothing", rand], "there is no such saved pass (directory: nothing)"),
        (["--start_pass=4", rand], "which is not there or was not saved to its end"),
    ):
        code, log = try_to_train(tmp_path, *flags, "--save_dir=three", *wrong)
        assert code == 1, log
        assert told in log


SPARSE = """\
define_py_data_sources2(["none"], None, module="dataprovider", obj="process")
settings(batch_size=4, learning_rate=0.1, learning_method=AdaGradOptimizer())
words = data_layer(name="words", size=9)
label = data_layer(name="label", size=3)
attr = ParamAttr(name="w", initial_std=0.0, sparse_update=get_config_arg("sparse", bool, False))
if get_config_arg("mixed", bool, False):
    with mixed_layer(size=3, act=SoftmaxActivation()) as predict:
        predict += full_matrix_projection(input=words, param_attr=attr)
else:
    predict = fc_layer(words, 3, act=SoftmaxActivation(), bias_attr=False, param_attr=attr)
outputs(classification_cost(input=predict, label=label))
"""

BAGS = """\
@provider(input_types=[sparse_float_vector(9), integer_value(3)], should_shuffle=False)
def process(settings, file_name):
    for place in range(12):
        yield [(place % 9, 0.5), (place % 4, 1.5)], place % 3
"""


@pytest.mark.parametrize("sparse", [0, 1])
def test_a_mixed_layer_multiplies_sparse_rows_as_fc_does(tmp_path, sparse):
    write(tmp_path, SPARSE, BAGS)
    saved = []
    for mixed in (0, 1):
        arguments = f"--config_args=sparse={sparse},mixed={mixed}"
        train(tmp_path, CONFIG, arguments, "--num_passes=3", f"--save_dir=out-{mixed}", *QUIET)
        saved.append(files(tmp_path / f"out-{mixed}/pass-00002")["w"])
    assert saved[0] == saved[1]


# Far from 0 the cost bends away from its tangent within a hundredth of itself.
STEEP = """\
define_py_data_sources2(["none"], None, module="dataprovider", obj="process")
settings(batch_size=4, learning_rate=0.1)
x = data_layer(name="x", size=1)
y = data_layer(name="y", size=1)
weight = ParamAttr(name="w", initial_mean=3.0, initial_std=0.0)
bent = fc_layer(x, 1, act=ExpActivation(), bias_attr=False, param_attr=weight)
far = slope_intercept_layer(input=bent, slope=1e-3, intercept=5.0)
outputs(regression_cost(input=far, label=y))
"""

BENT = """\
@provider(input_types=[dense_vector(1), dense_vector(1)])
def process(settings, file_name):
    yield [1.0], [0.0]
"""


def test_a_right_gradient_is_right_where_the_cost_bends(tmp_path):
    write(tmp_path, STEEP, BENT)
    log = train(tmp_path, CONFIG, "--job=checkgrad")
    differences = figures(log, rf"diff={NUMBER}")
    assert abs(differences[0]) > 0.05 > abs(differences[-1])


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("{0: 0.5, 1: 0.5}, [1]", "expected 2 numbers, got {0: 0.5, 1: 0.5} (dict)"),
        ("{0.5, 1.5}, [1]", "expected 2 numbers"),
        ("[0.5, 0.5], {3: 1}", "expected a sequence (integer sequence of size 9), got {3: 1}"),
    ],
)
def test_what_has_no_order_is_no_row_and_no_sequence(tmp_path, value, told):
    write(
        tmp_path,
        'define_py_data_sources2(["none"], None, module="dataprovider", obj="process")\n'
        "settings(batch_size=4, learning_rate=0.1)\n"
        'x, words = data_layer(name="x", size=2), data_layer(name="words", size=9)\n'
        "bag = pooling_layer(embedding_layer(words, 2))\n"
        "outputs(sum_cost(fc_layer([x, bag], 1)))\n",
        "@provider(input_types=[dense_vector(2), integer_value_sequence(9)])\n"
        f"def process(settings, file_name):\n    yield {value}\n",
    )
    code, log = try_to_train(tmp_path, CONFIG, "--num_passes=1")
    assert code == 1
    assert f"{told}" in log and "at: dataprovider.py:6" in log


def test_what_fails_only_the_second_time_is_explained(tmp_path):
    write(tmp_path, "import os\n\nos.mkdir('made')\n" + INTRODUCTION, MADE_UP)
    code, log = try_to_train(tmp_path, CONFIG)
    assert code == 2
    assert "a configuration is executed twice, and this is the second time (at: train" in log


def test_a_label_of_one_id_has_the_classes_of_its_cost(tmp_path):
    write(
        tmp_path,
        'define_py_data_sources2(["none"], None, module="dataprovider", obj="process")\n'
        "settings(batch_size=4, learning_rate=0.1)\n"
        'x, label = data_layer(name="x", size=2), data_layer(name="label", size=1)\n'
        "outputs(classification_cost(fc_layer(x, 3, act=SoftmaxActivation()), label))\n",
        "@provider(input_types=[dense_vector(2), integer_value(1)])\n"
        "def process(settings, file_name):\n"
        "    for label in range(3):\n        yield [0.5, 0.5], label\n",
    )
    log = train(tmp_path, CONFIG, "--num_passes=1", *QUIET)
    assert " Pass=0 Batch=1 samples=3 " in log
    provider = tmp_path / "dataprovider.py"
    provider.write_text(provider.read_text().replace("range(3)", "range(4)"))
    code, log = try_to_train(tmp_path, CONFIG, "--num_passes=1")
    assert code == 1
    assert "expected an id from 0 to 2, got 3" in log
