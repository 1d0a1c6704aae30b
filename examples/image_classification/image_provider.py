"""Pictures for the V1 configuration: files of pictures and labels, which `preprocess.sh` makes."""

import pickle
import random

from paddle import job
from paddle.trainer.PyDataProvider2 import dense_vector, integer_value, provider
from paddle.utils import image_util


def hook(settings, meta, mean_img_size, img_size, num_classes, use_jpeg, color, shard, **kwargs):
    """Reads the mean picture, which is subtracted from each."""
    settings.img_size = img_size
    settings.color = color == "color"
    settings.use_jpeg = use_jpeg
    settings.is_train = kwargs["is_train"]
    settings.img_mean = image_util.load_meta(meta, mean_img_size, img_size, settings.color)
    settings.rank, settings.ranks = 0, 1
    if shard and settings.is_train:
        settings.rank, settings.ranks = job.rank, job.trainers
    settings.logger.info("image size: %s", img_size)
    settings.logger.info("meta path: %s", meta)
    settings.input_types = [
        dense_vector((3 if settings.color else 1) * img_size**2),
        integer_value(num_classes),
    ]


@provider(init_hook=hook, min_pool_size=0)
def processData(settings, file_name):  # noqa: N802
    """The pictures of a file, in training in another order each time.

    Where trainers share one list, each takes every n-th picture.
    """
    with open(file_name, "rb") as file:
        data = pickle.load(file)
    indexes = list(range(len(data["images"])))[settings.rank :: settings.ranks]
    if settings.is_train:
        random.shuffle(indexes)
    for i in indexes:
        if settings.use_jpeg == 1:
            img = image_util.decode_jpeg(data["images"][i])
        else:
            img = data["images"][i]
        img_feat = image_util.preprocess_img(
            img, settings.img_mean, settings.img_size, settings.is_train, settings.color
        )
        yield img_feat.astype("float32"), int(data["labels"][i])
