"""V1: the network of `vgg_16_cifar.py`, for data that is here or on the nodes of a cluster."""

from paddle.trainer_config_helpers import *

SIZE = 32
CLASSES = 10


def data(train_list, test_list, meta_path, shard=False):
    """Reads the pictures of these lists."""
    define_py_data_sources2(
        train_list=train_list,
        test_list=test_list,
        module="image_provider",
        obj="processData",
        args={
            "meta": meta_path,
            "mean_img_size": SIZE,
            "img_size": SIZE,
            "num_classes": CLASSES,
            "use_jpeg": 1,
            "color": "color",
            "shard": shard,
        },
    )


def vgg(image, filters, dropout):
    """`small_vgg`, as wide as `filters` says."""
    layer, channels = image, 3
    groups = [(1, [0.3, 0]), (2, [0.4, 0]), (4, [0.4, 0.4, 0]), (8, [0.4, 0.4, 0])]
    for times, rates in groups:
        layer = img_conv_group(
            input=layer,
            num_channels=channels,
            conv_num_filter=[times * filters] * len(rates),
            conv_filter_size=3,
            conv_act=ReluActivation(),
            conv_with_batchnorm=True,
            conv_batchnorm_drop_rate=[dropout * rate for rate in rates],
            pool_size=2,
            pool_stride=2,
            pool_type=MaxPooling(),
        )
        channels = None
    layer = img_pool_layer(input=layer, stride=2, pool_size=2, pool_type=MaxPooling())
    layer = dropout_layer(input=layer, dropout_rate=0.5 * dropout)
    layer = fc_layer(
        input=layer,
        size=8 * filters,
        act=LinearActivation(),
        layer_attr=ExtraAttr(drop_rate=0.5 * dropout),
    )
    layer = batch_norm_layer(input=layer, act=ReluActivation())
    return fc_layer(input=layer, size=CLASSES, act=SoftmaxActivation())


def network(is_predict=False):
    """The settings, the network, and what is computed of it."""
    batch_size = get_config_arg("batch_size", int, 128)
    settings(
        batch_size=batch_size,
        learning_rate=get_config_arg("learning_rate", float, 0.1 / 128.0),
        learning_method=MomentumOptimizer(0.9),
        regularization=L2Regularization(0.0005 * batch_size),
    )
    img = data_layer(name="image", size=3 * SIZE * SIZE, height=SIZE, width=SIZE)
    filters = get_config_arg("filters", int, 64)
    predict = vgg(img, filters, get_config_arg("dropout", float, 1.0))
    if is_predict:
        outputs(predict)
    else:
        label = data_layer(name="label", size=CLASSES)
        outputs(classification_cost(input=predict, label=label))
