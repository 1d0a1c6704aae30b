"""The parts of `paddle train` by themselves: flags, pools, samples, pictures, curves."""

import io
import os
import pickle
import random
import re
import types

import numpy as np
import PIL.Image
import pytest

from paddle import _native, errors, trainer_config_helpers
from paddle.trainer.PyDataProvider2 import provider
from paddle.utils import image_util, plotcurve
from paddle.v1 import (
    configuration,
    description,
    figures,
    flags,
    provider_process,
    testing,
    workspace,
)
from paddle.v1.pool import Pool
from paddle.v1.provider import Opened
from paddle.v1.recording import Source
from paddle.v1.sample import Shaper
from paddle.v2 import data_type, evaluator, layer
from paddle.v2.optimizer import merge_settings
from paddle.v2.topology import Topology


def pool(batch_size=4, is_train=True, **options):
    settings = {
        "should_shuffle": None,
        "pool_size": -1,
        "min_pool_size": -1,
        "can_over_batch_size": True,
        "calc_batch_size": None,
    }
    return Pool(types.SimpleNamespace(**{**settings, **options}), batch_size, is_train)


def batches(made, files=("a", "b", "c"), seed=1):
    def read(file):
        return iter([f"{file}{number}" for number in range(7)])

    return list(made.batches(files, read, random.Random(seed)))


EVERY = sorted(f"{file}{number}" for file in "abc" for number in range(7))


@pytest.mark.parametrize(
    "options", [{}, {"min_pool_size": 0}, {"pool_size": 5}, {"pool_size": 5, "min_pool_size": 3}]
)
def test_a_pass_has_every_sample_once_in_an_order_of_the_seed(options):
    first, again = batches(pool(**options)), batches(pool(**options))
    assert first == again
    assert first != batches(pool(**options), seed=2)
    samples = [sample for batch in first for sample in batch]
    assert sorted(samples) == EVERY
    assert samples != EVERY
    assert [len(batch) for batch in first] == [4, 4, 4, 4, 4, 1]


def test_tests_are_in_the_order_of_the_files():
    assert [sample for batch in batches(pool(is_train=False)) for sample in batch] == EVERY


def test_a_small_pool_shuffles_only_what_it_holds():
    samples = [s for batch in batches(pool(pool_size=2), files=("a",)) for s in batch]
    # With two in the pool nothing comes more than one place early.
    assert all(int(sample[1]) <= place + 1 for place, sample in enumerate(samples))


@pytest.mark.parametrize(
    ("options", "first"),
    [({}, 6), ({"min_pool_size": 4}, 4), ({"min_pool_size": 0}, 2), ({"min_pool_size": 9}, 6)],
)
def test_the_first_batch_waits_for_as_much_of_the_pool_as_is_said(options, first):
    made = pool(batch_size=2, pool_size=6, **options)
    drawn = {batches(made, files=("a",), seed=seed)[0][0] for seed in range(200)}
    assert sorted(drawn) == [f"a{number}" for number in range(first)]


def test_samples_count_as_much_as_they_say():
    weigh = {"calc_batch_size": lambda sample: 3 if sample.endswith("0") else 1}
    over = batches(pool(is_train=False, **weigh), files=("a",))
    assert [len(batch) for batch in over] == [2, 4, 1]
    exact = batches(
        pool(is_train=False, batch_size=3, can_over_batch_size=False, **weigh), files=("a",)
    )
    assert [len(batch) for batch in exact] == [1, 3, 3]


@pytest.mark.parametrize("pool_size", [-1, 5])
def test_a_sample_is_weighed_once(pool_size):
    weighed = []
    made = pool(pool_size=pool_size, calc_batch_size=lambda sample: weighed.append(sample) or 1)
    assert [len(batch) for batch in batches(made)] == [4, 4, 4, 4, 4, 1]
    assert sorted(weighed) == EVERY


def test_a_pool_holds_as_much_as_its_samples_count():
    made = pool(batch_size=5, pool_size=10, calc_batch_size=lambda _sample: 5)
    samples = [s for batch in batches(made, files=("a",)) for s in batch]
    # Two fill it, so that nothing comes more than one place early.
    assert sorted(samples) == [f"a{number}" for number in range(7)]
    assert all(int(sample[1]) <= place + 1 for place, sample in enumerate(samples))


def test_flags_are_written_as_in_the_original():
    command = flags.parse(
        ["--config=a.py", "--num_passes", "3", "--nolocal", "--use_gpu", "--test_wait", "1"], {}
    )
    assert (command.config, command.num_passes, command.local) == ("a.py", 3, False)
    assert (command.use_gpu, command.test_wait, command.trainer_count) == (True, True, 1)
    told = flags.parse(["--trainer_id=2"], {"PADDLE_INIT_TRAINER_ID": "1", "PADDLE_INIT_SEED": "9"})
    assert (told.trainer_id, told.seed) == (2, 9)
    assert told.from_environment == {"seed"}
    assert flags.parse(["--help"], {}) is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--confg=a"], "no flag --confg; did you mean 'config'?"),
        (["a.py"], "'a.py' is no flag"),
        (["--num_passes=two"], "--num_passes must be a whole number"),
        (["--num_passes=-1"], "--num_passes must be 0 or more"),
        (["--checkgrad_eps=nan"], "--checkgrad_eps must be a number"),
        (["--local=maybe"], "--local must be 0 or 1"),
        (["--config"], "--config needs a value"),
        (["--beam_size=3"], "--beam_size can only be 1"),
    ],
)
def test_wrong_flags_are_refused_by_name(words, message):
    with pytest.raises(errors.Error, match=message.replace("?", r"\?")):
        flags.parse(words, {})


# Of both tables of the original's flags, and of its documents.
ORIGINAL_FLAGS = """
use_gpu use_mkldnn parallel_nn trainer_count gpu_id port ports_num ports_num_for_sparse nics
rdma_tcp
trainer_id num_gradient_servers comment load_missing_parameter_strategy log_period log_period_server
loadsave_parameters_in_pserver checkgrad_eps enable_parallel_vector beam_size show_layer_stat
predict_file prev_batch_state init_model_path seed thread_local_rand_use_global_seed
data_server_port allow_inefficient_sparse_update memory_threshold_on_load_data log_barrier_abstract
log_barrier_lowest_nodes log_barrier_show_log async_count parameter_block_size
parameter_block_size_for_sparse external
job config config_args local num_passes start_pass save_dir saving_period saving_period_by_batches
save_only_one test_period average_test_period test_pass test_wait model_list predict_output_dir
feat_file with_cost distribute_test test_all_data_in_one_period dot_period
show_parameter_stats_period start_pserver use_old_updater pservers parallel_thread_num log_clipping
log_error_clipping enable_grad_share grad_share_block_num rnn_use_batch
allow_only_one_model_on_one_gpu small_messages sock_send_buf_size sock_recv_buf_size
sock_listen_queue_size
"""


def test_every_flag_of_the_original_is_known():
    assert set(ORIGINAL_FLAGS.split()) - set(flags.FLAGS) == set()


def test_every_flag_is_in_the_help():
    text = flags.help_text()
    for name in flags.FLAGS:
        assert f"--{name}" in text


def shown(kind, figures_of_it, **attributes):
    """What the log shows of an evaluator `own`, and of an ordinary one behind it."""
    known = {
        "own": evaluator.Evaluator("own", kind, (), attributes),
        "error": evaluator.Evaluator("error", "sum", (), {}),
    }
    return figures.evaluators([*figures_of_it.items(), ("error", 12345678.0)], known)


def test_figures_have_six_digits():
    assert shown("auc", {"own": 1 / 3}) == "own=0.333333 error=1.23457e+07 "


def test_evaluators_show_their_figures_as_the_original_does():
    behind = " error=1.23457e+07 "
    of_chunks = {"own.precision": 0.5, "own.recall": 0.25, "own.F1-score": 1 / 3}
    counts = {"own.true_chunks": 4000000.0, "own.result_chunks": 2.0, "own.correct_chunks": 1.0}
    counted = "own=0.333333 true_chunks=4000000 result_chunks=2 correct_chunks=1"
    assert shown("chunk", of_chunks | counts) == counted + behind
    assert shown("classification_error", {"own": 0.5}) == "own=0.5" + behind
    assert shown("classification_error", {"own": 0.5}, top_k=1) == "own=0.5" + behind
    assert shown("classification_error", {"own": 0.5}, top_k=5) == " top_5_error=0.5" + behind
    assert shown("pnpair", {"own": 2.5}) == " pos/neg=2.5" + behind
    assert shown("ctc_error", {"own": 0.5}) == "own error = 0.5" + behind
    of_label = "positive_label=1 precision=0.5 recall=0.25 F1-score=0.333333"
    assert shown("precision_recall", of_chunks, positive_label=1) == of_label + behind
    names = ("precision", "recall", "F1-score")
    means = {f"own.{kind}-average-{name}": 0.5 for kind in ("macro", "micro") for name in names}
    of_all = [f"macro-average-{name}=0.5" for name in names] + ["micro-average-precision=0.5"]
    assert shown("precision_recall", means) == " ".join(of_all) + behind


def test_samples_come_in_the_order_of_the_inputs():
    kinds = [data_type.dense_vector(2), data_type.integer_value(5)]
    by_name = Shaper(["x", "y"], kinds, is_dict=True)
    x, y = by_name.shape({"y": 3, "x": [1, 2], "more": 0})
    assert (x.tolist(), y) == ([1.0, 2.0], 3)
    single = Shaper(["y"], kinds[1:], is_dict=False)
    assert single.shape(3) == single.shape((3,)) == (3,)
    sequence = Shaper(["s"], [data_type.integer_value_sequence(5)], is_dict=False)
    assert sequence.shape([3]) == ([3],)
    assert sequence.shape(([3],)) == ([3],)
    for wrong in ((1,), (1, 2, 3), 7):
        with pytest.raises(errors.InvalidError, match=r"must yield 2 values \(x, y\)"):
            Shaper(["x", "y"], kinds, is_dict=False).shape(wrong)


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (data_type.integer_value(5), 4, 5),
        (data_type.integer_value_sequence(5), [0, 4], [0, 2.5]),
        (data_type.dense_vector(2), [1.0, 2.0], [1.0]),
        (data_type.sparse_binary_vector(5), [1, 3], [5]),
        (data_type.sparse_float_vector(5), [(1, 0.5)], [(1,)]),
        (data_type.sparse_binary_vector_sequence(5), [[1], []], [[-1]]),
    ],
)
def test_a_check_finds_values_of_another_type(kind, right, wrong):
    shaper = Shaper(["it"], [kind], is_dict=True)
    shaper.check(shaper.shape({"it": right}))
    with pytest.raises(errors.InvalidError, match="'it' is not as its type says"):
        shaper.check(shaper.shape({"it": wrong}))


def test_no_id_is_right_where_a_table_is_looked_up():
    for kind, wrong in (
        (data_type.integer_value(5), -2),
        (data_type.integer_value_sequence(5), [-1, -2]),
    ):
        shaper = Shaper(["it"], [kind], is_dict=True)
        shaper.check(shaper.shape({"it": -1 if kind.seq_type == 0 else [2, -1]}))
        with pytest.raises(errors.InvalidError, match="-2 is not an id below 5"):
            shaper.check(shaper.shape({"it": wrong}))


DEFAULTS = """\
from paddle.trainer_config_helpers import *

{default}
settings(batch_size=4, learning_rate=0.1, learning_method=MomentumOptimizer({momentum}){own})
x = data_layer(name="x", size=4)
y = data_layer(name="y", size=3)
outputs(square_error_cost(input=fc_layer(input=x, size=3, param_attr={weight}), label=y))
"""


def described(folder, default="", momentum="", own="", weight="None"):
    """The optimizer and the parameters of a configuration."""
    path = folder / "trainer_config.py"
    path.write_text(DEFAULTS.format(default=default, momentum=momentum, own=own, weight=weight))
    types = {"x": data_type.dense_vector(4), "y": data_type.dense_vector(3)}
    found = configuration.read(str(path), {}, lambda _recording, _order: types)
    topology = Topology(found.outputs)
    parameters = [
        (each["initializer"], merge_settings(each["attr"], found.optimizer))
        for each in topology.descriptions()
    ]
    return found.optimizer.to_json(), parameters


SMALL = "default_initial_std(0.3)"


@pytest.mark.parametrize(
    ("default", "explicit"),
    [
        ("default_momentum(0.9)", {"momentum": "momentum=0.9"}),
        ("default_decay_rate(0.1)", {"own": ", regularization=L2Regularization(0.1)"}),
        (
            "default_gradient_clipping_threshold(5.0)",
            {"own": ", gradient_clipping_threshold=5.0"},
        ),
        (SMALL, {"weight": "ParamAttr(initial_mean=0.0, initial_std=0.3)"}),
        (
            "default_initial_mean(0.2)",
            {"weight": "ParamAttr(initial_mean=0.2, initial_std=0.01)"},
        ),
        (
            f"{SMALL}; default_initial_strategy(1)",
            {"weight": "ParamAttr(initial_min=-0.3, initial_max=0.3)"},
        ),
        (f"{SMALL}; default_initial_smart(True)", {}),
        ("default_num_batches_regularization(1)", {}),
    ],
)
def test_a_default_is_what_would_have_been_said(tmp_path, default, explicit):
    expected = described(tmp_path, **explicit)
    assert described(tmp_path, default) == expected
    assert (described(tmp_path) == expected) == (explicit == {})


WHOLE = """\
from paddle.trainer_config_helpers import *

define_py_data_sources2("train.list", [1], "module", ["train", "test"], args=[{{"a": 1}}, "b"])
{settings}
x = data_layer(name="x", size=4)
outputs(fc_layer(input=x, size=3, param_attr=ParamAttr(l2_rate=0.5, momentum=0.7)))
"""
AVERAGE = "ModelAverage(average_window=0.5, max_average_window=10)"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            "settings(batch_size=4, learning_method=AdamOptimizer(0.8, 0.9, 1e-4), is_async=True)",
            {"learning_method": "adam", "adam_beta1": 0.8, "adam_beta2": 0.9, "adam_epsilon": 1e-4,
             "algorithm": "async_sgd", "learning_rate_schedule": "poly"},
        ),
        (
            "settings(batch_size=4, learning_method=RMSPropOptimizer(0.8, 1e-3), "
            f"learning_rate_schedule='manual', learning_rate_args='10:1', model_average={AVERAGE})",
            {"learning_method": "rmsprop", "ada_rou": 0.8, "ada_epsilon": 1e-3,
             "learning_rate_schedule": "manual", "learning_rate_args": "10:1",
             "average_window": 0.5, "max_average_window": 10},
        ),
        (
            "Settings(batch_size=4, async_lagged_grad_discard_ratio=2.5)",
            {"learning_method": "momentum", "async_lagged_grad_discard_ratio": 2.5,
             "learning_rate_schedule": "poly", "adam_beta1": None},
        ),
        (
            "settings(batch_size=4, learning_rate_schedule='constant', learning_rate=0.5)",
            {"learning_rate_schedule": "constant", "learning_rate": 0.5, "average_window": None},
        ),
    ],
)  # fmt: skip
def test_how_a_configuration_trains_is_dumped(tmp_path, settings, expected):
    found = dumped(tmp_path, settings).opt_config
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.batch_size == 4


def test_what_settings_say_of_all_parameters_is_dumped_with_each(tmp_path):
    settings = (
        "settings(batch_size=4, learning_method=MomentumOptimizer(0.9), "
        "regularization=[L1Regularization(0.1), L2Regularization(0.2)], "
        "gradient_clipping_threshold=3)"
    )
    found = [
        (each.momentum, each.decay_rate, each.decay_rate_l1, each.gradient_clipping_threshold)
        for each in dumped(tmp_path, settings).model_config.parameters
    ]
    assert found == [(0.7, 0.5, 0.1, 3.0), (0.9, 0.2, 0.1, 3.0)]


def test_the_data_and_the_flags_of_a_configuration_are_dumped(tmp_path):
    settings = "Settings(batch_size=4, save_dir='chosen', start_pass=3)"
    whole = dumped(tmp_path, settings)
    assert (whole.save_dir, whole.init_model_path, whole.start_pass) == ("chosen", None, 3)
    train, test = whole.data_config, whole.test_data_config
    assert (train.type, train.files, train.load_data_module) == ("py2", "train.list", "module")
    assert (test.files, test.load_data_object, test.for_test) == ("test.list", "test", True)
    assert pickle.loads(train.load_data_args.encode("latin-1")) == {"a": 1}
    assert test.load_data_args == "b"


def dumped(folder, settings):
    """The TrainerConfig of a configuration."""
    path = folder / "trainer_config.py"
    path.write_text(WHOLE.format(settings=settings))
    types = {"x": data_type.dense_vector(4)}
    found = configuration.read(str(path), {}, lambda _recording, _order: types)
    return description.whole(found, Topology(found.outputs))


def test_defaults_that_cannot_be_are_refused(tmp_path):
    for default, message in (
        ("default_num_batches_regularization(2)", "num_batches_regularization must be 1"),
        ("default_initial_strategy(2)", "initial_strategy must be 0"),
        ("default_momentum('much')", "momentum must be a number"),
    ):
        with pytest.raises(errors.Error, match=message):
            described(tmp_path, default)


def test_a_pass_that_does_not_come_ends_the_wait(tmp_path, monkeypatch):
    monkeypatch.setattr(testing, "WAIT_SECONDS", 0)
    monkeypatch.setattr(testing, "POLL_SECONDS", 0)
    assert not testing._is_there(str(tmp_path), waits=False)
    with pytest.raises(errors.Error, match="was not saved within 0 seconds"):
        testing._is_there(str(tmp_path), waits=True)


def pickled_by_python_2(mean):
    """`{"data_mean": mean}` as Python 2 pickles it, with whole numbers of 32 bits."""
    content = np.asarray(mean, "<i4").tobytes()
    return b"".join((
        b"\x80\x02}(U\x09data_mean",
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01bt",
        b"R(K\x01K" + bytes([len(mean)]) + b"\x85",
        b"cnumpy\ndtype\n(U\x02i4K\x00K\x01tR(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
        b"\x89U" + bytes([len(content)]) + content + b"tbU\nimage_sizeK\x04u.",
    ))  # fmt: skip


def test_a_mean_image_of_the_original_is_read(tmp_path):
    mean = np.arange(3 * 4 * 4, dtype=np.int32)
    by_numpy = {"data_mean": mean.astype(np.float64), "image_size": np.int64(4), "color": True}
    expected = mean.reshape(3, 4, 4)[:, 1:3, 1:3].astype(np.float32)
    for protocol in (2, 4, 5):
        (tmp_path / "meta").write_bytes(pickle.dumps(by_numpy, protocol=protocol))
        np.testing.assert_array_equal(image_util.load_meta(tmp_path / "meta", 4, 2), expected)
    (tmp_path / "meta").write_bytes(pickled_by_python_2(mean))
    found = image_util.load_meta(str(tmp_path / "meta"), 4, 2)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float32


class Evil:
    def __reduce__(self):
        return (os.mkdir, ("reached",))


def test_a_mean_image_runs_no_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for content, told in (
        (pickle.dumps({"data_mean": Evil()}), "posix.mkdir, not only arrays"),
        (pickle.dumps({"mean": 1}), "KeyError"),
        (b"PK no archive", "is no file of a mean image"),
        (b"", "is no file of a mean image"),
    ):
        (tmp_path / "meta").write_bytes(content)
        with pytest.raises(errors.InvalidError, match=told):
            image_util.load_meta("meta", 4, 2)
    assert not (tmp_path / "reached").exists()


def test_pictures_are_decoded_cropped_and_freed_of_their_mean(tmp_path):
    pixels = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(8, 6, 3)
    file = io.BytesIO()
    PIL.Image.fromarray(pixels).save(file, "PNG")
    image = image_util.decode_jpeg(file.getvalue())
    np.testing.assert_array_equal(image, pixels.transpose(2, 0, 1))
    middle = image_util.crop_img(image, 4)
    np.testing.assert_array_equal(middle, image[:, 2:6, 1:5])
    np.testing.assert_array_equal(image_util.flip(middle), middle[:, :, ::-1])
    padded = image_util.crop_img(image, 10)
    assert padded.shape == (3, 10, 10)
    np.testing.assert_array_equal(padded[:, 1:9, 2:8], image)
    np.random.seed(3)
    shapes = {image_util.crop_img(image, 4, test=False).tobytes() for _ in range(40)}
    assert len(shapes) > 10
    mean = np.arange(3 * 6 * 6, dtype=np.float32)
    with open(tmp_path / "meta", "wb") as opened:
        np.savez(opened, data_mean=mean)
    cut = image_util.load_meta(tmp_path / "meta", 6, 4)
    np.testing.assert_array_equal(cut, mean.reshape(3, 6, 6)[:, 1:5, 1:5])
    row = image_util.preprocess_img(image, cut, 4, is_train=False)
    np.testing.assert_array_equal(row, (middle - cut).flatten())
    with pytest.raises(errors.InvalidError, match="another size"):
        image_util.load_meta(tmp_path / "meta", 7, 4)
    with pytest.raises(errors.InvalidError, match="not an image"):
        image_util.decode_jpeg(b"no image")


def test_curves_are_those_of_the_passes():
    log = [
        "I ]  Batch=5 samples=40 AvgCost=9 CurrentCost=9 Eval: error=1  CurrentEval: error=1 ",
        "I ]  Pass=0 Batch=5 samples=40 AvgCost=2 Eval: error=0.5 ",
        "I ]  Test samples=10 cost=3 Eval: error=0.6 ",
        "I ]  Pass=1 Batch=5 samples=40 AvgCost=1 Eval: error=nan ",
    ]
    curves = plotcurve.collect(log, ["AvgCost", "error"])
    assert curves == {
        "AvgCost": [(0, 2.0), (1, 1.0)],
        "error": [(0, 0.5)],
        "Test AvgCost": [(0, 3.0)],
        "Test error": [(0, 0.6)],
    }
    assert sum(line.startswith("<circle") for line in plotcurve.draw(curves)) == 5


ORIGINAL = """
full_matrix_projection AggregateLevel ExpandLevel identity_projection dotmul_projection
dotmul_operator repeat_layer seq_reshape_layer table_projection mixed_layer data_layer
embedding_layer fc_layer grumemory pooling_layer lstmemory last_seq first_seq cos_sim
l2_distance_layer hsigmoid conv_projection square_error_cost regression_cost classification_cost
LayerOutput img_conv_layer img_pool_layer batch_norm_layer img_cmrnorm_layer addto_layer
concat_layer seq_concat_layer lstm_step_layer recurrent_group memory StaticInput expand_layer
scaling_layer scaling_projection power_layer interpolation_layer bilinear_interp_layer trans_layer
rotate_layer sum_to_one_norm_layer row_l2_norm_layer get_output_layer context_projection beam_search
maxid_layer GeneratedInput SubsequenceInput gru_step_layer gru_step_naive_layer recurrent_layer
BaseGeneratedInput conv_operator conv_shift_layer tensor_layer selective_fc_layer sampling_id_layer
slope_intercept_layer trans_full_matrix_projection linear_comb_layer convex_comb_layer ctc_layer
warp_ctc_layer crf_layer crf_decoding_layer nce_layer cross_entropy_with_selfnorm cross_entropy
BeamInput cross_entropy_over_beam multi_binary_label_cross_entropy sum_cost rank_cost lambda_cost
huber_regression_cost huber_classification_cost block_expand_layer maxout_layer dot_prod_layer
out_prod_layer printer_layer print_layer priorbox_layer cross_channel_norm_layer
multibox_loss_layer detection_output_layer roi_pool_layer spp_layer pad_layer eos_layer
smooth_l1_cost multiplex_layer row_conv_layer dropout_layer prelu_layer switch_order_layer
gated_unit_layer crop_layer sub_nested_seq_layer clip_layer slice_projection seq_slice_layer
kmax_seq_score_layer img_pool3d_layer scale_shift_layer img_conv3d_layer resize_layer sub_seq_layer
scale_sub_region_layer factorization_machine
classification_error_evaluator auc_evaluator pnpair_evaluator precision_recall_evaluator
ctc_error_evaluator chunk_evaluator sum_evaluator column_sum_evaluator value_printer_evaluator
gradient_printer_evaluator maxid_printer_evaluator maxframe_printer_evaluator
seqtext_printer_evaluator classification_error_printer_evaluator detection_map_evaluator
sequence_conv_pool simple_lstm simple_img_conv_pool img_conv_bn_pool lstmemory_group lstmemory_unit
small_vgg img_conv_group vgg_16_network gru_unit gru_group simple_gru simple_attention
dot_product_attention multi_head_attention simple_gru2 bidirectional_gru text_conv_pool
bidirectional_lstm inputs outputs
TanhActivation SigmoidActivation SoftmaxActivation IdentityActivation LinearActivation
SequenceSoftmaxActivation ExpActivation ReluActivation BReluActivation SoftReluActivation
STanhActivation AbsActivation SquareActivation BaseActivation LogActivation SqrtActivation
ReciprocalActivation SoftSignActivation
BasePoolingType MaxPooling AvgPooling MaxWithMaskPooling CudnnMaxPooling CudnnAvgPooling
CudnnAvgInclPadPooling SumPooling SquareRootNPooling
HookAttr ParamAttr ExtraAttr ParameterAttribute ExtraLayerAttribute
Optimizer BaseSGDOptimizer MomentumOptimizer AdamaxOptimizer AdamOptimizer AdaGradOptimizer
RMSPropOptimizer DecayedAdaGradOptimizer AdaDeltaOptimizer BaseRegularization L2Regularization
settings ModelAverage define_py_data_sources2 layer_math
"""


def test_a_configuration_finds_the_names_of_the_original():
    names = set(trainer_config_helpers.__all__)
    assert [name for name in ORIGINAL.split() if name not in names] == []
    for name in names:
        assert callable(getattr(trainer_config_helpers, name)) or name == "layer_math", name


def test_a_layer_that_is_not_there_says_what_is_nearest():
    with pytest.raises(errors.UnsupportedError, match="the nearest is"):
        trainer_config_helpers.MaxWithMaskPooling()


def test_a_long_wait_for_a_provider_is_told(monkeypatch):
    told = []
    monkeypatch.setattr(provider_process, "TOLD_SECONDS", 0.0)
    monkeypatch.setattr(provider_process, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(provider_process.log, "warning", told.append)
    go_on, hold = os.pipe()

    @provider(input_types=[data_type.integer_value(10)], min_pool_size=0, should_shuffle=False)
    def slow(_settings, file_name):
        yield 1
        os.read(go_on, 1)
        yield len(file_name)

    settings = slow.make_settings()
    types = [data_type.integer_value(10)]
    source = Source("train.list", "dataprovider", "slow", None, "trainer_config.py:3")
    opened = Opened(slow, settings, ["file"], ["x"], types, False, True, source)
    process = provider_process.ProviderProcess(
        opened, 1, lambda _samples: b"", seed=1, rank=0, silence_seconds=600
    )
    try:
        batches = process.samples(0)
        assert next(batches) == [(1,)]
        monkeypatch.setattr(
            provider_process.log, "warning", lambda text: (told.append(text), os.write(hold, b"x"))
        )
        assert next(batches) == [(4,)]
        assert list(batches) == []
    finally:
        process.close()
    assert re.search(
        r"waiting for the data provider .*\.slow for \d+ seconds.*file: file", told[-1]
    )


@pytest.mark.parametrize(
    ("told", "own"),
    [
        ("", "log/trainer-1"),
        ("/srv/log", "/srv/log/trainer-1"),
        ("log/trainer-1/", "log/trainer-1"),
        ("log/trainer-10", "log/trainer-10/trainer-1"),
    ],
)
def test_a_trainer_has_a_folder_of_its_own_among_the_logs(monkeypatch, told, own):
    monkeypatch.setenv("PADDLE_LOG_DIR", told)
    assert workspace.own_folder(1) == own


def test_batches_travel_as_arrays():
    kinds = {
        "rows": data_type.dense_vector(2),
        "pictures": data_type.dense_array(4),
        "steps": data_type.dense_vector_sequence(1),
        "ids": data_type.sparse_binary_vector(9),
        "weighted": data_type.sparse_float_vector(9),
        "label": data_type.integer_value(3),
    }
    data = [layer.data(name=name, type=kind) for name, kind in kinds.items()]
    topology = Topology(
        layer.concat(input=[layer.fc(input=each, size=1) for each in data[:2]]), data
    )
    network = _native.Network(topology.to_json())
    names = network.inputs()
    places = [[*kinds].index(name) for name in names]
    picture = np.ones((1, 2, 2))
    batch = [([1, 2], picture, [[1], [2]], [3], [(3, 0.5)], 0), ([3, 4], picture, [], [], [], 2)]
    packed = network.feed(batch, places).pack(names)
    received = _native.Batch.unpack(packed)
    assert received.samples == 2
    assert received.pack(names) == packed
    for wrong in (packed[:-1], packed + b"x", b"", b"no batch"):
        with pytest.raises(errors.Error, match="not the bytes of a batch"):
            _native.Batch.unpack(wrong)
    for wrong in ([1.0, float("inf")], [float("nan"), 1.0]):
        samples = [batch[0], (wrong, *batch[1][1:])]
        with pytest.raises(errors.InvalidError, match="a number of 'rows' is NaN or infinite"):
            network.feed(samples, places).pack(names)
