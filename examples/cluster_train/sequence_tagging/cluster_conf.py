"""Phrases in sentences, on a cluster: `sh run.sh`. The network is that of ../../sequence_tagging.

`cluster_config` comes first: a receiver executes the lines up to it, without any data.
"""

from paddle.trainer_config_helpers import *

cluster_config(
    fs_name=get_config_arg("fs_name", str, "hdfs://127.0.0.1:54310"),
    fs_ugi="paddle,no password is needed",
    work_dir=get_config_arg("work_dir", str, "/paddle/demos/sequence_tagging/"),
)

import linear_crf_net

# The ids of words are those of the whole training file, so this job has one node.
linear_crf_net.train(
    "./train_data_dir/train/train.txt.gz",
    train_list="./train.list",
    test_list="./test.list",
)
