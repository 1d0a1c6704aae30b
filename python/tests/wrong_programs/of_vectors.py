"""Wrong uses of layers that combine rows, move pixels, select or rank."""

import paddle.v2 as paddle
from wrong_programs.case import case, dense, ids, sequence


def picture(name, channels, height, width):
    type = paddle.data_type.dense_vector(channels * height * width)
    return paddle.layer.data(name=name, type=type, height=height, width=width)


@case
def clip_between_numbers_the_wrong_way_round():
    paddle.layer.clip(input=dense("x", 3), min=1, max=-1)  # wrong


@case
def power_with_several_exponents():
    paddle.layer.power(input=dense("x", 3), weight=dense("w", 3))  # wrong


@case
def distance_of_different_sizes():
    paddle.layer.l2_distance(x=dense("x", 3), y=dense("y", 4))  # wrong


@case
def combination_of_vectors_that_do_not_divide():
    paddle.layer.linear_comb(weights=dense("w", 3), vectors=dense("v", 7))  # wrong


@case
def shift_by_an_even_number():
    paddle.layer.conv_shift(a=dense("a", 5), b=dense("b", 2))  # wrong


@case
def outer_product_of_ids():
    paddle.layer.out_prod(input1=dense("a", 5), input2=ids("b", 2))  # wrong


@case
def choice_between_one_layer():
    paddle.layer.multiplex(input=[ids("which", 2), dense("a", 3)])  # wrong


@case
def choice_between_layers_of_different_sizes():
    paddle.layer.multiplex(input=[ids("which", 2), dense("a", 3), dense("b", 4)])  # wrong


@case
def slopes_that_do_not_divide_the_columns():
    paddle.layer.prelu(input=dense("x", 5), partial_sum=2)  # wrong


@case
def slopes_of_channels_that_are_not_known():
    paddle.layer.prelu(input=dense("x", 4), channel_shared=True)  # wrong


@case
def look_ahead_over_single_rows():
    paddle.layer.row_conv(input=dense("x", 4), context_len=2)  # wrong


@case
def blocks_without_a_size():
    paddle.layer.block_expand(input=picture("x", 1, 4, 4), stride_x=1, stride_y=1)  # wrong


@case
def blocks_larger_than_the_picture():
    paddle.layer.block_expand(  # wrong
        input=picture("x", 1, 4, 4), block_x=5, block_y=1, stride_x=1, stride_y=1
    )


@case
def interpolation_of_a_row_that_is_no_picture():
    paddle.layer.bilinear_interp(input=dense("x", 16), out_size_x=8, out_size_y=8)  # wrong


@case
def interpolation_to_no_size():
    paddle.layer.bilinear_interp(input=picture("x", 1, 4, 4), out_size_x=8)  # wrong


@case
def crop_beyond_the_edge():
    x = picture("x", 1, 4, 4)
    paddle.layer.crop(input=x, offset=[2, 2], shape=[0, 1, 3, 2])  # wrong


@case
def crop_of_the_batch():
    paddle.layer.crop(input=picture("x", 1, 4, 4), offset=1, axis=0, shape=[1, 1, 2, 2])  # wrong


@case
def crop_to_no_size():
    paddle.layer.crop(input=picture("x", 1, 4, 4), offset=1)  # wrong


@case
def padding_by_one_number():
    paddle.layer.pad(input=picture("x", 1, 4, 4), pad_h=[1])  # wrong


@case
def rotation_of_another_size():
    paddle.layer.rotate(input=dense("x", 12), height=5, width=2)  # wrong


@case
def order_switched_at_no_side():
    paddle.layer.switch_order(input=picture("x", 1, 4, 4), reshape_axis=4)  # wrong


@case
def best_places_of_rows():
    paddle.layer.kmax_seq_score(input=dense("x", 1), beam_size=2)  # wrong


@case
def best_places_of_vectors():
    paddle.layer.kmax_seq_score(input=sequence("x", 2), beam_size=2)  # wrong


@case
def sequences_selected_of_one_sequence():
    paddle.layer.sub_nested_seq(input=sequence("x", 2), selected_indices=dense("i", 2))  # wrong


@case
def end_of_numbers():
    paddle.layer.eos(input=dense("x", 2), eos_id=1)  # wrong


@case
def ranking_of_single_rows():
    paddle.layer.lambda_cost(input=dense("x", 1), score=dense("y", 1))  # wrong


@case
def ranking_by_vectors():
    paddle.layer.lambda_cost(input=sequence("x", 2), score=sequence("y", 1))  # wrong


@case
def pairs_ranked_by_three_classes():
    paddle.layer.rank_cost(left=dense("l", 1), right=dense("r", 1), label=ids("y", 3))  # wrong


@case
def bounds_of_different_numbers():
    starts, ends = dense("starts", 2), dense("ends", 3)
    paddle.layer.seq_slice(input=sequence("x", 2), starts=starts, ends=ends)  # wrong


@case
def text_without_a_place_for_each_layer():
    paddle.layer.printer(input=[dense("x", 1), dense("y", 1)], format="x is %s")  # wrong
