"""Makes up an archive in the form of `wmt14.tgz`, whose translations are the words reversed.

The source is in small letters, the target has the same letters large, the last word first.
"""

import argparse
import io
import os
import random
import string
import tarfile

SPECIAL = ["<s>", "<e>", "<unk>"]
LETTERS = string.ascii_lowercase[:10]
WORDS_MIN, WORDS_MAX = 2, 6


def pair(draw):
    """One line: a source and its translation."""
    words = draw.choices(LETTERS, k=draw.randint(WORDS_MIN, WORDS_MAX))
    return f"{' '.join(words)}\t{' '.join(word.upper() for word in reversed(words))}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="data/wmt14.tgz")
    parser.add_argument("--sentences", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    os.makedirs(os.path.dirname(arguments.output) or ".", exist_ok=True)
    draw = random.Random(arguments.seed)
    files = {
        "src.dict": "\n".join([*SPECIAL, *LETTERS]) + "\n",
        "trg.dict": "\n".join([*SPECIAL, *LETTERS.upper()]) + "\n",
    }
    counts = {"train": arguments.sentences, "test": 200, "gen": 100}
    for name, count in counts.items():
        files[f"{name}/{name}"] = "".join(pair(draw) for _ in range(count))
    with tarfile.open(arguments.output, "w:gz") as archive:
        for name, text in files.items():
            content = text.encode()
            member = tarfile.TarInfo(f"wmt14/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


if __name__ == "__main__":
    main()
