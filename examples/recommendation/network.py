"""The network: what is known of a person and of a film, each as 200 numbers, and their cosine."""

import paddle.v2 as paddle
from paddle.v2.dataset import movielens

ID_SIZE = 32
TRAIT_SIZE = 16
FEATURES = 200


def describe():
    """The cost of guessing ratings, and the guess: between −5 and 5."""
    guess = paddle.layer.cos_sim(a=person(), b=film(), scale=5)
    rating = paddle.layer.data(name="score", type=paddle.data_type.dense_vector(1))
    return paddle.layer.square_error_cost(input=guess, label=rating), guess


def person():
    known = [
        of_id("user_id", movielens.max_user_id() + 1, ID_SIZE),
        of_id("gender_id", 2, TRAIT_SIZE),
        of_id("age_id", len(movielens.age_table), TRAIT_SIZE),
        of_id("job_id", movielens.max_job_id() + 1, TRAIT_SIZE),
    ]
    return paddle.layer.fc(input=known, size=FEATURES, act=paddle.activation.Tanh())


def film():
    categories = paddle.layer.data(
        name="category_id",
        type=paddle.data_type.sparse_binary_vector(len(movielens.movie_categories())),
    )
    words = paddle.layer.data(
        name="movie_title",
        type=paddle.data_type.integer_value_sequence(len(movielens.get_movie_title_dict())),
    )
    title = paddle.networks.sequence_conv_pool(
        input=paddle.layer.embedding(input=words, size=ID_SIZE),
        context_len=3,
        hidden_size=ID_SIZE,
    )
    known = [
        of_id("movie_id", movielens.max_movie_id() + 1, ID_SIZE),
        paddle.layer.fc(input=categories, size=ID_SIZE),
        title,
    ]
    return paddle.layer.fc(input=known, size=FEATURES, act=paddle.activation.Tanh())


def of_id(name, count, size):
    """What is learnt of each id."""
    number = paddle.layer.data(name=name, type=paddle.data_type.integer_value(count))
    vector = paddle.layer.embedding(input=number, size=size)
    return paddle.layer.fc(input=vector, size=size)


# Where in a sample the values of the data layers are.
FEEDING = {
    "user_id": 0,
    "gender_id": 1,
    "age_id": 2,
    "job_id": 3,
    "movie_id": 4,
    "category_id": 5,
    "movie_title": 6,
    "score": 7,
}
