"""What the authors of wrong V1 programs are told: one line, with the file and the line.

What each prints is compared with `snapshots/v1_mistakes.txt`; run with `UPDATE_SNAPSHOTS=1` to
rewrite that.
"""

import os
import pathlib

import pytest
import v1_programs

SNAPSHOT = pathlib.Path(__file__).parent / "snapshots" / "v1_mistakes.txt"

# Changes of a right program: in which file, what, and to what; and flags of the training.
CONFIG, PROVIDER = "trainer_config.py", "dataprovider.py"
TYPES = "input_types=[dense_vector(4), integer_value_sequence(20), integer_value(3)], "
YIELD = "yield [float(each) for each in x.split()], [int(w) for w in words.split()], int(label)"
SOURCES = 'define_py_data_sources2("train.list", None, module="dataprovider", obj="process")\n'
NAMED = 'param_attr=ParamAttr(name="../w")'
RIGHT = "[dense_vector(4), integer_value_sequence(20), integer_value(3)]"
FEWER = f"{RIGHT}[: 3 if is_train else 2]"
OTHER = RIGHT.replace("dense_vector(4)", "dense_vector(4 if is_train else 5)")


def hooked(line):
    """The decorator, with a hook that does something."""
    hook = f"def hook(settings, is_train, **_):\n    {line}\n\n\n"
    return f"{hook}@provider(init_hook=hook, "


CASES = {
    "a layer that is not there": (CONFIG, "fc_layer(input=hidden", "fully_layer(input=hidden"),
    "an argument that is not there": (CONFIG, "size=3, act=", "sise=3, act="),
    "a size that does not fit the provider": (CONFIG, 'name="x", size=4', 'name="x", size=5'),
    "a size that is none": (CONFIG, "size=8,", "size=-8,"),
    "a label of the wrong size": (CONFIG, 'name="label", size=3', 'name="label", size=4'),
    "fewer ids than the provider gives": (CONFIG, 'name="word", size=20', 'name="word", size=10'),
    "a sequence where none is": (CONFIG, "input=[x, pool", "input=[pooling_layer(input=x), pool"),
    "an optimizer that is none": (CONFIG, "learning_method=AdamOptimizer()", "learning_method=7"),
    "no batch size": (CONFIG, 'batch_size=get_config_arg("batch_size", int, 8),', ""),
    "no outputs": (CONFIG, "outputs(classification_cost", "print(classification_cost"),
    "no cost": (
        CONFIG,
        "outputs(classification_cost",
        "inputs(x, word, label)\noutputs(hidden or classification_cost",
    ),
    "an activation of a network": (CONFIG, "act=SoftmaxActivation()", 'act="softmax"'),
    "a pooling that is none": (CONFIG, "pooling_type=AvgPooling()", 'pooling_type="avg"'),
    "a layer that is not there yet": (CONFIG, "fc_layer(input=hidden", "selective_fc_layer(hidden"),
    "a pooling that is not there yet": (CONFIG, "AvgPooling()", "MaxWithMaskPooling()"),
    "an attribute that is none": (CONFIG, "ParamAttr(sparse_update=True)", "0.1"),
    "an argument of an evaluator": (
        CONFIG,
        "outputs(",
        "classification_error_evaluator(input=predict, labels=label)\noutputs(",
    ),
    "not Python": (CONFIG, "x = data_layer", "x == = data_layer"),
    "Python 2": (CONFIG, "x = data_layer", "print 'x'\nx = data_layer"),
    "an exception": (CONFIG, "x = data_layer", "1 / 0\nx = data_layer"),
    "an end of the program": (CONFIG, "x = data_layer", "import sys; sys.exit(0)\nx = data_layer"),
    "a list of files that is not there": (CONFIG, '"train.list"', '"missing.list"'),
    "a module that is not there": (CONFIG, 'module="dataprovider"', 'module="provider"'),
    "a provider that is not there": (CONFIG, 'obj="process"', 'obj="proces"'),
    "two data layers of one name": (CONFIG, 'name="word"', 'name="x"'),
    "a module that fails": (PROVIDER, "@provider(", "import nothing_of_the_kind\n\n@provider("),
    "a module that ends the program": (PROVIDER, "@provider(", "exit(0)\n\n@provider("),
    "a type that is none": (PROVIDER, "dense_vector(4)", "4"),
    "too few types": (PROVIDER, ", integer_value(3)]", "]"),
    "no types": (PROVIDER, "input_types=", "pool_size=100 if"),
    "a provider without @provider": (PROVIDER, "def process", "def other(): pass\ndef process"),
    "a provider that raises": (PROVIDER, YIELD, "raise KeyError(file_name)"),
    "a provider that exits": (PROVIDER, YIELD, "raise SystemExit(0)"),
    "a file that is not there": (PROVIDER, "open(file_name)", "open(file_name + '.gz')"),
    "a provider that takes no file": (PROVIDER, "(settings, file_name)", "(settings)"),
    "too few values": (PROVIDER, YIELD, "yield [0.0] * 4, [1]"),
    "a value of the wrong type": (PROVIDER, YIELD, "yield [0.0] * 4, [1], 'one'"),
    "a row that is too short": (PROVIDER, YIELD, "yield [0.0] * 3, [1], 1"),
    "an id that is too large": (PROVIDER, YIELD, "yield [0.0] * 4, [20], 1"),
    "a checked value": (PROVIDER, YIELD, "yield [0.0] * 4, [1, 2.5], 1"),
    "no samples at all": (PROVIDER, YIELD, "continue"),
    "a number that is none": (PROVIDER, YIELD, "yield [float('nan')] * 4, [1], 1"),
    "a provider that dies": (PROVIDER, YIELD, "import os; os._exit(3)"),
    "a provider that a signal without a name ends": (
        PROVIDER,
        YIELD,
        "import os; os.kill(os.getpid(), 35)",
    ),
    "a file of the root, from a provider": (PROVIDER, "open(file_name)", 'open("/trainer_id")'),
    "a file of the root, from a module": (
        PROVIDER,
        "@provider(",
        'open("/trainer_count")\n\n\n@provider(',
    ),
    "a name of Python 2": (CONFIG, "x = data_layer", "xrange(3)\nx = data_layer"),
    "a module of Python 2": (PROVIDER, "@provider(", "import cPickle\n\n@provider("),
    "settings twice": (CONFIG, "x = data_layer", "settings(batch_size=4)\nx = data_layer"),
    "outputs twice": (CONFIG, "outputs(", "outputs(hidden)\noutputs("),
    "inputs twice": (CONFIG, "outputs(", "inputs(x)\ninputs(x, word, label)\noutputs("),
    "two sources of data": (CONFIG, "settings(", SOURCES + "settings("),
    "a file that imports itself": (CONFIG, "outputs(", f"Import({CONFIG!r})\noutputs("),
    "a file to import that is not there": (CONFIG, "outputs(", "Import('other.py')\noutputs("),
    "data of low-level configurations": (CONFIG, "settings(", "TrainData(1)\nsettings("),
    "a parameter that cannot be a file": (CONFIG, "size=3, act=", f"size=3, {NAMED}, act="),
    "no data to train with": (CONFIG, '"train.list"', "None"),
    "no data": (CONFIG, SOURCES.replace("None", '"test.list"'), ""),
    "no settings": (CONFIG, "settings(", "dict("),
    "no files to train with": (CONFIG, '"train.list"', "[]"),
    "a hook that takes nothing": (PROVIDER, TYPES, f"{TYPES}init_hook=lambda: 1, "),
    "a hook that is none": (PROVIDER, TYPES, f"{TYPES}init_hook='hook', "),
    "a pool of the wrong size, by a hook": (
        PROVIDER,
        "@provider(",
        hooked("settings.pool_size = -5"),
    ),
    "other values in tests": (PROVIDER, "@provider(", hooked(f"settings.input_types = {OTHER}")),
    "fewer values in tests": (PROVIDER, "@provider(", hooked(f"settings.input_types = {FEWER}")),
    "a pool without room": (PROVIDER, TYPES, f"{TYPES}pool_size=0, "),
    "a weight below 0": (PROVIDER, TYPES, f"{TYPES}calc_batch_size=lambda sample: -1, "),
    "a cache that is none": (PROVIDER, TYPES, f"{TYPES}cache='memory', "),
    "nothing in a sample": (PROVIDER, YIELD, "yield None"),
    "nothing in a row": (PROVIDER, YIELD, "yield [None] * 4, [1], 1"),
    "a label below 0": (PROVIDER, YIELD, "yield [0.0] * 4, [1], -1"),
    "an exception of several lines": (PROVIDER, YIELD, "raise ValueError('one\\ntwo')"),
    "an exception of no type": (PROVIDER, YIELD, "raise BaseException"),
    "a job that is none": (CONFIG, "", "", "--job=tests"),
    "a strategy that is none": (CONFIG, "", "", "--load_missing_parameter_strategy=ran"),
    "a seed that is too large": (CONFIG, "", "", f"--seed={2**64}"),
    "a model that is not there": (CONFIG, "", "", "--init_model_path=nothing"),
    "nothing to test": (CONFIG, "", "", "--job=test", "--test_pass=7"),
    "no models to test": (CONFIG, "", "", "--job=test", "--model_list=/dev/null"),
    "a list of models that is no text": (CONFIG, "", "", "--job=test", "--model_list=/bin/sh"),
    "no models to test at all": (CONFIG, "", "", "--job=test"),
    "no place for outputs": (
        *(CONFIG, "", "", "--job=test", "--model_list=test.list"),
        "--predict_output_dir=test.list",
    ),
}


def outcome(name, folder):
    """The exit code, and what is told of a mistake."""
    file, right, wrong, *flags = CASES[name]
    v1_programs.write(folder, "check=True" if name == "a checked value" else "")
    if name == "no types":
        right, wrong = TYPES, ""
    text = (folder / file).read_text()
    assert right in text, name
    (folder / file).write_text(text.replace(right, wrong))
    code, log = v1_programs.try_to_train(folder, f"--config={CONFIG}", "--num_passes=1", *flags)
    assert "Traceback" not in log, log
    told = [line for line in log.splitlines() if line.startswith("paddle train: ")]
    assert len(told) == 1 and log.endswith(f"{told[0]}\n"), log
    assert not (folder / "output").exists()
    return f"{name}\n  [exit {code}] {told[0].replace(str(folder), '.')}\n"


def snapshot():
    entries = SNAPSHOT.read_text().split("\n\n") if SNAPSHOT.exists() else []
    return {entry.split("\n", 1)[0]: entry.rstrip("\n") + "\n" for entry in entries}


@pytest.mark.skipif("UPDATE_SNAPSHOTS" in os.environ, reason="the snapshot is being written")
@pytest.mark.parametrize("name", CASES)
def test_a_mistake_is_explained(name, tmp_path):
    assert outcome(name, tmp_path) == snapshot().get(name)


def test_the_snapshot_has_every_mistake_and_no_other(tmp_path_factory):
    if "UPDATE_SNAPSHOTS" in os.environ:
        told = [outcome(name, tmp_path_factory.mktemp("wrong")) for name in CASES]
        SNAPSHOT.write_text("\n".join(told))
    assert list(snapshot()) == list(CASES)
