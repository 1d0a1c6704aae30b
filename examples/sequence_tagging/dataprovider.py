"""Sentences for the V1 configurations: words, parts of speech, chunk tags and features, as ids."""

import conll

from paddle.trainer.PyDataProvider2 import (
    CacheType,
    integer_value_sequence,
    provider,
    sparse_binary_vector_sequence,
)


def initialize(settings, dictionary, **_rest):
    """The ids of words and features are those of the whole training file."""
    settings.dictionary = dictionary
    settings.input_types = [
        integer_value_sequence(len(dictionary.words) + 1),
        integer_value_sequence(len(dictionary.parts) + 1),
        integer_value_sequence(len(conll.TAGS)),
        sparse_binary_vector_sequence(len(dictionary.features) + 1),
    ]


@provider(init_hook=initialize, cache=CacheType.CACHE_PASS_IN_MEM)
def process(settings, file_name):
    for rows in conll.sentences(file_name):
        word, part, features, chunk = settings.dictionary.sample(rows)
        yield word, part, chunk, features
