"""Data sets of words, each read from a small file in exactly the format of its own."""

import gzip
import os
import random
import re
import tarfile

import pytest
from archives import converted, place, tar, zipped

from paddle import errors
from paddle.v2 import dataset
from paddle.v2.dataset import archive, common, conll05, imdb, imikolov, movielens, sentiment, wmt14

__all__ = ["place"]


def put_treebank(place, train=b" a b a c \n a <unk> \n", valid=b" b a \n"):
    texts = {"train": train, "valid": valid, "test": b" never read \n"}
    files = {f"./simple-examples/data/ptb.{name}.txt": text for name, text in texts.items()}
    place(imikolov, "imikolov/simple-examples.tgz", tar(files))


def test_words_are_ranked_by_frequency_and_name(place):
    put_treebank(place)
    # <e>, <s>: 3, a: 4, b: 2, c: 1; <unk> has no count of its own.
    assert imikolov.build_dict(0) == {"a": 0, "<e>": 1, "<s>": 2, "b": 3, "c": 4, "<unk>": 5}
    assert imikolov.build_dict(min_word_freq=2) == {"a": 0, "<e>": 1, "<s>": 2, "<unk>": 3}
    assert imikolov.build_dict() == {"<unk>": 0}


def test_rows_of_words_and_sentences_are_read(place):
    put_treebank(place)
    ids = imikolov.build_dict(1)
    a, end, start, b, unknown = (ids[word] for word in ["a", "<e>", "<s>", "b", "<unk>"])
    rows = [(start, a, b, a), (a, b, a, unknown), (b, a, unknown, end), (start, a, unknown, end)]
    assert list(imikolov.train(ids, 4)()) == rows
    assert list(imikolov.test(ids, 4)()) == [(start, b, a, end)]
    assert list(imikolov.test(ids, 5)()) == []
    pairs = [([start, a, b, a, unknown], [a, b, a, unknown, end])]
    pairs.append(([start, a, unknown], [a, unknown, end]))
    assert list(imikolov.train(ids, 0, imikolov.DataType.SEQ)()) == pairs
    assert list(imikolov.train(ids, 4, imikolov.DataType.SEQ)()) == pairs[1:]
    with pytest.raises(ValueError, match="data_type must be"):
        imikolov.train(ids, 4, 3)


def test_rows_of_five_words_are_converted(place, tmp_path):
    put_treebank(place, train=b"a b c\n" * 51, valid=b"d e f g\n")
    assert converted(imikolov, tmp_path / "out") == {
        "imikolov_test-00000": 2,
        "imikolov_train-00000": 51,
    }


def test_a_treebank_without_its_text_is_damaged(place):
    place(imikolov, "imikolov/simple-examples.tgz", tar({"simple-examples/README": b"hello"}))
    with pytest.raises(errors.DamagedError, match="has no file simple-examples/data/ptb.train.txt"):
        imikolov.build_dict()


def test_an_archive_that_was_cut_is_damaged(place):
    content = os.urandom(100_000)
    packed = tar({"simple-examples/data/ptb.train.txt": content})
    place(imikolov, "imikolov/simple-examples.tgz", packed[: len(packed) // 2])
    with pytest.raises(errors.DamagedError, match="cannot read simple-examples.tgz"):
        imikolov.build_dict()


def test_reviews_are_read_the_good_ones_first(place, tmp_path):
    files = {
        "aclImdb/imdb.vocab": b"no review",
        "aclImdb/test/neg/0_2.txt": b"Bad, bad film!",
        "aclImdb/train/neg/0_3.txt": b"Bad film.<br />So bad",
        "aclImdb/train/pos/0_9.txt": "Good film, très bon\u00a0!".encode(),
        "aclImdb/train/pos/1_7.txt": b"good\n",
        "aclImdb/train/unsup/0_0.txt": b"never read",
        "aclImdb/test/pos/0_10.txt": b"good good; \xff",
    }
    place(imdb, "imdb/aclImdb_v1.tar.gz", tar(files))
    ids = imdb.word_dict(1)
    assert ids == {"bad": 0, "good": 1, "film": 2, "<unk>": 3}
    # A no-break space is part of a word: in the original, words are bytes.
    assert list(imdb.train(ids)()) == [([1, 2, 3, 3], 0), ([1], 0), ([0, 3, 3, 0], 1)]
    assert list(imdb.test(ids)()) == [([1, 1, 3], 0), ([0, 0, 2], 1)]
    everything = imdb.word_dict(0)
    assert "bon\u00a0" in everything and "filmbr" in everything
    assert imdb.build_dict(re.compile("aclImdb/train/pos/.*"), 1) == {"good": 0, "<unk>": 1}
    once = imdb.train(ids)
    assert list(once()) == list(once())
    assert converted(imdb, tmp_path / "out") == {"imdb_test-00000": 2, "imdb_train-00000": 3}


def put_ratings(place, movies=None, ratings=None):
    movies = movies or "1::Toy Story (1995)::Animation|Comedy\n3::Été, L' (1968)::Comedy\n"
    users = "1::F::1::10::48067\n2::M::56::16::70072\n"
    ratings = ratings or "1::3::5::978300760\n2::1::1::978302109\n"
    files = {"ml-1m/": "", "ml-1m/README": "", "ml-1m/movies.dat": movies}
    files |= {"ml-1m/users.dat": users, "ml-1m/ratings.dat": ratings}
    packed = zipped({name: text.encode("latin-1") for name, text in files.items()})
    place(movielens, "movielens/ml-1m.zip", packed)


def test_ratings_are_joined_with_films_and_people(place):
    put_ratings(place)
    words = {"l'": 0, "story": 1, "toy": 2, "été,": 3}
    assert movielens.get_movie_title_dict() == words
    assert movielens.movie_categories() == {"Animation": 0, "Comedy": 1}
    assert list(movielens.train(test_ratio=0)()) == [
        [1, 1, 0, 10, 3, [1], [3, 0], [5.0]],
        [2, 0, 6, 16, 1, [0, 1], [2, 1], [-3.0]],
    ]
    assert (movielens.max_movie_id(), movielens.max_user_id(), movielens.max_job_id()) == (3, 2, 16)
    film = movielens.movie_info()[1]
    assert str(film) == "<MovieInfo id(1), title(Toy Story ), categories(['Animation', 'Comedy'])>"
    assert film.value() == [1, [0, 1], [2, 1]]
    assert str(movielens.user_info()[2]) == "<UserInfo id(2), gender(M), age(56), job(16)>"


def test_a_tenth_of_the_ratings_drawn_with_seed_0_tests(place, tmp_path):
    put_ratings(place, ratings="".join(f"1::1::{n % 5 + 1}::0\n" for n in range(100)))
    draw = random.Random(0)
    is_test = [draw.random() < 0.1 for _ in range(100)]
    expect = [(n % 5 + 1) * 2 - 5 for n in range(100) if is_test[n]]
    assert [sample[-1][0] for sample in movielens.test()()] == expect
    assert converted(movielens, tmp_path / "out") == {
        "movielens_test-00000": len(expect),
        "movielens_train-00000": 100 - len(expect),
    }


def test_damaged_films_are_noticed(place):
    put_ratings(place, movies="1::Toy Story::Comedy\n")
    with pytest.raises(errors.DamagedError, match="'Toy Story' in movies.dat has no year"):
        movielens.movie_info()
    put_ratings(place, movies="1::Toy Story (1995)\n")
    with pytest.raises(errors.DamagedError, match="a line of 2 fields instead of 3"):
        movielens.movie_info()


SENTENCES = [
    # Words; then the predicates and a column for each.
    ("The DT cat sat and slept", "- - - sit - sleep", ["(A0* * *) (V*) * *", "* * * * * (V*)"]),
    ("Hello", "-", []),
    ("Go away", "go -", ["(V*) (AM-DIR*)"]),
]


def put_roles(place, sentences=SENTENCES, verbs="sit\nsleep\ngo\n"):
    words, props = [], []
    for text, predicates, columns in sentences:
        words += [f"{word}\n" for word in text.split()] + ["\n"]
        rows = zip(predicates.split(), *(column.split() for column in columns), strict=True)
        props += ["   ".join(row) + "\n" for row in rows] + ["\n"]
    files = {
        conll05.WORDS_FILE: gzip.compress("".join(words).encode()),
        conll05.PROPS_FILE: gzip.compress("".join(props).encode()),
        "conll05st-release/README": b"",
    }
    place(conll05, "conll05st/conll05st-tests.tar.gz", tar(files), "DATA_MD5")
    names = {"WORDDICT": "wordDict.txt", "VERBDICT": "verbDict.txt", "TRGDICT": "targetDict.txt"}
    texts = ["<unk>\nbos\neos\nThe\ncat\nsat\nand\nGo\n", verbs]
    texts.append("B-A0\nI-A0\nB-V\nO\nI-AM-DIR\n")
    for (constant, name), text in zip(names.items(), texts, strict=True):
        place(conll05, f"conll05st/{name}", text.encode(), f"{constant}_MD5")
    place(conll05, "conll05st/emb", b"vectors", "EMB_MD5")


def test_dictionaries_of_roles_are_read(place):
    put_roles(place)
    words, verbs, labels = conll05.get_dict()
    assert words["sat"] == 5 and verbs == {"sit": 0, "sleep": 1, "go": 2}
    names = ["B-A0", "I-A0", "B-V", "I-V", "B-AM-DIR", "I-AM-DIR", "O"]
    assert labels == {name: number for number, name in enumerate(names)}
    assert conll05.get_embedding().endswith("conll05st/emb")


def test_roles_are_read(place, tmp_path):
    put_roles(place)
    samples = list(conll05.test()())
    assert len(samples) == 3
    the, cat, sat, both, go = 3, 4, 5, 6, 7
    begin, end, unknown = 1, 2, 0
    sentence = [the, unknown, cat, sat, both, unknown]
    context = [[word] * 6 for word in [unknown, cat, sat, both, unknown]]
    labels = [0, 1, 1, 2, 6, 6]
    assert samples[0] == (sentence, *context, [0] * 6, [0, 1, 1, 1, 1, 1], labels)
    context = [[word] * 6 for word in [sat, both, unknown, end, end]]
    assert samples[1] == (sentence, *context, [1] * 6, [0, 0, 0, 1, 1, 1], [6, 6, 6, 6, 6, 2])
    context = [[word] * 2 for word in [begin, begin, go, unknown, end]]
    assert samples[2] == ([go, unknown], *context, [2] * 2, [1, 1], [2, 4])
    assert converted(conll05, tmp_path / "out") == {
        "conl105_test-00000": 3,
        "conl105_train-00000": 3,
    }


@pytest.mark.parametrize(
    ("sentences", "error", "message"),
    [
        ([("Go", "go", [])], errors.DamagedError, "1 predicates must have as many columns"),
        ([("Go", "go", ["V"])], errors.DamagedError, "the label 'V' is none of"),
        ([("Go", "go", ["*"])], errors.DamagedError, "no word is the predicate 'go'"),
        ([("Go", "run", ["(V*)"])], errors.InvalidError, "the verb 'run' of the data is not in"),
        ([("Go on", "go -", ["(V*) (B*)"])], errors.InvalidError, "the label 'B-B'"),
    ],
)
def test_damaged_roles_are_noticed(place, sentences, error, message):
    put_roles(place, sentences)
    with pytest.raises(error, match=message):
        list(conll05.test()())


def put_translations(place, train=None):
    long = "le " * 79
    lines = ["le chat\tthe cat", "no tab", f"{long}\tthe", "le\tthe\tdog", "chien\u00a0!\tdog"]
    files = {
        "wmt14/src.dict": "<s>\n<e>\n<unk>\nle\nchat\n",
        "wmt14/trg.dict": "<s>\n<e>\n<unk>\nthe\ncat\ndog\n",
        "wmt14/train/train": train or "\n".join(lines) + "\n",
        "wmt14/test/test": "chat\tcat\n",
        "wmt14/gen/gen": "le\tthe\n",
    }
    packed = tar({name: text.encode() for name, text in files.items()})
    place(wmt14, "wmt14/wmt14.tgz", packed, "MD5_TRAIN")


def test_translations_are_read(place, tmp_path):
    put_translations(place)
    assert list(wmt14.train(30000)()) == [
        ([0, 3, 4, 1], [0, 3, 4], [3, 4, 1]),
        ([0, 2, 1], [0, 5], [5, 1]),
    ]
    assert list(wmt14.test(4)()) == [([0, 2, 1], [0, 2], [2, 1])]
    assert list(wmt14.gen(5)()) == [([0, 3, 1], [0, 3], [3, 1])]
    source, target = wmt14.get_dict(4)
    assert source == {0: "<s>", 1: "<e>", 2: "<unk>", 3: "le"} and target[3] == "the"
    assert wmt14.get_dict(5, reverse=False)[1]["cat"] == 4
    with pytest.raises(ValueError, match="dict_size must be 3 or more"):
        wmt14.train(2)
    assert converted(wmt14, tmp_path / "out") == {"wmt14_test-00000": 1, "wmt14_train-00000": 2}


def test_dictionaries_of_another_form_are_refused(place):
    files = {"src.dict": b"le\nchat\nchien\n", "trg.dict": b"<s>\n<e>\n<unk>\n", "train/train": b""}
    place(wmt14, "wmt14/wmt14.tgz", tar(files), "MD5_TRAIN")
    with pytest.raises(errors.DamagedError, match="has no file src.dict that begins with <s>"):
        wmt14.get_dict(10)


REVIEWS = {
    "neg/cv001_2.txt": "bad , bad .\n",
    "neg/cv000_9.txt": "it's bad\n",
    "pos/cv000_1.txt": 'good " good "\n',
    "pos/cv001_0.txt": "good bad !!\n",
}


def check_sentiments(tmp_path, monkeypatch):
    ranked = sentiment.get_word_dict()
    assert ranked[:3] == [("bad", 0), ("good", 1), ('"', 2)]
    assert [place for _, place in ranked] == list(range(len(ranked)))
    assert {word for word, _ in ranked} == {"bad", "good", '"', "!!", ",", ".", "'", "it", "s"}
    ids = dict(ranked)
    monkeypatch.setattr(sentiment, "NUM_TRAINING_INSTANCES", 3)
    train, test = list(sentiment.train()()), list(sentiment.test()())
    assert train == [
        ([ids["it"], ids["'"], ids["s"], 0], 0),
        ([1, 2, 1, 2], 1),
        ([0, ids[","], 0, ids["."]], 0),
    ]
    assert test == [([1, 0, ids["!!"]], 1)]
    written = converted(sentiment, tmp_path / "out")
    assert written == {"sentiment_test-00000": 1, "sentiment_train-00000": 3}


def test_sentiments_are_read_from_the_archive(place, tmp_path, monkeypatch):
    files = {f"movie_reviews/{name}": text for name, text in REVIEWS.items()}
    files["movie_reviews/README"] = "about"
    place(sentiment, "corpora/movie_reviews.zip", zipped(files))
    check_sentiments(tmp_path, monkeypatch)


def test_sentiments_are_read_from_the_folder_of_nltk(place, tmp_path, monkeypatch):
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path))
    for name, text in REVIEWS.items():
        path = tmp_path / "corpora" / "movie_reviews" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    check_sentiments(tmp_path, monkeypatch)


def test_an_archive_without_reviews_is_damaged(place):
    place(sentiment, "corpora/movie_reviews.zip", zipped({"movie_reviews/README": "about"}))
    with pytest.raises(errors.DamagedError, match="no files neg"):
        sentiment.get_word_dict()
    place(sentiment, "corpora/movie_reviews.zip", b"no zip")
    with pytest.raises(errors.DamagedError, match="not a zip file"):
        list(sentiment.train()())


def test_links_in_an_archive_are_not_followed(tmp_path):
    path = tmp_path / "links.tar"
    (tmp_path / "secret").write_text("secret")
    with tarfile.open(path, "w") as file:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            member = tarfile.TarInfo("data/train.txt")
            member.type, member.linkname = kind, str(tmp_path / "secret")
            file.addfile(member)
    with pytest.raises(errors.DamagedError, match="has no file data/train.txt"):
        list(archive.tar_lines(str(path), "data/train.txt"))


def test_a_file_of_an_archive_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MEMBER_BYTES_MAX", 9)
    path = tmp_path / "large.tgz"
    path.write_bytes(tar({"a": b"123456789", "b": b"1234567890"}))
    files = archive.tar_files(str(path), lambda name: True)
    assert next(files) == ("a", b"123456789")
    with pytest.raises(errors.LimitExceededError, match="larger than 9 bytes .* file: b"):
        next(files)


def test_all_data_sets_are_fetched_and_converted(place, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(common, "download", lambda url, name, *_: asked.append(name) or os.devnull)
    for module in (movielens, imdb, imikolov, wmt14, sentiment):
        module.fetch()
    assert asked == ["movielens", "imdb", "imikolov", "wmt14", "wmt14", "corpora"]
    folders = []
    for name in dataset.__all__:
        module = getattr(dataset, name)
        if name not in ("common", "convert", "split"):
            monkeypatch.setattr(module, "fetch", lambda name=name: asked.append(name))
            monkeypatch.setattr(module, "convert", folders.append)
    asked.clear()
    common.fetch_all()
    common.fetch_all_recordio(tmp_path)
    assert sorted(asked) == [
        "cifar", "conll05", "flowers", "imdb", "imikolov", "mnist", "movielens", "mq2007",
        "sentiment", "uci_housing", "voc2012", "wmt14", "wmt16",
    ]  # fmt: skip
    assert sorted(folders) == [str(tmp_path / name) for name in sorted(asked)]
