"""The same CTR network in one PyTorch process, its data already parsed in memory.

    peer_torch.py train FOLDER ROWS THREADS OUT   one pass over the first rows of the arrays
    peer_torch.py dense STEPS THREADS OUT         the layers behind the table, alone

Writes OUT/trainer-0.json: rows, seconds of the pass, the progressive AUC.
"""

import json
import pathlib
import sys
import time

import numpy as np
import torch

BATCH, WIDTH, SLOTS, DENSE, IDS = 512, 16, 26, 13, 26_000_000


def load(folder, rows):
    parts = [np.load(path) for path in sorted(pathlib.Path(folder).glob("arrays-*.npz"))]
    found, left = {"dense": [], "ids": [], "label": []}, rows
    for part in parts:
        if left <= 0:
            break
        for name, pieces in found.items():
            pieces.append(part[name][:left])
        left -= len(found["label"][-1])
    return (torch.from_numpy(np.concatenate(pieces)) for pieces in found.values())


def auc(label, score):
    order = np.argsort(score)
    rank = np.empty(len(order))
    rank[order] = np.arange(1, len(order) + 1)
    positive = label > 0.5
    count = positive.sum()
    return (rank[positive].sum() - count * (count + 1) / 2) / (count * (len(order) - count))


class Model:
    def __init__(self, has_table):
        torch.manual_seed(1)
        sizes = [SLOTS * WIDTH + DENSE, 400, 400, 400]
        layers = []
        for size, after in zip(sizes, sizes[1:], strict=False):
            layers += [torch.nn.Linear(size, after), torch.nn.ReLU()]
        self.mlp = torch.nn.Sequential(*layers, torch.nn.Linear(400, 1))
        self.loss = torch.nn.BCEWithLogitsLoss()
        self.optimizers = [torch.optim.Adam(self.mlp.parameters(), 1e-3, fused=True)]
        if has_table:
            self.table = torch.nn.Embedding(IDS, WIDTH, sparse=True)
            torch.nn.init.uniform_(self.table.weight, -0.05, 0.05)
            self.optimizers.append(torch.optim.SparseAdam(list(self.table.parameters()), 1e-3))

    def step(self, x, y):
        logit = self.mlp(x).squeeze(1)
        loss = self.loss(logit, y)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
        return logit.detach()


def train(folder, rows):
    dense, ids, label = load(folder, rows)
    model = Model(has_table=True)
    scores, start, processor_start = [], time.perf_counter(), time.process_time()
    for at in range(0, len(label), BATCH):
        here = slice(at, at + BATCH)
        x = torch.cat([model.table(ids[here]).flatten(1), dense[here]], 1)
        scores.append(model.step(x, label[here]))
    seconds = time.perf_counter() - start
    processor_seconds = time.process_time() - processor_start
    area = auc(label.numpy(), torch.cat(scores).numpy())
    found = {"rows": len(label), "began": start, "seconds": seconds, "auc": area}
    return found | {"processor_seconds": processor_seconds}


def dense_alone(steps):
    model = Model(has_table=False)
    x, y = torch.rand(BATCH, SLOTS * WIDTH + DENSE), torch.randint(0, 2, (BATCH,)).float()
    for count in (20, steps):
        start = time.perf_counter()
        for _ in range(count):
            model.step(x, y)
        seconds = time.perf_counter() - start
    return {"rows": steps * BATCH, "seconds": seconds}


def main(what, *rest):
    *words, threads, out = rest
    torch.set_num_threads(int(threads))
    result = train(words[0], int(words[1])) if what == "train" else dense_alone(int(words[0]))
    pathlib.Path(out, "trainer-0.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
