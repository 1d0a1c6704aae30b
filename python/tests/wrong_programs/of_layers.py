"""Wrong layers, arguments and names."""

import paddle.v2 as paddle
from paddle.v2.topology import Topology
from wrong_programs.case import case, dense, ids, sequence

# Layers and their sizes


@case
def integer_ids_go_into_fc():
    paddle.layer.fc(input=ids("word", 10), size=3)  # wrong


@case
def label_of_another_size():
    paddle.layer.square_error_cost(input=dense("x", 3), label=dense("y", 2))  # wrong


@case
def label_is_dense_where_classes_are_needed():
    predicted = paddle.layer.fc(input=dense("x", 3), size=4, act=paddle.activation.Softmax())
    paddle.layer.classification_cost(input=predicted, label=dense("y", 4))  # wrong


@case
def label_has_other_classes():
    predicted = paddle.layer.fc(input=dense("x", 3), size=4, act=paddle.activation.Softmax())
    paddle.layer.classification_cost(input=predicted, label=ids("y", 5))  # wrong


@case
def classification_without_softmax():
    predicted = paddle.layer.fc(input=dense("x", 3), size=4)
    paddle.layer.classification_cost(input=predicted, label=ids("y", 4))  # wrong


@case
def sum_of_different_sizes():
    paddle.layer.addto(input=[dense("x", 3), dense("y", 4)])  # wrong


@case
def sequence_meets_a_single_row():
    paddle.layer.concat(input=[sequence("x", 3), dense("y", 4)])  # wrong


@case
def pooling_of_a_single_row():
    paddle.layer.pooling(input=dense("x", 3), pooling_type=paddle.pooling.Max())  # wrong


@case
def embedding_of_numbers():
    paddle.layer.embedding(input=dense("x", 3), size=8)  # wrong


@case
def cosine_of_different_sizes():
    paddle.layer.cos_sim(a=dense("x", 3), b=dense("y", 4))  # wrong


@case
def size_of_zero():
    paddle.layer.fc(input=dense("x", 3), size=0)  # wrong


@case
def size_is_a_string():
    paddle.layer.fc(input=dense("x", 3), size="10")  # wrong


@case
def convolution_of_a_row_that_is_no_picture():
    paddle.layer.img_conv(input=dense("x", 12), filter_size=3, num_filters=2)  # wrong


@case
def convolution_with_other_channels():
    type = paddle.data_type.dense_vector(3072)
    picture = paddle.layer.data(name="x", type=type, height=32, width=32)
    paddle.layer.img_conv(input=picture, filter_size=3, num_filters=2, num_channels=1)  # wrong


@case
def convolution_with_a_filter_larger_than_the_picture():
    x = dense("x", 2 * 3 * 3)
    paddle.layer.img_conv(input=x, filter_size=5, num_filters=2, num_channels=2)  # wrong


@case
def convolution_in_groups_that_do_not_divide_the_channels():
    x = dense("x", 3 * 4 * 4)
    paddle.layer.img_conv(  # wrong
        input=x, filter_size=3, num_filters=4, num_channels=3, groups=2
    )


@case
def channels_that_are_not_square():
    paddle.layer.img_pool(input=dense("x", 3 * 7), pool_size=2, num_channels=3)  # wrong


@case
def sum_of_a_window():
    x = dense("x", 3 * 4)
    paddle.layer.img_pool(  # wrong
        input=x, pool_size=2, num_channels=3, pool_type=paddle.pooling.Sum()
    )


@case
def maxout_of_channels_that_do_not_go_together():
    paddle.layer.maxout(input=dense("x", 3 * 4), groups=2, num_channels=3)  # wrong


@case
def batch_norm_over_ids():
    paddle.layer.batch_norm(input=ids("word", 10))  # wrong


@case
def convolutions_with_too_few_drop_rates():
    paddle.networks.img_conv_group(  # wrong
        input=dense("x", 16),
        conv_num_filter=[2, 2],
        pool_size=2,
        num_channels=1,
        conv_with_batchnorm=True,
        conv_batchnorm_drop_rate=[0.3],
    )


@case
def picture_of_another_size():
    type = paddle.data_type.dense_vector(784)
    paddle.layer.data(name="x", type=type, height=28, width=27)  # wrong


@case
def layers_of_different_sizes_are_added():
    dense("x", 3) + dense("y", 4)  # wrong


@case
def layers_of_different_sizes_are_multiplied():
    dense("x", 3) * dense("y", 3)  # wrong


@case
def layer_plus_text():
    dense("x", 3) + "1"  # wrong


# Mixed layers


@case
def mixed_without_projections():
    with paddle.layer.mixed(size=3):  # wrong
        pass


@case
def mixed_used_before_it_is_complete():
    mixed = paddle.layer.mixed(size=3)
    paddle.layer.fc(input=mixed, size=1)  # wrong


@case
def projections_of_different_sizes():
    x = dense("x", 3)
    terms = [paddle.layer.identity_projection(input=x), paddle.layer.dotmul_projection(input=x)]
    paddle.layer.mixed(size=4, input=terms)  # wrong


@case
def projection_is_taken_for_a_layer():
    paddle.layer.fc(input=paddle.layer.identity_projection(input=dense("x", 3)), size=1)  # wrong


@case
def columns_beyond_the_input():
    slice = paddle.layer.identity_projection(input=dense("x", 3), offset=2, size=2)
    paddle.layer.mixed(input=slice)  # wrong


# Arguments


@case
def misspelt_argument():
    paddle.layer.fc(input=dense("x", 3), sizes=10)  # wrong


@case
def unknown_argument():
    paddle.layer.fc(input=dense("x", 3), size=10, trainable=False)  # wrong


@case
def cost_without_label():
    paddle.layer.square_error_cost(input=dense("x", 3))  # wrong


@case
def layer_by_its_name():
    paddle.layer.fc(input="x", size=10)  # wrong


@case
def no_inputs():
    paddle.layer.concat(input=[])  # wrong


@case
def data_type_is_a_number():
    paddle.layer.data(name="x", type=13)  # wrong


@case
def activation_is_a_string():
    paddle.layer.fc(input=dense("x", 3), size=10, act="softmax")  # wrong


@case
def activation_is_an_attribute():
    paddle.layer.fc(input=dense("x", 3), size=10, act=paddle.attr.Param())  # wrong


@case
def layer_instead_of_attribute():
    x = dense("x", 3)
    paddle.layer.fc(input=x, size=10, param_attr=x)  # wrong


@case
def attributes_are_mixed_up():
    paddle.layer.fc(input=dense("x", 3), size=10, layer_attr=paddle.attr.Param())  # wrong


@case
def bias_is_a_number():
    paddle.layer.fc(input=dense("x", 3), size=10, bias_attr=0)  # wrong


@case
def too_few_attributes_for_the_inputs():
    inputs = [dense("x", 3), dense("y", 3)]
    paddle.layer.fc(input=inputs, size=10, param_attr=[paddle.attr.Param()])  # wrong


@case
def dropout_of_more_than_all():
    paddle.layer.dropout(input=dense("x", 3), dropout_rate=1.5)  # wrong


@case
def dropout_after_softmax():
    x, extra = dense("x", 3), paddle.attr.Extra(drop_rate=0.5)
    paddle.layer.fc(input=x, size=4, act=paddle.activation.Softmax(), layer_attr=extra)  # wrong


# Names


@case
def recurrent_layer_over_rows():
    paddle.layer.lstmemory(input=dense("x", 4))  # wrong


@case
def recurrent_layer_over_an_input_that_does_not_divide():
    x = sequence("x", 6)
    paddle.layer.lstmemory(input=x)  # wrong


@case
def recurrent_layer_of_another_size_than_its_input_says():
    x = sequence("x", 6)
    paddle.layer.grumemory(input=x, size=3)  # wrong


@case
def recurrent_layer_with_an_activation_it_cannot_have():
    x = sequence("x", 6)
    paddle.layer.recurrent(input=x, act=paddle.activation.Softmax())  # wrong


@case
def chain_whose_label_has_other_tags():
    x = sequence("x", 6)
    label = paddle.layer.data(name="y", type=paddle.data_type.integer_value_sequence(5))
    paddle.layer.crf(input=x, label=label)  # wrong


@case
def alignment_whose_blank_is_no_class():
    x = sequence("x", 6)
    label = paddle.layer.data(name="y", type=paddle.data_type.integer_value_sequence(5))
    paddle.layer.warp_ctc(input=x, label=label, blank=6)  # wrong


@case
def noise_of_another_number_of_classes():
    label = ids("y", 5)
    paddle.layer.nce(input=dense("x", 2), label=label, neg_distribution=[0.5, 0.5])  # wrong


@case
def context_of_a_row():
    x = dense("x", 6)
    paddle.layer.mixed(input=paddle.layer.context_projection(x, context_len=3))  # wrong


@case
def chunks_by_an_unknown_scheme():
    tags = paddle.layer.data(name="y", type=paddle.data_type.integer_value_sequence(5))
    paddle.evaluator.chunk(tags, tags, chunk_scheme="BIO", num_chunk_types=2)  # wrong


@case
def chunks_of_more_types_than_there_are_tags():
    tags = paddle.layer.data(name="y", type=paddle.data_type.integer_value_sequence(5))
    paddle.evaluator.chunk(tags, tags, chunk_scheme="IOB", num_chunk_types=3)  # wrong


@case
def layer_that_is_not_there_yet():
    paddle.layer.selective_fc(input=sequence("x", 4), size=3)  # wrong


@case
def misspelt_layer():
    paddle.layer.embeding(input=ids("word", 10), size=8)  # wrong


@case
def layer_by_its_old_name():
    paddle.layer.fc_layer(input=dense("x", 3), size=8)  # wrong


@case
def misspelt_activation():
    paddle.activation.ReLU()  # wrong


@case
def network_that_is_not_there_yet():
    paddle.networks.outputs(dense("x", 4))  # wrong


@case
def evaluator_without_what_it_needs():
    paddle.evaluator.pnpair(input=dense("x", 1), label=ids("y", 4))  # wrong


@case
def two_layers_of_one_name():
    x = dense("x", 3)
    first = paddle.layer.fc(input=x, size=3, name="hidden")
    second = paddle.layer.fc(input=first, size=3, name="hidden")
    Topology(second)  # wrong


@case
def unknown_layer_of_a_network():
    topology = Topology(paddle.layer.fc(input=dense("x", 3), size=3, name="hidden"))
    topology.get_layer("hiden")  # wrong


@case
def topology_of_a_number():
    Topology(3)  # wrong


@case
def concatenated_projection_without_a_size():
    tables = [paddle.layer.table_projection(input=ids(name, 5)) for name in ("x", "y")]
    paddle.layer.concat(input=tables)  # wrong


@case
def projection_beside_a_number():
    table = paddle.layer.table_projection(input=ids("x", 5), size=2)
    paddle.layer.concat(input=[table, 3])  # wrong


@case
def evaluator_instead_of_a_layer():
    predicted, label = dense("x", 1), ids("y", 2)
    auc = paddle.evaluator.auc(input=predicted, label=label)
    paddle.layer.fc(input=auc, size=2)  # wrong
