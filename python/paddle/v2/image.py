"""Images as arrays, and what is done to them before training: resized, cropped, flipped.

A colour image is an array of height × width × 3 bytes, its colours in the order blue, green, red;
a gray one of height × width. Networks take channels first: `to_chw`, at the end of
`simple_transform`. Reading and resizing need Pillow (`pip install pillow`).
"""

import io
import os
import pickle
import shutil
import tarfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from paddle.v2 import mistake

__all__ = [
    "batch_images_from_tar",
    "center_crop",
    "left_right_flip",
    "load_and_transform",
    "load_image",
    "load_image_bytes",
    "random_crop",
    "resize_short",
    "simple_transform",
    "to_chw",
]

Image = np.ndarray[Any, Any]


@mistake.checked_arguments
def load_image(file: str | os.PathLike[str], is_color: bool = True) -> Image:
    """The image of a file."""
    with open(file, "rb") as opened:
        return load_image_bytes(opened.read(), is_color)


@mistake.checked_arguments
def load_image_bytes(bytes: bytes, is_color: bool = True) -> Image:
    """The image of a file's bytes."""
    pillow = _pillow()
    try:
        with pillow.Image.open(io.BytesIO(bytes)) as opened:
            pixels = np.asarray(opened.convert("RGB" if is_color else "L"))
    except pillow.UnidentifiedImageError:
        raise mistake.invalid("not an image that Pillow reads", first_bytes=bytes[:8]) from None
    return np.ascontiguousarray(pixels[:, :, ::-1]) if is_color else pixels


@mistake.checked_arguments
def resize_short(im: Image, size: int) -> Image:
    """Resizes so that the shorter edge has `size` pixels (bicubic)."""
    mistake.whole("size", size)
    height, width = im.shape[:2]
    shorter = min(height, width)
    target = (size * width // shorter, size * height // shorter)
    pillow = _pillow()

    def resized(channel: Image) -> Image:
        drawn = pillow.Image.fromarray(np.ascontiguousarray(channel))
        return np.asarray(drawn.resize(target, pillow.Image.Resampling.BICUBIC))

    if im.ndim == 2:
        return resized(im)
    return np.stack([resized(im[:, :, place]) for place in range(im.shape[2])], axis=2)


@mistake.checked_arguments
def to_chw(im: Image, order: tuple[int, ...] = (2, 0, 1)) -> Image:
    """Moves the channels to the front, or the axes into another order."""
    if im.ndim != len(order):
        raise mistake.invalid("order must name every axis", axes=im.ndim, order=order)
    return im.transpose(order)


@mistake.checked_arguments
def center_crop(im: Image, size: int, is_color: bool = True) -> Image:
    """The square of `size` pixels in the middle."""
    height, width = _room(im, size)
    return _cut(im, height // 2, width // 2, size)


@mistake.checked_arguments
def random_crop(im: Image, size: int, is_color: bool = True) -> Image:
    """A square of `size` pixels somewhere; `numpy.random.seed` makes it repeatable."""
    height, width = _room(im, size)
    top = np.random.randint(0, height + 1)
    return _cut(im, top, np.random.randint(0, width + 1), size)


@mistake.checked_arguments
def left_right_flip(im: Image, is_color: bool = True) -> Image:
    """Left becomes right."""
    return im[:, ::-1]


@mistake.checked_arguments
def simple_transform(
    im: Image,
    resize_size: int,
    crop_size: int,
    is_train: bool,
    is_color: bool = True,
    mean: Any = None,
) -> Image:
    """Resizes, crops, flips, moves channels to the front, subtracts the mean; gives float32.

    is_train: crop somewhere and flip half of the images; otherwise crop the middle.
    mean:     one value for each channel, or one for each element of the result.
    """
    im = resize_short(im, resize_size)
    if is_train:
        im = random_crop(im, crop_size)
        if np.random.randint(2) == 0:
            im = left_right_flip(im)
    else:
        im = center_crop(im, crop_size)
    if im.ndim == 3:
        im = to_chw(im)
    im = im.astype(np.float32)
    return im if mean is None else im - _spread(mean, im)


@mistake.checked_arguments
def load_and_transform(
    filename: str | os.PathLike[str],
    resize_size: int,
    crop_size: int,
    is_train: bool,
    is_color: bool = True,
    mean: Any = None,
) -> Image:
    """`simple_transform` of the image of a file."""
    im = load_image(filename, is_color)
    return simple_transform(im, resize_size, crop_size, is_train, is_color, mean)


@mistake.checked_arguments
def batch_images_from_tar(
    data_file: str, dataset_name: str, img2label: Mapping[str, int], num_per_batch: int = 1024
) -> str:
    """Writes the images of a tar that have a label into files of `num_per_batch` each.

    Every file is a pickle of `{"label": [...], "data": [the image files' bytes]}`. Returns the path
    of the text that lists them, `<data_file>_batch/<dataset_name>.txt`. What is there already is
    not written again.
    """
    size = mistake.whole("num_per_batch", num_per_batch)
    folder = f"{data_file}_batch"
    target = os.path.abspath(os.path.join(folder, dataset_name))
    listing = os.path.join(folder, f"{dataset_name}.txt")
    if os.path.exists(target):
        return listing
    # The folder gets its name when it is complete: half of one would pass for a whole.
    pending = f"{target}.part"
    shutil.rmtree(pending, ignore_errors=True)
    os.makedirs(pending)
    names = _write_batches(data_file, pending, img2label, size)
    with open(listing, "w", encoding="utf-8") as file:
        file.writelines(f"{os.path.join(target, name)}\n" for name in names)
    os.rename(pending, target)
    return listing


def _write_batches(data_file: str, folder: str, labels: Mapping[str, int], size: int) -> list[str]:
    names: list[str] = []
    batch: dict[str, list[Any]] = {"label": [], "data": []}

    def write() -> None:
        names.append(f"batch_{len(names)}")
        with open(os.path.join(folder, names[-1]), "wb") as file:
            pickle.dump(batch, file, protocol=pickle.HIGHEST_PROTOCOL)
        for column in batch.values():
            column.clear()

    with tarfile.open(data_file) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name in labels else None
            if content is not None:
                batch["label"].append(labels[member.name])
                batch["data"].append(content.read())
            if len(batch["data"]) == size:
                write()
    if batch["data"]:
        write()
    return names


def _room(im: Image, size: int) -> tuple[int, int]:
    """How far a square of `size` can move down and to the right."""
    height, width = im.shape[:2]
    if mistake.whole("size", size) > min(height, width):
        raise mistake.invalid(
            "the image is smaller than the crop", height=height, width=width, size=size
        )
    return height - size, width - size


def _cut(im: Image, top: int, left: int, size: int) -> Image:
    return im[top : top + size, left : left + size]


def _spread(mean: Any, im: Image) -> Image:
    """The mean in a form that can be subtracted from the image."""
    mean = np.asarray(mean, np.float32)
    if mean.ndim == 1 and im.ndim == 3:
        mean = mean[:, None, None]
    try:
        return np.broadcast_to(mean, im.shape)
    except ValueError:
        raise mistake.invalid(
            "mean needs one value for each channel, or for each element",
            mean_shape=mean.shape,
            image_shape=im.shape,
        ) from None


def _pillow() -> Any:
    try:
        import PIL.Image
    except ImportError:
        raise mistake.unsupported(
            "images are read and resized by Pillow, which is not installed: pip install pillow"
        ) from None
    return PIL
