"""Makes up texts in which a word mostly follows from the one before it.

`prepare.py --generate` uses them; run alone it writes them as the files of the PTB corpus.
"""

import argparse
import os
import random

WORDS = 60
FOLLOWS_SHARE = 0.8


def texts(sentences, seed):
    """Sentences for training and test, as lists of words."""
    draw = random.Random(seed)
    following = rule(seed)
    words = list(following)

    def sentence():
        row = [draw.choice(words)]
        for _ in range(draw.randint(7, 12)):
            follows = draw.random() < FOLLOWS_SHARE
            row.append(following[row[-1]] if follows else draw.choice(words))
        return row

    return {
        "train": [sentence() for _ in range(sentences)],
        "test": [sentence() for _ in range(sentences // 10)],
    }


def rule(seed):
    """What mostly follows each word."""
    words = [f"word{number}" for number in range(WORDS)]
    return dict(zip(words, random.Random(seed).sample(words, WORDS), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="data", help="folder of ptb.train.txt and others")
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.makedirs(arguments.output, exist_ok=True)
    made = texts(arguments.sentences, arguments.seed)
    for name, file in (("train", "ptb.train.txt"), ("test", "ptb.valid.txt")):
        with open(os.path.join(arguments.output, file), "w", encoding="utf-8") as text:
            text.writelines(f" {' '.join(sentence)} \n" for sentence in made[name])


if __name__ == "__main__":
    main()
