"""V1: a chain over what recurrent layers make of the words. `paddle train --config=rnn_crf.py`"""

import conll

from paddle.trainer_config_helpers import *

dictionary = conll.Dictionary(get_config_arg("dictionary", str, "data/train.txt.gz"))
define_py_data_sources2(
    train_list=conll.own_files("data/train.list", get_config_arg("shard", bool, False)),
    test_list="data/test.list",
    module="dataprovider",
    obj="process",
    args={"dictionary": dictionary},
)

batch_size = get_config_arg("batch_size", int, 16)
settings(
    learning_method=MomentumOptimizer(),
    batch_size=batch_size,
    regularization=L2Regularization(batch_size * 1e-5),
    model_average=ModelAverage(average_window=0.5),
    learning_rate=get_config_arg("learning_rate", float, 2e-3),
    learning_rate_decay_a=5e-7,
    learning_rate_decay_b=0.5,
    gradient_clipping_threshold=25,
)

tags = len(conll.TAGS)
hidden_dim = get_config_arg("hidden_dim", int, 128)
initial_std = 1 / hidden_dim**0.5
param_attr = ParamAttr(initial_std=initial_std)

default_device(0)

features = data_layer(name="features", size=len(dictionary.features) + 1)
word = data_layer(name="word", size=len(dictionary.words) + 1)
pos = data_layer(name="pos", size=len(dictionary.parts) + 1)
chunk = data_layer(name="chunk", size=tags)

emb = embedding_layer(
    input=word, size=hidden_dim, param_attr=ParamAttr(name="emb", initial_std=0.1)
)

with mixed_layer(size=hidden_dim, act=STanhActivation(), bias_attr=True) as hidden1:
    hidden1 += full_matrix_projection(emb)
    hidden1 += table_projection(pos, param_attr=param_attr)
rnn1 = recurrent_layer(
    input=hidden1, act=ReluActivation(), bias_attr=True, param_attr=ParamAttr(initial_std=0.01)
)

with mixed_layer(size=hidden_dim, act=STanhActivation(), bias_attr=True) as hidden2:
    hidden2 += full_matrix_projection(hidden1)
    hidden2 += full_matrix_projection(rnn1)
rnn2 = recurrent_layer(
    input=hidden2,
    reverse=True,
    act=ReluActivation(),
    bias_attr=True,
    param_attr=ParamAttr(initial_std=0.01),
)

with mixed_layer(size=tags, bias_attr=True) as crf_input:
    crf_input += full_matrix_projection(hidden2)
    crf_input += full_matrix_projection(rnn2)

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
