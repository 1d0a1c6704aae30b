"""The models over pictures of CIFAR-10's size: the small VGG, and a residual network of 20 layers.

`train.py` runs them in turns with PyTorch's.
"""

import dataclasses
import pathlib
import sys

SIDE = 32
CLASSES = 10
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "image_classification"


@dataclasses.dataclass(frozen=True)
class Model:
    """What is trained: how it is called, steps in a round, samples in a batch."""

    title: str
    steps: int
    batch: int


MODELS = {
    "vgg": Model("small VGG on 3 x 32 x 32, batch 64, Momentum 0.9", 1, 64),
    "resnet": Model("ResNet-20 on 3 x 32 x 32, batch 64, Momentum 0.9", 2, 64),
}


def samples(name):
    """The batch: pictures and classes."""
    import numpy

    chance = numpy.random.default_rng(4)
    count = MODELS[name].batch
    pictures = chance.normal(size=(count, 3 * SIDE * SIDE)).astype("float32")
    return list(zip(pictures, chance.integers(0, CLASSES, size=count).tolist(), strict=True))


def ours(name):
    """A function that trains so many steps."""
    import paddle.v2 as paddle

    sys.path.insert(0, str(EXAMPLE))
    import network

    type = paddle.data_type.dense_vector(3 * SIDE * SIDE)
    picture = paddle.layer.data(name="image", type=type, height=SIDE, width=SIDE)
    label = paddle.layer.data(name="label", type=paddle.data_type.integer_value(CLASSES))
    if name == "vgg":
        chances = paddle.networks.small_vgg(picture, 3, CLASSES)
    else:
        features = network.resnet(picture, filters=16, depth=20)
        softmax = paddle.activation.Softmax()
        chances = paddle.layer.fc(input=features, size=CLASSES, act=softmax)
    cost = paddle.layer.classification_cost(input=chances, label=label)
    optimizer = paddle.optimizer.Momentum(momentum=0.9, learning_rate=1e-6)
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
    batch = samples(name)
    return lambda count: trainer.train(lambda: iter([batch] * count))


def torchs(name):
    """The same in PyTorch."""
    import numpy
    import torch

    torch.manual_seed(1)
    model = {"vgg": torch_vgg, "resnet": torch_resnet}[name](torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    cost = torch.nn.CrossEntropyLoss(reduction="sum")
    batch = samples(name)

    def steps(count):
        for _ in range(count):
            pictures, classes = zip(*batch, strict=True)
            pictures = torch.from_numpy(numpy.stack(pictures)).view(-1, 3, SIDE, SIDE)
            optimizer.zero_grad()
            loss = cost(model(pictures), torch.tensor(classes))
            loss.backward()
            optimizer.step()
            loss.item()

    return steps


def torch_vgg(torch):
    layers, channels = [], 3
    for filters, drop_rates in [
        (64, [0.3, 0]),
        (128, [0.4, 0]),
        (256, [0.4, 0.4, 0]),
        (512, [0.4, 0.4, 0]),
    ]:
        for rate in drop_rates:
            layers += torch_convolution(torch, channels, filters), torch.nn.ReLU()
            layers += [torch.nn.Dropout(rate)] if rate else []
            channels = filters
        layers.append(torch.nn.MaxPool2d(2))
    return torch.nn.Sequential(
        *layers,
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(512, 512),
        torch.nn.Dropout(0.5),
        torch.nn.BatchNorm1d(512),
        torch.nn.ReLU(),
        torch.nn.Linear(512, CLASSES),
    )


def torch_convolution(torch, channels, filters, size=3, stride=1):
    """A convolution and batch normalization."""
    convolution = torch.nn.Conv2d(channels, filters, size, stride, (size - 1) // 2)
    return torch.nn.Sequential(convolution, torch.nn.BatchNorm2d(filters))


def torch_resnet(torch):
    class Block(torch.nn.Module):
        """Two convolutions, and a shortcut around them."""

        def __init__(self, channels, filters, stride):
            super().__init__()
            self.first = torch_convolution(torch, channels, filters, 3, stride)
            self.second = torch_convolution(torch, filters, filters)
            is_same = stride == 1 and channels == filters
            shortcut = torch_convolution(torch, channels, filters, 1, stride)
            self.shortcut = torch.nn.Identity() if is_same else shortcut

        def forward(self, x):
            inner = self.second(torch.relu(self.first(x)))
            return torch.relu(inner + self.shortcut(x))

    layers, channels = [torch_convolution(torch, 3, 16), torch.nn.ReLU()], 16
    for stage, filters in enumerate([16, 32, 64]):
        for block in range(3):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Block(channels, filters, stride))
            channels = filters
    pooled = [torch.nn.AvgPool2d(8), torch.nn.Flatten(), torch.nn.Linear(64, CLASSES)]
    return torch.nn.Sequential(*layers, *pooled)
