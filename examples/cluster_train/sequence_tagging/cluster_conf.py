"""Chunks of sentences, on a cluster: `sh run.sh`. The network is that of ../../sequence_tagging.

`cluster_config` comes first: a receiver executes the lines up to here, without any data.
"""

from paddle.trainer_config_helpers import *

cluster_config(
    fs_name=get_config_arg("fs_name", str, "hdfs://127.0.0.1:54310"),
    fs_ugi="paddle,no password is needed",
    work_dir=get_config_arg("work_dir", str, "/paddle/demos/sequence_tagging/"),
)

import conll

# The ids of words are those of the whole training file, so this job has one node.
dictionary = conll.Dictionary("./train_data_dir/train/train.txt.gz")
define_py_data_sources2(
    train_list="./train.list",
    test_list="./test.list",
    module="dataprovider",
    obj="process",
    args={"dictionary": dictionary},
)
settings(
    learning_method=MomentumOptimizer(),
    batch_size=get_config_arg("batch_size", int, 1),
    learning_rate=1e-1,
    model_average=ModelAverage(average_window=0.5),
)

tags = len(conll.TAGS)
features = data_layer(name="features", size=len(dictionary.features) + 1)
word = data_layer(name="word", size=len(dictionary.words) + 1)
pos = data_layer(name="pos", size=len(dictionary.parts) + 1)
chunk = data_layer(name="chunk", size=tags)

crf_input = fc_layer(
    input=features,
    size=tags,
    act=LinearActivation(),
    bias_attr=False,
    param_attr=ParamAttr(initial_std=0, sparse_update=True),
)
crf = crf_layer(input=crf_input, label=chunk, param_attr=ParamAttr(name="crfw", initial_std=0))
crf_decoding = crf_decoding_layer(
    size=tags, input=crf_input, label=chunk, param_attr=ParamAttr(name="crfw")
)
sum_evaluator(name="error", input=crf_decoding)
chunk_evaluator(
    name="chunk_f1",
    input=crf_decoding,
    label=chunk,
    chunk_scheme="IOB",
    num_chunk_types=len(conll.TYPES),
)

inputs(word, pos, chunk, features)
outputs(crf)
