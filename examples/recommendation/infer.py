"""Tells which films a person would like best, and which least, with a saved model."""

import argparse
import gzip

from network import FEEDING, describe

import paddle.v2 as paddle
from paddle.v2.dataset import movielens


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", type=int, default=1, help="the person's id")
    parser.add_argument("--model", default="output/recommendation_pass_00009.tar.gz")
    parser.add_argument("--data", help="an archive like ml-1m.zip; else it is fetched")
    parser.add_argument("--count", type=int, default=3)
    arguments = parser.parse_args()

    paddle.init()
    if arguments.data:
        movielens.FILE = arguments.data
    _, guess = describe()
    with gzip.open(arguments.model) as file:
        parameters = paddle.parameters.Parameters.from_tar(file)
    about = movielens.user_info()[arguments.user].value()
    films = list(movielens.movie_info().values())
    samples = [about + film.value() for film in films]
    feeding = {name: place for name, place in FEEDING.items() if name != "score"}
    ratings = paddle.infer(guess, parameters, samples, feeding=feeding)[:, 0]
    order = ratings.argsort()[::-1]
    for place in [*order[: arguments.count], *order[-arguments.count :]]:
        # Ratings are trained as 2r − 5.
        stars = (ratings[place] + 5) / 2
        print(f"{stars:.1f} {films[place].title.strip()} {'|'.join(films[place].categories)}")


if __name__ == "__main__":
    main()
