"""Data sets of pictures, translations and pages to be ranked, on small files in their real formats.

The files are made here, by the descriptions of the formats: MATLAB 5, tar, JPEG, PNG with a
palette, LETOR's lines.
"""

import io
import os
import stat
import struct
import tarfile
import zlib

import numpy
import pytest
from archives import place, tar
from PIL import Image

from paddle import errors
from paddle.v2.dataset import common, flowers, matlab, mq2007, voc2012, wmt16

__all__ = ["place"]

# MATLAB


def element(kind, content, is_small=False):
    if is_small:
        return struct.pack("<HH", kind, len(content)) + content.ljust(4, b"\0")
    return struct.pack("<II", kind, len(content)) + content + bytes(-len(content) % 8)


def matrix(name, values, kind=2):
    """A matrix of one row: of bytes (2) or of 16 bits (4)."""
    numbers = numpy.array(values, dtype={2: "<u1", 4: "<u2"}[kind]).tobytes()
    parts = [
        element(6, struct.pack("<II", {2: 9, 4: 11}[kind], 0)),
        element(5, struct.pack("<ii", 1, len(values))),
        element(1, name.encode(), is_small=len(name) <= 4),
        element(kind, numbers, is_small=len(numbers) <= 4),
    ]
    return element(14, b"".join(parts))


def matlab_file(*matrices, is_compressed=True):
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    if is_compressed:
        matrices = [
            struct.pack("<II", 15, len(packed)) + packed for packed in map(zlib.compress, matrices)
        ]
    return header + b"".join(matrices)


@pytest.mark.parametrize("is_compressed", [True, False])
def test_matrices_of_matlab_are_read(tmp_path, is_compressed):
    path = tmp_path / "sets.mat"
    content = matlab_file(
        matrix("trnid", [3, 1, 300], kind=4),
        matrix("abc", [7, 8, 9]),
        is_compressed=is_compressed,
    )
    path.write_bytes(content)
    assert matlab.read(str(path), "trnid").tolist() == [[3, 1, 300]]
    assert matlab.read(str(path), "abc").tolist() == [[7, 8, 9]]
    with pytest.raises(errors.DamagedError, match="no matrix labels"):
        matlab.read(str(path), "labels")
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(errors.DamagedError):
            matlab.read(str(path), "abc")


# Flowers


def jpeg(colour, size=(260, 250)):
    packed = io.BytesIO()
    Image.new("RGB", size, colour).save(packed, "JPEG", quality=95)
    return packed.getvalue()


@pytest.fixture
def garden(place):
    """Four pictures: two to train with, one to test, one to choose by."""
    colours = ["red", "lime", "blue", "white"]
    pictures = {f"jpg/image_{n:05}.jpg": jpeg(each) for n, each in enumerate(colours, start=1)}
    place(flowers, "flowers/102flowers.tgz", tar(pictures), "DATA_MD5")
    labels = matlab_file(matrix("labels", [77, 1, 102, 5]))
    place(flowers, "flowers/imagelabels.mat", labels, "LABEL_MD5")
    sets = matlab_file(
        matrix("trnid", [3], kind=4), matrix("valid", [4], kind=4), matrix("tstid", [1, 2], kind=4)
    )
    place(flowers, "flowers/setid.mat", sets, "SETID_MD5")


@pytest.mark.parametrize("use_xmap", [True, False])
def test_flowers_are_pictures_and_kinds(garden, use_xmap):
    trained = list(flowers.train(use_xmap=use_xmap)())
    assert [label for _, label in trained] == [76, 0]
    pixels = trained[0][0]
    assert (pixels.shape, pixels.dtype) == ((3 * 224 * 224,), numpy.float32)
    # Red is the last channel: 255 less its mean there, and 0 less theirs in the others.
    means = pixels.reshape(3, -1).mean(axis=1)
    numpy.testing.assert_allclose(means, [-103.94, -116.78, 255 - 123.68], atol=3)
    assert [label for _, label in flowers.test(use_xmap=use_xmap)()] == [101]
    assert [label for _, label in flowers.valid(use_xmap=use_xmap)()] == [4]


def test_a_program_may_make_its_own_samples_of_flowers(garden):
    found = list(flowers.train(mapper=lambda sample: (sample[0][:2], sample[1]))())
    assert found == [(b"\xff\xd8", 76), (b"\xff\xd8", 0)]


def test_flowers_without_some_pictures_are_damaged(garden, place):
    place(flowers, "flowers/102flowers.tgz", tar({"jpg/image_00001.jpg": jpeg("red")}), "DATA_MD5")
    with pytest.raises(errors.DamagedError, match="1 of 2 pictures"):
        list(flowers.train()())


# Segmentations


def segmented(name, size=(4, 3), classes=(0, 15, 255)):
    """A picture and its classes, one a row, as a palette's places."""
    picture = Image.new("P", size)
    picture.putpalette([value for place in range(256) for value in (place, 255 - place, 7)])
    picture.putdata([each for each in classes for _ in range(size[0])])
    packed = io.BytesIO()
    picture.save(packed, "PNG")
    return {
        voc2012.DATA_FILE.format(name): jpeg("blue", size),
        voc2012.LABEL_FILE.format(name): packed.getvalue(),
    }


def plain_tar(files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as file:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_every_pixel_of_voc_has_a_class(place):
    files = {**segmented("2007_000032"), **segmented("2007_000033", classes=(1, 2, 3))}
    sets = {"train": "2007_000033\n", "val": "2007_000032\n"}
    sets["trainval"] = sets["train"] + sets["val"]
    files |= {voc2012.SET_FILE.format(name): text.encode() for name, text in sets.items()}
    place(voc2012, "voc2012/VOCtrainval_11-May-2012.tar", plain_tar(files), "VOC_MD5")
    both = list(voc2012.train()())
    assert [classes[:, 0].tolist() for _, classes in both] == [[1, 2, 3], [0, 15, 255]]
    picture, classes = both[0]
    assert (picture.shape, classes.shape) == ((3, 4, 3), (3, 4))
    assert picture[0, 0, 2] > 200 > picture[0, 0, 0], "red, green, blue"
    assert len(list(voc2012.test()())) == len(list(voc2012.val()())) == 1


def test_voc_without_a_picture_is_damaged(place):
    files = {voc2012.SET_FILE.format("val"): b"2007_000032\n"}
    place(voc2012, "voc2012/VOCtrainval_11-May-2012.tar", plain_tar(files), "VOC_MD5")
    with pytest.raises(errors.DamagedError, match=r"2007_000032\.jpg"):
        list(voc2012.val()())


# Translations


PAIRS = {
    "wmt16/train": "a man .\tein mann .\na dog .\tein hund .\n",
    "wmt16/test": "a cat .\teine katze .\n",
    "wmt16/val": "a man\tein mann\nno tab here\n",
}


@pytest.fixture
def sentences(place):
    files = {name: text.encode() for name, text in PAIRS.items()}
    place(wmt16, "wmt16/wmt16.tar.gz", tar(files), "DATA_MD5")


def test_wmt16_counts_its_words_and_translates_both_ways(sentences):
    english = wmt16.get_dict("en", 100)
    assert english == {"<s>": 0, "<e>": 1, "<unk>": 2, ".": 3, "a": 4, "dog": 5, "man": 6}
    german = wmt16.get_dict("de", 5, reverse=True)
    assert german == {0: "<s>", 1: "<e>", 2: "<unk>", 3: ".", 4: "ein"}
    assert list(wmt16.train(100, 5)()) == [
        ([0, 4, 6, 3, 1], [0, 4, 2, 3], [4, 2, 3, 1]),
        ([0, 4, 5, 3, 1], [0, 4, 2, 3], [4, 2, 3, 1]),
    ]
    assert list(wmt16.test(100, 5)()) == [([0, 4, 2, 3, 1], [0, 2, 2, 3], [2, 2, 3, 1])]
    assert list(wmt16.validation(5, 100, src_lang="de")()) == [([0, 4, 2, 1], [0, 4, 6], [4, 6, 1])]


def test_other_languages_and_sizes_are_refused(sentences):
    with pytest.raises(errors.InvalidError, match="src_lang"):
        wmt16.train(100, 100, src_lang="fr")
    with pytest.raises(errors.InvalidError, match="src_dict_size must be 3 or more"):
        wmt16.train(2, 100)


# Pages to be ranked


def page(relevance, query, first, note="docid = GX000"):
    values = [first, *(0.0 for _ in range(45))]
    features = " ".join(f"{place}:{value:f}" for place, value in enumerate(values, start=1))
    return f"{relevance} qid:{query} {features} #{note}\n"


LINES = [
    page(0, 10, 0.1),
    page(2, 10, 0.2),
    page(1, 10, 0.3),
    page(0, 20, 0.4),
    page(1, 30, 0.5).replace("2:0.000000", "2:NULL"),
]


@pytest.fixture
def judged(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path))
    monkeypatch.setattr(common, "DOWNLOAD_TRIES", 0)
    folder = tmp_path / "MQ2007" / "MQ2007" / "MQ2007" / "Fold1"
    folder.mkdir(parents=True)
    for name in ("train", "test"):
        (folder / f"{name}.txt").write_text("".join(LINES))
    return folder


def test_pages_of_a_query_are_pairs(judged):
    pairs = [(label.tolist(), a[0], b[0]) for label, a, b in mq2007.train(shuffle=False)]
    assert pairs == [([1], 0.2, 0.3), ([1], 0.2, 0.1), ([1], 0.3, 0.1)]


def test_pages_of_a_query_are_lists_or_points(judged):
    lists = list(mq2007.test(format="listwise", shuffle=False, fill_missing=-7))
    assert [labels.tolist() for labels, _ in lists] == [[[2], [1], [0]], [[1]]]
    assert lists[0][1].shape == (3, 46)
    assert lists[1][1][0, :3].tolist() == [0.5, -7, 0]
    points = list(mq2007.train(format="pointwise", shuffle=False))
    assert [relevance for relevance, _ in points] == [2, 1, 0, 1]
    plain = list(mq2007.train(format="plain_txt", shuffle=False))
    assert [(query, relevance) for query, relevance, _ in plain] == [
        (10, 2), (10, 1), (10, 0), (30, 1)
    ]  # fmt: skip


def test_wrong_lines_of_pages_are_named(judged):
    with pytest.raises(errors.InvalidError, match="format must be one of"):
        mq2007.train(format="pairs")
    (judged / "train.txt").write_text(LINES[0] + "0 qid:10 1:0.5 #\n")
    with pytest.raises(errors.DamagedError, match="line 2 must be"):
        list(mq2007.train())


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A file in the archive's place; the programs that are found are those of a folder."""
    monkeypatch.setattr(common, "DATA_HOME", str(tmp_path))
    (tmp_path / "MQ2007").mkdir()
    packed = tmp_path / "MQ2007" / mq2007.URL.rsplit("/", 1)[-1]
    packed.write_bytes(b"Rar!")
    monkeypatch.setattr(mq2007, "MD5", common.md5file(packed))
    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    return tools


def test_without_a_program_for_its_archive_it_says_what_to_do(archive):
    with pytest.raises(errors.UnsupportedError, match="bsdtar, unrar, unar, 7z.*train.txt"):
        mq2007.train()


def test_the_archive_is_unpacked_once_and_by_what_is_installed(archive, tmp_path):
    lines = tmp_path / "lines"
    lines.write_text("".join(LINES))
    script = archive / "unrar"
    script.write_text(
        "#!/bin/sh\nset -e\n[ $1 = x ] && /usr/bin/test -f $4\n"
        f"/bin/mkdir -p MQ2007/Fold1\n/bin/cp {lines} MQ2007/Fold1/train.txt\n"
    )
    script.chmod(stat.S_IRWXU)
    assert len(list(mq2007.train())) == 3
    os.remove(script)
    assert len(list(mq2007.train())) == 3


def test_an_archive_that_cannot_be_unpacked_is_damaged(archive):
    script = archive / "unrar"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(stat.S_IRWXU)
    with pytest.raises(errors.DamagedError, match="unrar cannot unpack"):
        mq2007.train()
    assert sorted(os.listdir(common.DATA_HOME + "/MQ2007")) == [mq2007.URL.rsplit("/", 1)[-1]]
