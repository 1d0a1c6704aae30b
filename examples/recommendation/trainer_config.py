"""V1: what people think of films. `paddle train --config=trainer_config.py`

`preprocess.py` makes the data. With --config_args=emb_size=32 the network is smaller; with shard=1
trainers that share one list take every n-th file of it.
"""

import os
import pickle

from paddle import job
from paddle.trainer_config_helpers import *

is_predict = get_config_arg("is_predict", bool, False)
data_dir = get_config_arg("data_dir", str, "data")
with open(os.path.join(data_dir, "meta.bin"), "rb") as f:
    meta = pickle.load(f)
sizes = meta["sizes"]


def files_of(name):
    with open(name, encoding="utf-8") as lines:
        files = [line.strip() for line in lines if line.strip()]
    if not get_config_arg("shard", bool, False):
        return files
    return files[job.rank :: job.trainers]


if not is_predict:
    define_py_data_sources2(
        train_list=files_of(
            get_config_arg("train_list", str, os.path.join(data_dir, "train.list"))
        ),
        test_list=get_config_arg("test_list", str, os.path.join(data_dir, "test.list")),
        module="dataprovider",
        obj="process",
        args={"meta": meta},
    )

settings(
    batch_size=get_config_arg("batch_size", int, 1600),
    learning_rate=get_config_arg("learning_rate", float, 1e-3),
    learning_method=RMSPropOptimizer(),
)

emb_size = get_config_arg("emb_size", int, 256)


def embedded(name):
    """What is learnt of each id."""
    ids = data_layer(name=name, size=sizes[name])
    return fc_layer(input=embedding_layer(input=ids, size=emb_size), size=emb_size)


def title():
    words = data_layer(name="title", size=sizes["title"])
    return text_conv_pool(
        input=embedding_layer(input=words, size=emb_size), context_len=5, hidden_size=emb_size
    )


def genres():
    kinds = data_layer(name="genres", size=sizes["genres"])
    return fc_layer(input=fc_layer(input=kinds, size=emb_size), size=emb_size)


movie = fc_layer(
    name="movie_fusion", input=[embedded("movie_id"), title(), genres()], size=emb_size
)
user = fc_layer(
    name="user_fusion",
    input=[embedded("user_id"), embedded("gender"), embedded("age"), embedded("occupation")],
    size=emb_size,
)
similarity = cos_sim(a=movie, b=user, scale=5)

if is_predict:
    outputs(similarity)
else:
    rating = data_layer(name="rating", size=1)
    outputs(regression_cost(input=similarity, label=rating))
