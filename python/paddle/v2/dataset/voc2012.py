"""Pictures whose every pixel has a class: the segmentations of Pascal VOC 2012.

A sample is a picture, height x width x 3 bytes in the order red, green, blue, and the class of each
pixel, height x width: 0 is the background, 1 to 20 are things, 255 is a border. Pictures differ in
size. As in the original `train` has all 2913 of them, `test` the 1464 of the authors' training set,
and `val` the 1449 others.
"""

import io
import tarfile
from collections.abc import Iterator
from typing import Any, BinaryIO, cast

import numpy as np

from paddle.v2 import image
from paddle.v2.dataset import common
from paddle.v2.dataset.archive import damaged, missing, reading, whole
from paddle.v2.reader.flow import Reader

VOC_URL = "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar"
VOC_MD5 = "6cd6e144f989b92b3379bac3b3de84fd"
SET_FILE = "VOCdevkit/VOC2012/ImageSets/Segmentation/{}.txt"
DATA_FILE = "VOCdevkit/VOC2012/JPEGImages/{}.jpg"
LABEL_FILE = "VOCdevkit/VOC2012/SegmentationClass/{}.png"


def train() -> Reader:
    """A reader of all pictures."""
    return _reader("trainval")


def test() -> Reader:
    """A reader of the authors' training set."""
    return _reader("train")


def val() -> Reader:
    """A reader of the authors' set to choose a model by."""
    return _reader("val")


def fetch() -> None:
    """Fetches the file, if it is not there."""
    _file()


def convert(path: str) -> None:
    """Writes RecordIO files."""
    common.convert(path, train(), 1000, "voc2012_train")
    common.convert(path, val(), 1000, "voc2012_val")


def _file() -> str:
    return common.download(VOC_URL, "voc2012", VOC_MD5)


def _reader(part: str) -> Reader:
    path = _file()

    def samples() -> Iterator[tuple[Any, Any]]:
        # The tar is not compressed: its files can be read in the order of the set.
        with reading(path), tarfile.open(path, "r:") as archive:
            members = {member.name: member for member in archive if member.isfile()}

            def content(name: str) -> bytes:
                if name not in members:
                    raise missing(path, name)
                file = cast(BinaryIO, archive.extractfile(members[name]))
                return whole(file, path, name)

            for line in content(SET_FILE.format(part)).decode("ascii").split():
                picture = _pixels(path, content(DATA_FILE.format(line)), "RGB")
                classes = _pixels(path, content(LABEL_FILE.format(line)), "P")
                if picture.shape[:2] != classes.shape:
                    raise damaged(path, f"picture and classes of {line} differ in size")
                yield picture, classes

    return samples


def _pixels(path: str, content: bytes, mode: str) -> Any:
    pillow = image._pillow()
    try:
        with pillow.Image.open(io.BytesIO(content)) as opened:
            # The classes are places in a palette, which must not be made into colours.
            return np.asarray(opened if opened.mode == mode else opened.convert(mode))
    except (pillow.UnidentifiedImageError, OSError) as error:
        raise damaged(path, f"cannot read a picture of the archive: {error}") from error
