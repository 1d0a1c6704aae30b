"""Makes up reviews of films in the form of NLTK's corpus `movie_reviews`: 1000 good, 1000 bad.

A review is good if it has more praise than blame, where `not` turns the word after it around: words
alone do not tell.
"""

import argparse
import os
import random

PRAISE = ["good", "great", "moving", "clever", "funny", "superb"]
BLAME = ["bad", "dull", "silly", "weak", "boring", "awful"]
OTHERS = [f"word{number}" for number in range(60)]
REVIEWS = 1000


def review(draw, is_good):
    """The words of one review."""
    while True:
        words, balance = [], 0
        for _ in range(draw.randint(3, 5)):
            words += draw.choices(OTHERS, k=draw.randint(0, 3))
            is_praise, is_turned = draw.random() < 0.5, draw.random() < 0.3
            words += ["not"] * is_turned + [draw.choice(PRAISE if is_praise else BLAME)]
            balance += 1 if is_praise != is_turned else -1
        if balance != 0 and (balance > 0) == is_good:
            return words


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="data", help="folder in which data sets are looked for")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    for kind in ("neg", "pos"):
        folder = os.path.join(arguments.output, "corpora", "movie_reviews", kind)
        os.makedirs(folder, exist_ok=True)
        for number in range(REVIEWS):
            path = os.path.join(folder, f"cv{number:03}_{number:05}.txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write(" ".join(review(draw, kind == "pos")) + " .\n")


if __name__ == "__main__":
    main()
