"""VGG on CIFAR-10, on a cluster: `sh run.sh`. The network is that of ../../image_classification.

`cluster_config` comes first: a receiver executes the lines up to here, without any data.
"""

from paddle.trainer_config_helpers import *

cluster_config(
    fs_name=get_config_arg("fs_name", str, "hdfs://127.0.0.1:54310"),
    fs_ugi="paddle,no password is needed",
    work_dir=get_config_arg("work_dir", str, "/paddle/demos/image_classification/"),
    has_meta_data=True,
)

meta_path = "./train_data_dir/image_classification/train_meta"
filters = get_config_arg("filters", int, 64)
batch_size = get_config_arg("batch_size", int, 128)
img_size = 32
num_classes = 10

define_py_data_sources2(
    train_list="./train.list",
    test_list="./test.list",
    module="image_provider",
    obj="processData",
    args={
        "meta": meta_path,
        "mean_img_size": img_size,
        "img_size": img_size,
        "num_classes": num_classes,
        "use_jpeg": 1,
        "color": "color",
        # Every node has files of its own.
        "shard": False,
    },
)
settings(
    batch_size=batch_size,
    learning_rate=0.1 / 128.0,
    learning_method=MomentumOptimizer(0.9),
    regularization=L2Regularization(0.0005 * batch_size),
)

img = data_layer(name="image", size=3 * img_size * img_size, height=img_size, width=img_size)
layer, channels = img, 3
for times, rates in [(1, [0.3, 0]), (2, [0.4, 0]), (4, [0.4, 0.4, 0]), (8, [0.4, 0.4, 0])]:
    layer = img_conv_group(
        input=layer,
        num_channels=channels,
        conv_num_filter=[times * filters] * len(rates),
        conv_filter_size=3,
        conv_act=ReluActivation(),
        conv_with_batchnorm=True,
        conv_batchnorm_drop_rate=rates,
        pool_size=2,
        pool_stride=2,
        pool_type=MaxPooling(),
    )
    channels = None
layer = img_pool_layer(input=layer, stride=2, pool_size=2, pool_type=MaxPooling())
layer = dropout_layer(input=layer, dropout_rate=0.5)
layer = fc_layer(
    input=layer, size=8 * filters, act=LinearActivation(), layer_attr=ExtraAttr(drop_rate=0.5)
)
layer = batch_norm_layer(input=layer, act=ReluActivation())
predict = fc_layer(input=layer, size=num_classes, act=SoftmaxActivation())
label = data_layer(name="label", size=num_classes)
outputs(classification_cost(input=predict, label=label))
