"""VGG on CIFAR-10, on a cluster: `sh run.sh`. The network is that of ../../image_classification.

`cluster_config` comes first: a receiver executes the lines up to it, without any data.
"""

from paddle.trainer_config_helpers import *

cluster_config(
    fs_name=get_config_arg("fs_name", str, "hdfs://127.0.0.1:54310"),
    fs_ugi="paddle,no password is needed",
    work_dir=get_config_arg("work_dir", str, "/paddle/demos/image_classification/"),
    has_meta_data=True,
)

import vgg_net

meta_path = "./train_data_dir/image_classification/train_meta"
vgg_net.data(train_list="./train.list", test_list="./test.list", meta_path=meta_path)
vgg_net.network()
