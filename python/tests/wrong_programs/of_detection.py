"""Wrong uses of layers that find objects, of three-dimensional pictures and of beams."""

import paddle.v2 as paddle
from wrong_programs.case import case, dense, ids, sequence
from wrong_programs.of_vectors import picture


def prior_boxes():
    return paddle.layer.priorbox(
        input=picture("map", 1, 2, 2),
        image=picture("image", 1, 8, 8),
        aspect_ratio=[2.0],
        variance=[0.1, 0.1, 0.2, 0.2],
        min_size=[4],
    )


def volume(name):
    type = paddle.data_type.dense_vector(2 * 3 * 4 * 5)
    return paddle.layer.data(name=name, type=type, depth=3, height=4, width=5)


@case
def prior_boxes_without_a_size():
    paddle.layer.priorbox(  # wrong
        input=picture("map", 1, 2, 2),
        image=picture("image", 1, 8, 8),
        aspect_ratio=[2.0],
        variance=[0.1] * 4,
        min_size=[],
    )


@case
def prior_boxes_with_two_variances():
    paddle.layer.priorbox(  # wrong
        input=picture("map", 1, 2, 2),
        image=picture("image", 1, 8, 8),
        aspect_ratio=[2.0],
        variance=[0.1, 0.2],
        min_size=[4],
    )


@case
def prior_boxes_of_a_row():
    paddle.layer.priorbox(  # wrong
        input=dense("map", 4),
        image=picture("image", 1, 8, 8),
        aspect_ratio=[2.0],
        variance=[0.1] * 4,
        min_size=[4],
    )


@case
def loss_with_too_few_locations():
    priors = prior_boxes()
    label = sequence("label", 6)
    locations, scores = dense("locations", 12 * 3), dense("scores", 12 * 2)
    paddle.layer.multibox_loss(locations, scores, priors, label, num_classes=2)  # wrong


@case
def loss_with_labels_of_five_numbers():
    priors = prior_boxes()
    label = sequence("label", 5)
    locations, scores = dense("locations", 12 * 4), dense("scores", 12 * 2)
    paddle.layer.multibox_loss(locations, scores, priors, label, num_classes=2)  # wrong


@case
def answers_of_different_numbers_of_maps():
    priors = prior_boxes()
    locations, scores = dense("locations", 12 * 4), dense("scores", 12 * 2)
    paddle.layer.detection_output([locations], [scores, scores], priors, num_classes=2)  # wrong


@case
def background_that_is_no_class():
    priors = prior_boxes()
    locations, scores = dense("locations", 12 * 4), dense("scores", 12 * 2)
    paddle.layer.detection_output(  # wrong
        locations, scores, priors, num_classes=2, background_id=2
    )


@case
def regions_of_four_numbers():
    x = picture("x", 1, 4, 4)
    paddle.layer.roi_pool(  # wrong
        input=x, rois=sequence("rois", 4), pooled_width=2, pooled_height=2, spatial_scale=1.0
    )


@case
def precision_of_rows_that_are_no_objects():
    paddle.evaluator.detection_map(input=sequence("x", 4), label=sequence("y", 6))  # wrong


@case
def precision_by_an_unknown_average():
    x, y = sequence("x", 7), sequence("y", 6)
    paddle.evaluator.detection_map(input=x, label=y, ap_type="mean")  # wrong


@case
def flat_convolution_of_a_volume():
    paddle.layer.img_conv(input=volume("x"), filter_size=3, num_filters=2)  # wrong


@case
def deep_convolution_with_two_sizes():
    paddle.layer.img_conv3d(input=volume("x"), filter_size=[3, 3], num_filters=2)  # wrong


@case
def deep_convolution_of_a_row():
    paddle.layer.img_conv3d(input=dense("x", 27), filter_size=3, num_filters=2)  # wrong


@case
def depth_without_height():
    paddle.layer.data(name="x", type=paddle.data_type.dense_vector(27), depth=3)  # wrong


@case
def beam_of_layers():
    paddle.layer.cross_entropy_over_beam(input=[sequence("x", 1)])  # wrong


@case
def beam_whose_gold_is_no_integer():
    beam = paddle.layer.BeamInput(sequence("scores", 1), dense("kept", 2), dense("gold", 1))
    paddle.layer.cross_entropy_over_beam(input=beam)  # wrong


@case
def second_beam_that_is_not_nested():
    scores, kept, gold = sequence("scores", 1), dense("kept", 2), ids("gold", 4)
    beam = paddle.layer.BeamInput(scores, kept, gold)
    paddle.layer.cross_entropy_over_beam(input=[beam, beam])  # wrong


@case
def frames_of_vectors():
    paddle.evaluator.maxframe_printer(input=sequence("x", 2))  # wrong


@case
def text_of_numbers():
    paddle.evaluator.seqtext_printer(input=sequence("x", 2), result_file="text")  # wrong


@case
def gradient_of_ids():
    paddle.evaluator.gradient_printer(input=ids("x", 2))  # wrong
