"""Images for data providers: arrays of channels × height × width, or of height × width if gray.

Reading and resizing need Pillow (`pip install pillow`). Chance comes from `numpy.random`, which
`paddle train` seeds.
"""

import io
import os
import pickle
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from paddle.v2 import mistake
from paddle.v2.image import _pillow

__all__ = [
    "ImageTransformer",
    "crop_img",
    "decode_jpeg",
    "flip",
    "load_image",
    "load_meta",
    "oversample",
    "preprocess_img",
    "resize_image",
]

Array = np.ndarray[Any, Any]


def resize_image(img: Any, target_size: int) -> Any:
    """A Pillow image whose shorter edge has `target_size` pixels."""
    shorter = min(img.size)
    size = tuple(round(edge * target_size / shorter) for edge in img.size)
    return img.resize(size, _pillow().Image.Resampling.LANCZOS)


def flip(im: Array) -> Array:
    """Left becomes right."""
    return im[..., ::-1]


def crop_img(im: Array, inner_size: int, color: bool = True, test: bool = True) -> Array:
    """A square of `inner_size` pixels: the middle in a test, else somewhere and perhaps flipped.

    A smaller image is put in the middle of zeros.
    """
    im = np.asarray(im, dtype=np.float32)
    if im.ndim != (3 if color else 2):
        raise mistake.invalid("a colour image has 3 axes, a gray one 2", axes=im.ndim, color=color)
    height, width = (max(inner_size, edge) for edge in im.shape[-2:])
    padded = np.zeros((*im.shape[:-2], height, width), dtype=np.float32)
    top, left = (height - im.shape[-2]) // 2, (width - im.shape[-1]) // 2
    padded[..., top : top + im.shape[-2], left : left + im.shape[-1]] = im
    if test:
        top, left = (height - inner_size) // 2, (width - inner_size) // 2
    else:
        top = np.random.randint(0, height - inner_size + 1)
        left = np.random.randint(0, width - inner_size + 1)
    cropped = padded[..., top : top + inner_size, left : left + inner_size]
    return flip(cropped) if not test and np.random.randint(2) == 0 else cropped


def decode_jpeg(jpeg_string: bytes) -> Array:
    """The pixels of an image file's bytes, channels first."""
    pillow = _pillow()
    try:
        with pillow.Image.open(io.BytesIO(jpeg_string)) as opened:
            pixels = np.array(opened)
    except pillow.UnidentifiedImageError:
        raise mistake.invalid(
            "not an image that Pillow reads", first_bytes=bytes(jpeg_string[:8])
        ) from None
    return pixels.transpose(2, 0, 1) if pixels.ndim == 3 else pixels


def preprocess_img(
    im: Array, img_mean: Array, crop_size: int, is_train: bool, color: bool = True
) -> Array:
    """Crops, in training at random, subtracts the mean, and gives one row of numbers."""
    pic = crop_img(im, crop_size, color, test=not is_train)
    return (pic - img_mean).astype(np.float32).flatten()


def load_meta(
    meta_path: str | os.PathLike[str], mean_img_size: int, crop_size: int, color: bool = True
) -> Array:
    """The mean image of a meta file (`data_mean`), cut to the middle `crop_size` pixels.

    The file is an `.npz` or, as the original writes it, a pickle of a dict.
    """
    mean = _read_mean(meta_path)
    shape = (3, mean_img_size, mean_img_size) if color else (mean_img_size, mean_img_size)
    if mean.size != int(np.prod(shape)):
        raise mistake.invalid(
            f"{os.fspath(meta_path)} has a mean of another size than the images",
            mean=mean.size,
            expected=int(np.prod(shape)),
        )
    border = (mean_img_size - crop_size) // 2
    cut = slice(border, border + crop_size)
    return np.asarray(mean.reshape(shape)[..., cut, cut], dtype=np.float32)


def _read_mean(path: str | os.PathLike[str]) -> Array:
    with open(path, "rb") as file:
        is_archive = file.read(2) == b"PK"
        file.seek(0)
        try:
            if is_archive:
                with np.load(file, allow_pickle=False) as meta:
                    return np.asarray(meta["data_mean"], dtype=np.float32)
            # Python 2 wrote arrays as its text.
            meta = _Unpickler(file, encoding="latin1").load()
            return np.asarray(meta["data_mean"], dtype=np.float32)
        except OSError:
            raise
        # Whatever bytes that are no such file may lead to.
        except Exception as error:
            raise mistake.invalid(
                f"{os.fspath(path)} is no file of a mean image: an .npz or a pickled dict with an "
                f"array `data_mean` ({type(error).__name__}: {error})"
            ) from None


class _Unpickler(pickle.Unpickler):
    """Reads arrays, numbers and texts: nothing in a file is to be called that does more."""

    _KNOWN: ClassVar[dict[str, Any]] = {
        "_reconstruct": np.zeros(0).__reduce__()[0],
        # Of protocol 5: it views bytes.
        "_frombuffer": np.zeros(1).__reduce_ex__(5)[0],
        "scalar": np.float32(0).__reduce__()[0],
        "ndarray": np.ndarray,
        "dtype": np.dtype,
        "encode": str.encode,
    }

    def find_class(self, module: str, name: str) -> Any:
        """What a file may call."""
        if module.split(".")[0] not in ("numpy", "_codecs") or name not in self._KNOWN:
            raise pickle.UnpicklingError(f"it has a {module}.{name}, not only arrays")
        return self._KNOWN[name]


def load_image(img_path: str | os.PathLike[str], is_color: bool = True) -> Any:
    """The image of a file, as Pillow has it."""
    return _pillow().Image.open(img_path).convert("RGB" if is_color else "L")


def oversample(img: Sequence[Array], crop_dims: Sequence[int]) -> Array:
    """Ten crops of each image of height × width × channels: corners, middle, and these flipped."""
    high, wide = int(crop_dims[0]), int(crop_dims[1])
    crops = []
    for each in img:
        height, width = each.shape[:2]
        middle = ((height - high) // 2, (width - wide) // 2)
        corners = [(y, x) for y in (0, height - high) for x in (0, width - wide)]
        for y, x in [*corners, middle]:
            crops.append(each[y : y + high, x : x + wide])
        crops.extend(crop[:, ::-1] for crop in crops[-5:])
    return np.stack(crops).astype(np.float32)


class ImageTransformer:
    """Brings images into the order of axes and channels that a network was trained with."""

    def __init__(
        self,
        transpose: Sequence[int] | None = None,
        channel_swap: Sequence[int] | None = None,
        mean: Array | None = None,
        is_color: bool = True,
    ) -> None:
        self.is_color = is_color
        self.set_transpose(transpose)
        self.set_channel_swap(channel_swap)
        self.set_mean(mean)

    def set_transpose(self, order: Sequence[int] | None) -> None:
        """The order of the axes."""
        if order is not None and self.is_color and len(order) != 3:
            raise mistake.invalid("a colour image has 3 axes", order=tuple(order))
        self.transpose = order

    def set_channel_swap(self, order: Sequence[int] | None) -> None:
        """The order of the channels."""
        if order is not None and self.is_color and len(order) != 3:
            raise mistake.invalid("a colour image has 3 channels", order=tuple(order))
        self.channel_swap = order

    def set_mean(self, mean: Array | None) -> None:
        """What is subtracted: a number for each channel, or one for each element."""
        if mean is not None and mean.ndim == 1:
            mean = mean[:, None, None]
        self.mean = mean

    def transformer(self, data: Array) -> Array:
        """An image in that order, the mean subtracted."""
        if self.transpose is not None:
            data = data.transpose(self.transpose)
        if self.channel_swap is not None:
            data = data[list(self.channel_swap), :, :]
        return data if self.mean is None else data - self.mean
