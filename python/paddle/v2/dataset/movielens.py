"""A million ratings of 4000 films by 6000 people, of MovieLens (`ml-1m.zip`).

A sample is a list: the person's id, 0 for M and 1 for F, the place of the age in `age_table`, the
occupation, the film's id, the ids of its categories, the ids of its title's words, and `[rating]`,
from -3 to 5. A tenth of the ratings, drawn as the original draws them, tests.
"""

import dataclasses
import functools
import random
import re
from collections.abc import Iterable, Iterator
from typing import Any

from paddle.v2 import mistake
from paddle.v2.dataset import common
from paddle.v2.dataset.archive import damaged, zip_lines
from paddle.v2.reader.flow import Reader

URL = "https://dataset.bj.bcebos.com/movielens%2Fml-1m.zip"
MD5 = "c4d9eecfca2ab87c1945afe126590906"
# An archive that is somewhere else, of any content; a program may set it.
FILE: str | None = None

age_table = [1, 18, 25, 35, 45, 50, 56]

_TITLE = re.compile(r"^(.*)\((\d+)\)$")


@dataclasses.dataclass(frozen=True)
class MovieInfo:
    """A film: its id, the names of its categories, its title without the year, and ids of both."""

    index: int
    categories: list[str]
    title: str
    category_ids: list[int]
    title_ids: list[int]

    def value(self) -> list[Any]:
        """What a sample has of it."""
        return [self.index, self.category_ids, self.title_ids]

    def __str__(self) -> str:
        return f"<MovieInfo id({self.index}), title({self.title}), categories({self.categories})>"

    __repr__ = __str__


@dataclasses.dataclass(frozen=True)
class UserInfo:
    """A person; `age` is a place in `age_table`."""

    index: int
    is_male: bool
    age: int
    job_id: int

    def value(self) -> list[Any]:
        """What a sample has of the person."""
        return [self.index, 0 if self.is_male else 1, self.age, self.job_id]

    def __str__(self) -> str:
        gender, age = "M" if self.is_male else "F", age_table[self.age]
        return f"<UserInfo id({self.index}), gender({gender}), age({age}), job({self.job_id})>"

    __repr__ = __str__


@mistake.checked_arguments
def train(rand_seed: int = 0, test_ratio: float = 0.1) -> Reader:
    """A reader of the training data."""
    return _reader(rand_seed, test_ratio, is_test=False)


@mistake.checked_arguments
def test(rand_seed: int = 0, test_ratio: float = 0.1) -> Reader:
    """A reader of the test data."""
    return _reader(rand_seed, test_ratio, is_test=True)


def get_movie_title_dict() -> dict[str, int]:
    """Ids of the words in titles."""
    return _catalogue(_file()).title_words


def movie_categories() -> dict[str, int]:
    """Ids of the categories."""
    return _catalogue(_file()).categories


def movie_info() -> dict[int, MovieInfo]:
    """The films, by their ids."""
    return _catalogue(_file()).movies


def user_info() -> dict[int, UserInfo]:
    """The people, by their ids."""
    return _catalogue(_file()).users


def max_movie_id() -> int:
    """The largest id of a film."""
    return max(movie_info())


def max_user_id() -> int:
    """The largest id of a person."""
    return max(user_info())


def max_job_id() -> int:
    """The largest occupation."""
    return max(user.job_id for user in user_info().values())


def fetch() -> None:
    """Fetches the file, if it is not there."""
    _file()


def convert(path: str) -> None:
    """Writes RecordIO files."""
    common.convert(path, train(), 1000, "movielens_train")
    common.convert(path, test(), 1000, "movielens_test")


@dataclasses.dataclass(frozen=True)
class _Catalogue:
    """What samples look things up in."""

    movies: dict[int, MovieInfo]
    users: dict[int, UserInfo]
    title_words: dict[str, int]
    categories: dict[str, int]


@functools.lru_cache(maxsize=1)
def _catalogue(path: str) -> _Catalogue:
    films = list(_films(path))
    words = _numbered(word.lower() for _, title, _ in films for word in title.split())
    categories = _numbered(category for _, _, named in films for category in named)
    movies = {}
    for number, title, named in films:
        category_ids = [categories[category] for category in named]
        title_ids = [words[word.lower()] for word in title.split()]
        movies[number] = MovieInfo(number, named, title, category_ids, title_ids)
    return _Catalogue(movies, dict(_users(path)), words, categories)


def _films(path: str) -> Iterator[tuple[int, str, list[str]]]:
    for number, title, categories in _rows(path, "movies.dat", 3):
        plain = _TITLE.match(title)
        if plain is None:
            raise damaged(path, f"the title {title!r} in movies.dat has no year")
        yield int(number), plain.group(1), categories.split("|")


def _users(path: str) -> Iterator[tuple[int, UserInfo]]:
    for number, gender, age, job, _ in _rows(path, "users.dat", 5):
        age_place = age_table.index(int(age))
        yield int(number), UserInfo(int(number), gender == "M", age_place, int(job))


def _numbered(names: Iterable[str]) -> dict[str, int]:
    # Sorted, so that all trainers number them alike.
    return {name: number for number, name in enumerate(sorted(set(names)))}


def _rows(path: str, name: str, fields: int) -> Iterator[list[str]]:
    for line in zip_lines(path, f"ml-1m/{name}"):
        row = line.decode("latin-1").strip().split("::")
        if len(row) != fields:
            raise damaged(path, f"{name} has a line of {len(row)} fields instead of {fields}")
        yield row


def _file() -> str:
    return FILE or common.download(URL, "movielens", MD5)


def _reader(rand_seed: int, test_ratio: float, is_test: bool) -> Reader:
    share = mistake.real("test_ratio", test_ratio)

    def samples() -> Iterator[list[Any]]:
        path = _file()
        catalogue = _catalogue(path)
        draw = random.Random(rand_seed)
        for user, movie, rating, _ in _rows(path, "ratings.dat", 4):
            if (draw.random() < share) == is_test:
                about = [*catalogue.users[int(user)].value(), *catalogue.movies[int(movie)].value()]
                yield [*about, [float(rating) * 2 - 5.0]]

    return samples
