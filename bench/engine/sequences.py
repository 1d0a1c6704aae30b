"""The models over sequences of words: a classifier by LSTM, one by GRU, and a tagger by a chain.

`train.py` runs them in turns with PyTorch's. All sequences are of one length, which suits PyTorch:
ours are not padded and cost what they are long.
"""

import dataclasses

BATCH = 64
LENGTH = 50
WORDS = 10_000
EMBEDDING = 128
HIDDEN = 256
CLASSES = 2
TAGS = 23


@dataclasses.dataclass(frozen=True)
class Model:
    """What is trained: how it is called, steps in a round, samples in a batch."""

    title: str
    steps: int
    batch: int = BATCH


_WORDS = f"{LENGTH} words, embedding {EMBEDDING}"
MODELS = {
    "lstm": Model(f"LSTM {HIDDEN} over {_WORDS}, batch {BATCH}, Momentum 0.9", 4),
    "gru": Model(f"GRU {HIDDEN} over {_WORDS}, batch {BATCH}, Momentum 0.9", 4),
    "crf": Model(f"CRF of {TAGS} tags over {_WORDS}, batch {BATCH}, Momentum 0.9", 10),
}


def samples(name):
    """The batch: words, and a class or a tag for each."""
    import numpy

    chance = numpy.random.default_rng(3)
    words = chance.integers(0, WORDS, size=(BATCH, LENGTH))
    if name == "crf":
        return list(zip(words, chance.integers(0, TAGS, size=(BATCH, LENGTH)), strict=True))
    return list(zip(words, chance.integers(0, CLASSES, size=BATCH).tolist(), strict=True))


def ours(name):
    """A function that trains so many steps."""
    import paddle.v2 as paddle

    layer, types = paddle.layer, paddle.data_type
    words = layer.data(name="words", type=types.integer_value_sequence(WORDS))
    embedded = layer.embedding(input=words, size=EMBEDDING)
    if name == "crf":
        label = layer.data(name="label", type=types.integer_value_sequence(TAGS))
        scores = layer.fc(input=embedded, size=TAGS, act=paddle.activation.Linear())
        cost = layer.crf(input=scores, label=label)
    else:
        label = layer.data(name="label", type=types.integer_value(CLASSES))
        networks = {"lstm": paddle.networks.simple_lstm, "gru": paddle.networks.simple_gru}
        read = layer.last_seq(input=networks[name](input=embedded, size=HIDDEN))
        output = layer.fc(input=read, size=CLASSES, act=paddle.activation.Softmax())
        cost = layer.classification_cost(input=output, label=label)
    optimizer = paddle.optimizer.Momentum(momentum=0.9, learning_rate=1e-6)
    trainer = paddle.trainer.SGD(cost, paddle.parameters.create(cost), optimizer)
    batch = samples(name)
    return lambda count: trainer.train(lambda: iter([batch] * count))


def torchs(name):
    """The same in PyTorch."""
    import numpy
    import torch

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(WORDS, EMBEDDING)
            cells = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU}[name]
            self.cells = cells(EMBEDDING, HIDDEN, batch_first=True)
            self.output = torch.nn.Linear(HIDDEN, CLASSES)

        def forward(self, words, labels):
            outputs, _ = self.cells(self.embedding(words))
            scores = self.output(outputs[:, -1])
            return torch.nn.functional.cross_entropy(scores, labels, reduction="sum")

    class Tagger(torch.nn.Module):
        """The usual chain: a loop over rows, in logarithms, all sentences at once."""

        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(WORDS, EMBEDDING)
            self.scores = torch.nn.Linear(EMBEDDING, TAGS)
            self.first, self.last = (torch.nn.Parameter(torch.zeros(TAGS)) for _ in range(2))
            self.transitions = torch.nn.Parameter(torch.zeros(TAGS, TAGS))

        def forward(self, words, labels):
            scores = self.scores(self.embedding(words))
            own = scores.gather(2, labels[:, :, None]).sum()
            between = self.transitions[labels[:, :-1], labels[:, 1:]].sum()
            ends = self.first[labels[:, 0]].sum() + self.last[labels[:, -1]].sum()
            sums = self.first + scores[:, 0]
            for row in range(1, scores.shape[1]):
                ways = sums[:, :, None] + self.transitions + scores[:, row, None, :]
                sums = torch.logsumexp(ways, dim=1)
            return torch.logsumexp(sums + self.last, dim=1).sum() - own - between - ends

    torch.manual_seed(1)
    model = Tagger() if name == "crf" else Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    batch = samples(name)

    def steps(count):
        for _ in range(count):
            columns = zip(*batch, strict=True)
            words, labels = (torch.from_numpy(numpy.stack(column)) for column in columns)
            optimizer.zero_grad()
            loss = model(words, labels)
            loss.backward()
            optimizer.step()
            loss.item()

    return steps
