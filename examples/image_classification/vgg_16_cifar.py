"""V1: VGG on CIFAR-10. `paddle train --config=vgg_16_cifar.py`

`preprocess.sh` makes the data. With --config_args=filters=8 the network is an eighth as wide, and
with dropout=0 it drops nothing.
"""

import os

import vgg_net

from paddle.trainer_config_helpers import *

is_predict = get_config_arg("is_predict", bool, False)
data_dir = get_config_arg("data_dir", str, "data/cifar-out/batches")
meta_path = get_config_arg("meta", str, os.path.join(data_dir, "batches.meta"))

if not is_predict:
    vgg_net.data(
        train_list=os.path.join(data_dir, "train.list"),
        test_list=os.path.join(data_dir, "test.list"),
        meta_path=meta_path,
        shard=get_config_arg("shard", bool, False),
    )
vgg_net.network(is_predict)
