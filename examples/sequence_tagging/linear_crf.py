"""V1: a chain over features of words and their neighbours. `paddle train --config=linear_crf.py`"""

import conll
import linear_crf_net

from paddle.trainer_config_helpers import *

linear_crf_net.train(
    get_config_arg("dictionary", str, "data/train.txt.gz"),
    train_list=conll.own_files("data/train.list", get_config_arg("shard", bool, False)),
    test_list="data/test.list",
)
