"""Makes up sentences in the form of CoNLL-2000: a word, its part of speech and its chunk a line.

Chunks follow from words by a small grammar, in which the same word may begin a chunk or go on with
one; parts of speech are sometimes wrong, as those that a program found are.
"""

import argparse
import gzip
import os
import random

# What a chunk may be made of.
CHUNKS = {
    "NP": [["DT", "NN"], ["DT", "JJ", "NN"], ["NN", "NN"], ["PRP"], ["JJ", "NNS"], ["NN"]],
    "VP": [["VBD"], ["MD", "VB"], ["VBD", "TO", "VB"]],
    "PP": [["IN"]],
    "ADVP": [["RB"], ["RB", "RB"]],
    "O": [[","]],
}
# What a sentence may be made of.
SENTENCES = [
    "NP VP NP",
    "NP VP NP PP NP",
    "NP ADVP VP NP",
    "PP NP O NP VP NP",
    "NP VP PP NP ADVP",
    "NP VP NP NP",
]
WORDS = {"DT": 3, "JJ": 20, "NN": 40, "NNS": 20, "PRP": 5, "VBD": 20, "MD": 4, "VB": 20, "IN": 8}
WORDS |= {"RB": 10, "TO": 1, ",": 1}
WRONG_SHARE = 0.1


def sentence(draw):
    """Lines of one sentence."""
    lines = []
    for kind in draw.choice(SENTENCES).split():
        for place, part in enumerate(draw.choice(CHUNKS[kind])):
            tag = "O" if kind == "O" else f"{'I' if place else 'B'}-{kind}"
            word = f"{part.lower()}{draw.randrange(WORDS[part])}"
            shown = draw.choice(list(WORDS)) if draw.random() < WRONG_SHARE else part
            lines.append(f"{word} {shown} {tag}")
    return [*lines, ". . O"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="data", help="folder of train.txt.gz and test.txt.gz")
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--parts", type=int, default=2, help="files of train.list, for V1")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.makedirs(arguments.output, exist_ok=True)
    draw = random.Random(arguments.seed)
    for name, count in (("train", arguments.sentences), ("test", arguments.sentences // 4)):
        made = ["\n".join(sentence(draw)) + "\n\n" for _ in range(count)]
        write(arguments.output, f"{name}.txt.gz", made)
        # For V1, which names files in a list: the same sentences, dealt out.
        parts = arguments.parts if name == "train" else 1
        paths = [
            write(arguments.output, f"{name}-{part}.txt.gz", made[part::parts])
            for part in range(parts)
        ]
        with open(os.path.join(arguments.output, f"{name}.list"), "w", encoding="utf-8") as file:
            file.writelines(f"{path}\n" for path in paths)


def write(folder, name, texts):
    path = os.path.join(folder, name)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(texts)
    return path


if __name__ == "__main__":
    main()
