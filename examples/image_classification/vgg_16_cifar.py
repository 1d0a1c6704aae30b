"""V1: VGG on CIFAR-10. `paddle train --config=vgg_16_cifar.py`

`preprocess.sh` makes the data. With --config_args=filters=8 the network is an eighth as wide, and
with dropout=0 it drops nothing.
"""

import os

from paddle.trainer_config_helpers import *

is_predict = get_config_arg("is_predict", bool, False)
data_dir = get_config_arg("data_dir", str, "data/cifar-out/batches")
meta_path = get_config_arg("meta", str, os.path.join(data_dir, "batches.meta"))
batch_size = get_config_arg("batch_size", int, 128)
filters = get_config_arg("filters", int, 64)
dropout = get_config_arg("dropout", float, 1.0)
img_size = 32
num_classes = 10

if not is_predict:
    define_py_data_sources2(
        train_list=os.path.join(data_dir, "train.list"),
        test_list=os.path.join(data_dir, "test.list"),
        module="image_provider",
        obj="processData",
        args={
            "meta": meta_path,
            "mean_img_size": img_size,
            "img_size": img_size,
            "num_classes": num_classes,
            "use_jpeg": 1,
            "color": "color",
            "shard": get_config_arg("shard", bool, False),
        },
    )

settings(
    batch_size=batch_size,
    learning_rate=get_config_arg("learning_rate", float, 0.1 / 128.0),
    learning_method=MomentumOptimizer(0.9),
    regularization=L2Regularization(0.0005 * batch_size),
)


def vgg(image):
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
    return fc_layer(input=layer, size=num_classes, act=SoftmaxActivation())


img = data_layer(name="image", size=3 * img_size * img_size, height=img_size, width=img_size)
predict = vgg(img)

if is_predict:
    outputs(predict)
else:
    label = data_layer(name="label", size=num_classes)
    outputs(classification_cost(input=predict, label=label))
