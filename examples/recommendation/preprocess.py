"""MovieLens as the V1 provider reads it: what is known of films and people, and ratings in files.

`meta.bin` is a pickle of both and of how many ids there are; ratings are lines of
`user::movie::rating::time`, as in the archive, a tenth of them to test with.
"""

import argparse
import os
import pickle
import random
import re
import shutil
import zipfile

AGES = [1, 18, 25, 35, 45, 50, 56]
TEST_SHARE = 0.1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", default="data/ml-1m.zip")
    parser.add_argument("--output", default="data")
    parser.add_argument(
        "--package", help="make a whole package for a cluster in this folder instead"
    )
    parser.add_argument("--parts", type=int, default=2, help="files of the ratings to train with")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with zipfile.ZipFile(arguments.input) as archive:

        def lines(name):
            return archive.read(f"ml-1m/{name}").decode("latin-1").splitlines()

        meta = describe(lines("movies.dat"), lines("users.dat"))
        ratings = lines("ratings.dat")
    folder = arguments.package or arguments.output
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "meta.bin"), "wb") as file:
        pickle.dump(meta, file, protocol=4)
    draw = random.Random(arguments.seed)
    draw.shuffle(ratings)
    tests = int(len(ratings) * TEST_SHARE)
    # Paths in lists are those of the folder in which the training runs.
    shown = "" if arguments.package else folder
    write(folder, shown, "test", [ratings[:tests]])
    train = ratings[tests:]
    parts = [train[part :: arguments.parts] for part in range(arguments.parts)]
    write(folder, shown, "train", parts)
    if arguments.package:
        here = os.path.dirname(os.path.abspath(__file__))
        os.makedirs(os.path.join(folder, "conf"), exist_ok=True)
        configuration = os.path.join(folder, "conf/trainer_config.conf")
        shutil.copy(os.path.join(here, "trainer_config.py"), configuration)
        shutil.copy(os.path.join(here, "dataprovider.py"), folder)


def describe(movies, users):
    """Ids of everything that the network looks up."""
    words, genres = {}, {}
    meta = {"movie": {}, "user": {}}
    for line in movies:
        number, title, kinds = line.split("::")
        title = re.sub(r"\(\d{4}\)$", "", title).strip().lower()
        meta["movie"][int(number)] = {
            "title": [words.setdefault(word, len(words)) for word in title.split()],
            "genres": [genres.setdefault(kind, len(genres)) for kind in kinds.split("|")],
        }
    for line in users:
        number, gender, age, job, _ = line.split("::")
        meta["user"][int(number)] = {
            "gender": int(gender == "F"),
            "age": AGES.index(int(age)),
            "occupation": int(job),
        }
    meta["sizes"] = {
        "movie_id": max(meta["movie"]) + 1,
        "title": len(words),
        "genres": len(genres),
        "user_id": max(meta["user"]) + 1,
        "gender": 2,
        "age": len(AGES),
        "occupation": max(user["occupation"] for user in meta["user"].values()) + 1,
    }
    return meta


def write(folder, shown, name, parts):
    """Ratings in files of their own, and the list of the files."""
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    paths = []
    for number, part in enumerate(parts):
        path = f"{name}/ratings-{number:05d}"
        with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in part)
        paths.append(os.path.join(shown, path))
    with open(os.path.join(folder, f"{name}.list"), "w", encoding="utf-8") as file:
        file.writelines(f"{path}\n" for path in paths)


if __name__ == "__main__":
    main()
