"""Networks as the original's `ModelConfig`: every kind of layer under its name there, with the
settings that have a message."""

import struct

import original_tar
import pytest
import test_cost_values
import test_layer_values
import test_vector_layers

import paddle.v2 as paddle
from paddle.v2 import naming

LAYER = paddle.layer

# The names under which version 0.11 of the original has these layers.
ORIGINAL = set(
    """
    addto average batch_norm bilinear_interp blockexpand clip concat concat2 conv3d conv_shift
    convex_comb cos cos_vm crf crf_decoding crop cross_entropy_over_beam ctc data deconv3d
    detection_output dot_prod eos_id exconv exconvt expand factorization_machine fc featmap_expand
    gated_recurrent gru_step hsigmoid huber_classification huber_regression interpolation
    kmax_seq_score l2_distance lambda_cost lstm_step lstmemory max maxid maxout mixed
    multi-class-cross-entropy multi_binary_label_cross_entropy
    multi_class_cross_entropy_with_selfnorm multibox_loss multiplex nce norm out_prod pad pool
    pool3d power prelu priorbox rank-cost recurrent resize roi_pool rotate row_conv row_l2_norm
    sampling_id scale_shift scale_sub_region scaling seq_slice seqconcat seqlastins seqreshape
    slope_intercept smooth_l1 spp square_error sub_nested_seq subseq sum_cost sum_to_one_norm
    switch_order tensor trans warp_ctc
    """.split()
)


@pytest.fixture(autouse=True)
def fresh_names():
    """Every test counts automatic names from 0."""
    naming.reset()


@pytest.mark.parametrize("module", [test_cost_values, test_layer_values, test_vector_layers])
def test_layers_have_their_names_of_the_original(module):
    for name, (build, _) in module.CASES.items():
        naming.reset()
        described = LAYER.parse_network(build())
        unknown = {layer.type for layer in described.layers} - ORIGINAL
        assert unknown == set(), name
        assert described.SerializeToString(), name


def picture(name="picture", channels=2):
    type = paddle.data_type.dense_vector(channels * 12)
    return LAYER.data(name=name, type=type, height=3, width=4)


def row(name="row", size=6):
    return LAYER.data(name=name, type=paddle.data_type.dense_vector(size))


def rows(name="rows", size=1):
    return LAYER.data(name=name, type=paddle.data_type.dense_vector_sequence(size))


def volume():
    type = paddle.data_type.dense_vector(2 * 24)
    return LAYER.data(name="volume", type=type, depth=2, height=3, width=4)


def priors(image):
    return LAYER.priorbox(
        input=image, image=image, min_size=[2], aspect_ratio=[], variance=[0.1, 0.1, 0.2, 0.2]
    )


def found():
    image = picture()
    return LAYER.detection_output(
        input_loc=LAYER.img_conv(image, filter_size=1, num_filters=4),
        input_conf=LAYER.img_conv(image, filter_size=1, num_filters=3),
        priorbox=priors(image),
        num_classes=3,
    )


# The last layer, what it is called, and some of what is said of it.
SETTINGS = {
    "clip": (lambda: LAYER.clip(row(), -1, 2), "clip", {"clip_conf.min": -1.0, "clip_conf.max": 2}),
    "eos": (
        lambda: LAYER.eos(LAYER.max_id(row()), eos_id=3),
        "eos_id",
        {"eos_id": 3},
    ),
    "prelu": (lambda: LAYER.prelu(row(), partial_sum=3), "prelu", {"partial_sum": 3}),
    "row_conv": (
        lambda: LAYER.row_conv(rows(), context_len=4),
        "row_conv",
        {"row_conv_conf.context_length": 4},
    ),
    "factorization_machine": (
        lambda: LAYER.factorization_machine(row(), factor_size=5),
        "factorization_machine",
        {"factor_size": 5},
    ),
    "kmax_seq_score": (
        lambda: LAYER.kmax_seq_score(rows(), beam_size=2),
        "kmax_seq_score",
        {"beam_size": 2},
    ),
    "lambda_cost": (
        lambda: LAYER.lambda_cost(rows(), rows("truth"), NDCG_num=3),
        "lambda_cost",
        {"NDCG_num": 3, "max_sort_size": -1},
    ),
    "crop": (
        lambda: LAYER.crop(picture(), offset=[1, 2], axis=2, shape=[2, 2]),
        "crop",
        {"axis": 2, "offset": [1, 2], "shape": [2, 2]},
    ),
    "rotate": (
        lambda: LAYER.rotate(picture(), height=3, width=4),
        "rotate",
        {"height": 3, "width": 4},
    ),
    "switch_order": (
        lambda: LAYER.switch_order(picture(), reshape_axis=3),
        "switch_order",
        {"reshape_conf.height_axis": [0, 1, 2], "reshape_conf.width_axis": [3]},
    ),
    "pad": (
        lambda: LAYER.pad(picture(), pad_c=[1, 0], pad_h=[0, 2]),
        "pad",
        {"pad_conf.pad_c": [1, 0], "pad_conf.pad_h": [0, 2], "pad_conf.image_conf.channels": 2},
    ),
    "bilinear_interp": (
        lambda: LAYER.bilinear_interp(picture(), out_size_x=8, out_size_y=6),
        "bilinear_interp",
        {"bilinear_interp_conf.out_size_x": 8, "bilinear_interp_conf.image_conf.img_size": 4},
    ),
    "block_expand": (
        lambda: LAYER.block_expand(picture(), block_x=2, block_y=3, stride_x=2, stride_y=1),
        "blockexpand",
        {
            "block_expand_conf.block_x": 2,
            "block_expand_conf.block_y": 3,
            "block_expand_conf.output_x": 2,
            "block_expand_conf.output_y": 1,
            "block_expand_conf.img_size_y": 3,
        },
    ),
    "cross_channel_norm": (
        lambda: LAYER.cross_channel_norm(picture()),
        "norm",
        {"norm_conf.norm_type": "cross-channel-norm", "norm_conf.channels": 2},
    ),
    "img_conv3d": (
        lambda: LAYER.img_conv3d(volume(), filter_size=[1, 2, 1], num_filters=3),
        "conv3d",
        {
            "conv_conf.filter_size": 1,
            "conv_conf.filter_size_y": 2,
            "conv_conf.img_size_z": 2,
            "conv_conf.output_y": 2,
            "depth": 2,
            "num_filters": 3,
        },
    ),
    "img_pool3d": (
        lambda: LAYER.img_pool3d(volume(), pool_size=2, stride=2),
        "pool3d",
        {"pool_conf.size_z": 2, "pool_conf.output_z": 1, "pool_conf.img_size": 4, "depth": 1},
    ),
    "priorbox": (
        lambda: priors(picture()),
        "priorbox",
        {"priorbox_conf.min_size": [2], "priorbox_conf.variance": [0.1, 0.1, 0.2, 0.2]},
    ),
    "detection_output": (
        found,
        "detection_output",
        {"detection_output_conf.num_classes": 3, "detection_output_conf.input_num": 1},
    ),
    "roi_pool": (
        lambda: LAYER.roi_pool(
            picture(), rows("rois", 5), pooled_width=2, pooled_height=1, spatial_scale=0.5
        ),
        "roi_pool",
        {"roi_pool_conf.pooled_width": 2, "roi_pool_conf.spatial_scale": 0.5},
    ),
    "seq_slice": (
        lambda: LAYER.seq_slice(rows(), starts=row("starts", 1), ends=None),
        "seq_slice",
        {"select_first": True},
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_layers_are_described_with_their_settings(name):
    build, type, expected = SETTINGS[name]
    layer = LAYER.parse_network(build()).layers[-1]
    assert layer.type == type
    for path, value in expected.items():
        first = path.split(".")[0]
        # What is said of an input is in the first one.
        found = layer if hasattr(layer, first) else layer.inputs[0]
        for field in path.split("."):
            found = getattr(found, field)
        assert found == value, path


def test_weights_come_first_as_in_the_original():
    for function in (LAYER.scaling, LAYER.power):
        naming.reset()
        made = function(input=row(), weight=row("weight", 1))
        inputs = LAYER.parse_network(made).layers[-1].inputs
        assert [each.input_layer_name for each in inputs] == ["weight", "row"]


def test_single_precision_numbers_have_four_bytes():
    priors_of = LAYER.parse_network(priors(picture())).layers[-1].inputs[0].priorbox_conf
    fields = original_tar._fields(priors_of.SerializeToString())
    # PriorBoxConfig: 1 min_size, 4 variance, a float with wire type 5.
    assert fields[1] == [2]
    expected = [struct.unpack("<f", struct.pack("<f", each))[0] for each in (0.1, 0.1, 0.2, 0.2)]
    assert fields[4] == expected


def test_printers_and_precision_are_evaluators():
    out = found()
    truth = rows("truth", 6)
    paddle.evaluator.detection_map(input=out, label=truth, name="map", ap_type="Integral")
    paddle.evaluator.value_printer(input=out, name="shown")
    described = LAYER.parse_network([out, truth])
    by_name = {each.name: each for each in described.evaluators}
    assert (by_name["map"].type, by_name["map"].ap_type) == ("detection_map", "Integral")
    assert by_name["shown"].type == "value_printer"
