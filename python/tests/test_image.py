"""Images: read, resized, cropped, flipped, and collected from a tar."""

import io
import pickle
import sys
import tarfile

import numpy as np
import PIL.Image
import pytest

from paddle import errors
from paddle.v2 import image


def gradient(height, width):
    """Blue grows to the right, green downwards, red is 7."""
    pixels = np.full((height, width, 3), 7, np.uint8)
    pixels[:, :, 0] = np.arange(width)
    pixels[:, :, 1] = np.arange(height)[:, None]
    return pixels


def png(pixels):
    file = io.BytesIO()
    PIL.Image.fromarray(pixels[:, :, ::-1]).save(file, "png")
    return file.getvalue()


def test_an_image_is_blue_green_red(tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(png(gradient(4, 6)))
    np.testing.assert_array_equal(image.load_image(path), gradient(4, 6))
    np.testing.assert_array_equal(image.load_image_bytes(path.read_bytes()), gradient(4, 6))
    assert image.load_image(path, is_color=False).shape == (4, 6)


def test_bytes_that_are_no_image_are_refused():
    with pytest.raises(ValueError, match="not an image"):
        image.load_image_bytes(b"not an image")


@pytest.mark.parametrize(
    "shape, expect", [((40, 60), (20, 30)), ((60, 40), (30, 20)), ((10, 10), (20, 20))]
)
def test_the_shorter_edge_gets_the_size(shape, expect):
    assert image.resize_short(gradient(*shape), 20).shape == (*expect, 3)
    assert image.resize_short(gradient(*shape)[:, :, 0], 20).shape == expect


def test_resizing_keeps_the_picture():
    half = image.resize_short(gradient(40, 60), 20)
    np.testing.assert_allclose(half[:, 5:25, 0].mean(axis=0), np.arange(5, 25) * 2 + 0.5, atol=1)
    assert (half[:, :, 2] == 7).all()


def test_the_middle_is_cropped():
    np.testing.assert_array_equal(image.center_crop(gradient(4, 6), 2), gradient(4, 6)[1:3, 2:4])


def test_a_random_crop_is_a_part_of_the_picture_and_repeatable():
    np.random.seed(5)
    crops = [image.random_crop(gradient(9, 9), 4) for _ in range(20)]
    corners = {(int(crop[0, 0, 1]), int(crop[0, 0, 0])) for crop in crops}
    assert len(corners) > 5 and all(top <= 5 and left <= 5 for top, left in corners)
    np.random.seed(5)
    np.testing.assert_array_equal(image.random_crop(gradient(9, 9), 4), crops[0])


def test_a_crop_larger_than_the_image_is_refused():
    with pytest.raises(ValueError, match="smaller than the crop"):
        image.center_crop(gradient(4, 6), 5)


def test_flipping_turns_left_to_right():
    flipped = image.left_right_flip(gradient(2, 3))
    assert flipped[0, :, 0].tolist() == [2, 1, 0]


def test_a_transformed_image_is_ready_for_a_network():
    result = image.simple_transform(gradient(40, 60), 20, 16, is_train=False, mean=[1, 2, 3])
    assert (result.shape, result.dtype) == ((3, 16, 16), np.float32)
    assert (result[2] == 4).all()
    elementwise = np.ones((3, 16, 16))
    again = image.simple_transform(gradient(40, 60), 20, 16, is_train=False, mean=elementwise)
    assert (again[2] == 6).all()
    gray = image.simple_transform(gradient(40, 60)[:, :, 0], 20, 16, True, is_color=False)
    assert gray.shape == (16, 16)
    with pytest.raises(ValueError, match="one value for each channel"):
        image.simple_transform(gradient(40, 60), 20, 16, is_train=False, mean=[1, 2])


def test_a_file_is_loaded_and_transformed(tmp_path):
    path = tmp_path / "image.png"
    path.write_bytes(png(gradient(40, 60)))
    assert image.load_and_transform(path, 20, 16, is_train=True).shape == (3, 16, 16)


def test_images_of_a_tar_are_collected_in_batches(tmp_path):
    path = tmp_path / "images.tar"
    with tarfile.open(path, "w") as archive:
        for number in range(6):
            content = png(gradient(2, 2 + number))
            member = tarfile.TarInfo(f"{number}.png")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    labels = {f"{number}.png": number for number in range(5)}
    listing = image.batch_images_from_tar(str(path), "train", labels, num_per_batch=2)
    batches = []
    with open(listing, encoding="utf-8") as file:
        for line in file:
            with open(line.strip(), "rb") as batch:
                batches.append(pickle.load(batch))
    assert [batch["label"] for batch in batches] == [[0, 1], [2, 3], [4]]
    assert image.load_image_bytes(batches[2]["data"][0]).shape == (2, 6, 3)
    path.unlink()
    assert image.batch_images_from_tar(str(path), "train", labels) == listing


def test_without_pillow_the_remedy_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(errors.UnsupportedError, match="pip install pillow"):
        image.resize_short(gradient(4, 4), 2)
