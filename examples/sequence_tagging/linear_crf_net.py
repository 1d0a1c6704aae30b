"""V1: the chain of `linear_crf.py`, for data that is here or on the nodes of a cluster."""

import conll

from paddle.trainer_config_helpers import *


def train(dictionary_file, train_list, test_list):
    """Reads these files; words and features have the ids of the whole `dictionary_file`."""
    dictionary = conll.Dictionary(dictionary_file)
    define_py_data_sources2(
        train_list=train_list,
        test_list=test_list,
        module="dataprovider",
        obj="process",
        args={"dictionary": dictionary},
    )
    batch_size = get_config_arg("batch_size", int, 1)
    settings(
        learning_method=MomentumOptimizer(),
        batch_size=batch_size,
        regularization=L2Regularization(batch_size * 1e-4),
        model_average=ModelAverage(average_window=0.5),
        learning_rate=get_config_arg("learning_rate", float, 1e-1),
        learning_rate_decay_a=1e-5,
        learning_rate_decay_b=0.25,
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
