"""Translation with attention, the network of `examples/seq2seq`: a recurrent group against the loop
that a program with PyTorch writes.

All sentences are of one length, which suits PyTorch: ours are not padded.
"""

import dataclasses
import importlib.util
import pathlib

BATCH = 32
LENGTH = 20
WORDS = 5_000
EMBEDDING = 128
HIDDEN = 128
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "seq2seq" / "network.py"


@dataclasses.dataclass(frozen=True)
class Model:
    """What is trained: how it is called, steps in a round, samples in a batch."""

    title: str
    steps: int
    batch: int = BATCH


MODELS = {
    "translation": Model(
        f"attention, GRU {HIDDEN} over {LENGTH} of {WORDS} words, batch {BATCH}, Momentum 0.9", 4
    ),
}


def samples():
    """The batch: source, target, and the target's next words."""
    import numpy

    chance = numpy.random.default_rng(4)
    source, target = chance.integers(0, WORDS, size=(2, BATCH, LENGTH))
    return list(zip(source, target, numpy.roll(target, -1, axis=1), strict=True))


def ours():
    """A function that trains so many steps."""
    import paddle.v2 as paddle

    spec = importlib.util.spec_from_file_location("network", EXAMPLE)
    network = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(network)
    sizes = {"embedding": EMBEDDING, "encoder": HIDDEN, "decoder": HIDDEN}
    cost = network.training(WORDS, sizes)
    optimizer = paddle.optimizer.Momentum(momentum=0.9, learning_rate=1e-6)
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
    batch = samples()
    return lambda count: trainer.train(lambda: iter([batch] * count))


def torchs():
    """The same in PyTorch."""
    import numpy
    import torch

    nn = torch.nn

    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.source, self.target = (nn.Embedding(WORDS, EMBEDDING) for _ in range(2))
            self.encoder = nn.GRU(EMBEDDING, HIDDEN, batch_first=True, bidirectional=True)
            self.projected = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
            self.boot = nn.Linear(HIDDEN, HIDDEN, bias=False)
            self.transform = nn.Linear(HIDDEN, HIDDEN, bias=False)
            self.match = nn.Linear(HIDDEN, 1, bias=False)
            self.cell = nn.GRUCell(2 * HIDDEN + EMBEDDING, HIDDEN)
            self.output = nn.Linear(HIDDEN, WORDS)

        def forward(self, source, target, following):
            encoded, _ = self.encoder(self.source(source))
            projected = self.projected(encoded)
            state = torch.tanh(self.boot(encoded[:, 0, HIDDEN:]))
            states = []
            for word in self.target(target).unbind(dim=1):
                match = self.match(torch.tanh(projected + self.transform(state)[:, None]))
                context = (torch.softmax(match, dim=1) * encoded).sum(dim=1)
                state = self.cell(torch.cat([context, word], dim=1), state)
                states.append(state)
            scores = self.output(torch.stack(states, dim=1))
            return nn.functional.cross_entropy(
                scores.reshape(-1, WORDS), following.reshape(-1), reduction="sum"
            )

    torch.manual_seed(1)
    model = Translator()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    batch = samples()

    def steps(count):
        for _ in range(count):
            columns = zip(*batch, strict=True)
            source, target, following = (torch.from_numpy(numpy.stack(each)) for each in columns)
            optimizer.zero_grad()
            loss = model(source, target, following)
            loss.backward()
            optimizer.step()
            loss.item()

    return steps
