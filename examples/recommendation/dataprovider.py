"""Ratings for the V1 configuration, with what is known of the film and the person of each."""

from paddle.trainer.PyDataProvider2 import (
    CacheType,
    dense_vector,
    integer_value,
    integer_value_sequence,
    provider,
    sparse_binary_vector,
)


def hook(settings, meta, **_rest):
    sizes = meta["sizes"]
    settings.meta = meta
    settings.input_types = {
        "movie_id": integer_value(sizes["movie_id"]),
        "title": integer_value_sequence(sizes["title"]),
        "genres": sparse_binary_vector(sizes["genres"]),
        "user_id": integer_value(sizes["user_id"]),
        "gender": integer_value(sizes["gender"]),
        "age": integer_value(sizes["age"]),
        "occupation": integer_value(sizes["occupation"]),
        "rating": dense_vector(1),
    }


@provider(init_hook=hook, cache=CacheType.CACHE_PASS_IN_MEM)
def process(settings, file_name):
    with open(file_name, encoding="utf-8") as file:
        for line in file:
            user, movie, score, _ = line.strip().split("::")
            yield {
                "movie_id": int(movie),
                "user_id": int(user),
                **settings.meta["movie"][int(movie)],
                **settings.meta["user"][int(user)],
                "rating": [float(score) * 2 - 5],
            }
