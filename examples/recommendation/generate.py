"""Makes data in the format of MovieLens that is easy to learn.

Every age and gender has its own taste for each category of films; a rating is the taste for the
film's categories, with noise.
"""

import argparse
import os
import zipfile

import numpy as np

from paddle.v2.dataset.movielens import age_table

CATEGORIES = ["Action", "Children's", "Comedy", "Drama", "Horror", "Musical", "Sci-Fi", "Western"]
ADJECTIVES = ["Last", "Silent", "Golden", "Lost", "Secret", "Broken"]
NOUNS = ["River", "City", "Train", "Dream", "Summer", "Island"]
JOBS = 21
NOISE = 0.4


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="data/ml-1m.zip")
    parser.add_argument("--users", type=int, default=100)
    parser.add_argument("--movies", type=int, default=80)
    parser.add_argument("--ratings", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    draw = np.random.default_rng(arguments.seed)
    tastes = draw.uniform(0.5, 5.5, (2, len(age_table), len(CATEGORIES)))
    users = [(draw.integers(2), draw.integers(len(age_table))) for _ in range(arguments.users)]
    movies = [
        draw.choice(len(CATEGORIES), draw.integers(1, 3), replace=False)
        for _ in range(arguments.movies)
    ]
    files = {
        "users.dat": [user_line(number, user, draw) for number, user in enumerate(users, 1)],
        "movies.dat": [movie_line(number, movie, draw) for number, movie in enumerate(movies, 1)],
        "ratings.dat": [],
    }
    for time in range(arguments.ratings):
        user, movie = draw.integers(arguments.users), draw.integers(arguments.movies)
        taste = tastes[users[user]][movies[movie]].mean() + draw.normal(0, NOISE)
        rating = int(np.clip(round(taste), 1, 5))
        files["ratings.dat"].append(f"{user + 1}::{movie + 1}::{rating}::{978300000 + time}")

    os.makedirs(os.path.dirname(arguments.output) or ".", exist_ok=True)
    with zipfile.ZipFile(arguments.output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, lines in files.items():
            archive.writestr(f"ml-1m/{name}", "\n".join(lines) + "\n")


def user_line(number, user, draw):
    is_female, age = user
    gender = "F" if is_female else "M"
    return f"{number}::{gender}::{age_table[age]}::{draw.integers(JOBS)}::12345"


def movie_line(number, categories, draw):
    title = f"{draw.choice(ADJECTIVES)} {draw.choice(NOUNS)} ({draw.integers(1950, 2000)})"
    return f"{number}::{title}::{'|'.join(CATEGORIES[each] for each in categories)}"


if __name__ == "__main__":
    main()
