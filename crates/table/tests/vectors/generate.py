"""Computes the vectors that tests/behaviour/optimizer.rs compares with, in numpy and f64.

An independent reading of docs/optimizers.md: one step at a time, no closed forms. Run it from this
folder, `python generate.py`, after a deliberate change of a formula; it writes optimizer.json.
"""

import json
import pathlib

import numpy as np

WIDTH = 3
MASK = (1 << 64) - 1


def rate_at(schedule, rate, samples, current_pass):
    """The learning rate of a schedule."""
    name, a, b = schedule["name"], schedule.get("a"), schedule.get("b")
    if name == "poly":
        return rate * (1 + a * samples) ** -b
    if name == "caffe_poly":
        return 0.0 if samples > a else rate * (1 - samples / a) ** b
    if name == "exp":
        return rate * a ** (samples / b)
    if name == "discexp":
        return rate * a ** (samples // b)
    if name == "linear":
        return max(rate - a * samples, b)
    if name in ("manual", "pass_manual"):
        position = samples if name == "manual" else current_pass
        factors = [part.split(":") for part in schedule["segments"].split(",")]
        reached = [float(factor) for end, factor in factors if position <= int(end)]
        return rate * (reached[0] if reached else float(factors[-1][1]))
    return rate


class Row:
    """A value and its state, updated by the formulas as they are written."""

    def __init__(self, optimizer, settings, value):
        self.rule = optimizer["rule"]
        self.settings = settings
        self.average = optimizer.get("average")
        self.w = value.copy()
        self.slots = [np.zeros(WIDTH) for _ in range(3)]
        self.touches = 0
        self.window, self.previous = [], []

    def update(self, gradient, rate, t):
        """Update number `t` of the parameter, from clipping to averaging."""
        self.touches += 1
        rate = rate * self.settings.get("learning_rate", 1.0)
        clip = self.settings.get("clip", np.inf)
        self.step(np.clip(gradient, -clip, clip), rate, t)
        if self.rule["name"] != "ftrl":
            shrink = rate * self.settings.get("l1", 0.0)
            self.w = np.sign(self.w) * np.maximum(np.abs(self.w) - shrink, 0)
        if self.average:
            self.window.append(self.w.copy())
            longest = self.average["window_max"]
            share = min(longest, self.average["window"] * self.touches)
            if len(self.window) >= min(10_000, longest) and len(self.window) >= share:
                self.window, self.previous = [], self.window

    def step(self, g, rate, t):
        """The rule."""
        name, s = self.rule["name"], self.slots
        get = self.rule.get
        mu = self.settings.get("momentum", get("momentum", 0.0))
        l2 = self.settings.get("l2", 0.0)
        h = g + l2 * self.w
        if name == "adam":
            beta1, beta2 = get("beta1", 0.9), get("beta2", 0.999)
            s[0] = beta1 * s[0] + (1 - beta1) * h
            s[1] = beta2 * s[1] + (1 - beta2) * h**2
            alpha = rate * np.sqrt(1 - beta2**t) / (1 - beta1**t)
            self.w = self.w - alpha * s[0] / (np.sqrt(s[1]) + get("epsilon", 1e-8))
            return
        if name == "adamax":
            beta1, beta2 = get("beta1", 0.9), get("beta2", 0.999)
            s[0] = beta1 * s[0] + (1 - beta1) * h
            s[1] = np.maximum(beta2 * s[1], np.abs(h))
            self.w = self.w - rate / (1 - beta1**t) * s[0] / s[1]
            return
        if name == "ftrl":
            beta, l1 = get("beta", 1.0), self.settings.get("l1", 0.0)
            squares = s[1] + g**2
            s[0] = s[0] + g - (np.sqrt(squares) - np.sqrt(s[1])) / rate * self.w
            s[1] = squares
            solved = -(s[0] - np.sign(s[0]) * l1) / ((beta + np.sqrt(squares)) / rate + l2)
            self.w = np.where(np.abs(s[0]) <= l1, 0.0, solved)
            return
        scale = self.scale(g)
        s[2] = mu * s[2] - rate * scale * h
        if get("nesterov"):
            self.w = self.w + mu * s[2] - rate * scale * h
        else:
            self.w = self.w + s[2]

    def scale(self, g):
        """What the rules with an optional momentum multiply the rate by."""
        name, s = self.rule["name"], self.slots
        rho, epsilon = self.rule.get("rho", 0.95), self.rule.get("epsilon", 1e-6)
        share = 1.0 if self.touches == 1 else 1 - rho
        if name == "momentum":
            return 1.0
        if name == "adagrad":
            s[0] = s[0] + g**2
            return 1 / np.sqrt(s[0] + epsilon)
        if name == "decayed_adagrad":
            s[0] = rho * s[0] + share * g**2
            return 1 / np.sqrt(s[0] + epsilon)
        if name == "rmsprop":
            s[0] = rho * s[0] + share * g**2
            s[1] = rho * s[1] + (1 - rho) * g
            return 1 / np.sqrt(s[0] - s[1] ** 2 + epsilon)
        assert name == "adadelta"
        s[0] = rho * s[0] + (1 - rho) * g**2
        ratio = np.sqrt((s[1] + epsilon) / (s[0] + epsilon))
        s[1] = rho * s[1] + (1 - rho) * (g * ratio) ** 2
        return ratio

    def applied(self):
        """The value to save."""
        values = self.window + self.previous
        return np.mean(values, axis=0) if values else self.w

    def is_idle(self):
        """Whether updates without a gradient only decay the value."""
        mu = self.settings.get("momentum", self.rule.get("momentum", 0.0))
        return self.rule["name"] in ("momentum", "adagrad") and mu == 0


def draw(random, spread):
    """Numbers of few digits that are f32 on both sides."""
    return np.round(random.normal(0, spread, WIDTH), 3)


def digits(values):
    """More digits than f32 has, but not all of f64's."""
    return [float(f"{value:.9g}") for value in values]


def case(name, optimizer, settings, is_sparse, random):
    """One parameter's life: what comes in, and the value after each touch."""
    start = draw(random, 0.5)
    row = Row(optimizer, settings, start)
    steps = 8
    # A sparse row exists from the beginning, but is touched only now and then.
    touched = [2, 3, 6] if is_sparse else range(steps)
    batch, zero = 32, np.zeros(WIDTH)
    schedule = optimizer.get("schedule", {"name": "constant"})
    touches = []
    for step in range(steps):
        moment = {"step": step, "samples": step * batch, "pass": step // 3}
        rate = rate_at(schedule, optimizer["learning_rate"], moment["samples"], moment["pass"])
        if step in touched:
            gradient = draw(random, 1.0)
            row.update(gradient, rate, step + 1)
            given = {"gradient": gradient.tolist(), "value": digits(row.w)}
            touches.append(moment | given)
        elif row.is_idle() and not row.average:
            row.update(zero, rate, step + 1)
    return {
        "name": f"{name}, {'sparse' if is_sparse else 'dense'}",
        "optimizer": optimizer,
        "settings": settings,
        "is_sparse": is_sparse,
        "start": start.tolist(),
        "touches": touches,
        "end": {"step": steps, "samples": steps * batch, "pass": steps // 3},
        "value": digits(row.w),
        "applied": digits(row.applied()),
    }


def cases():
    """Every rule with every kind of setting; every schedule; averages."""
    random = np.random.default_rng(20_170_301)
    rules = [
        ({"name": "momentum"}, 0.1),
        ({"name": "momentum", "momentum": 0.9}, 0.05),
        ({"name": "momentum", "momentum": 0.9, "nesterov": True}, 0.05),
        ({"name": "adagrad"}, 0.1),
        ({"name": "adagrad", "epsilon": 0.01, "momentum": 0.5}, 0.1),
        ({"name": "decayed_adagrad"}, 0.1),
        ({"name": "decayed_adagrad", "rho": 0.8, "epsilon": 1e-4, "momentum": 0.5}, 0.1),
        ({"name": "adadelta"}, 1.0),
        ({"name": "adadelta", "rho": 0.8, "epsilon": 1e-4, "momentum": 0.5}, 1.0),
        ({"name": "rmsprop"}, 0.05),
        ({"name": "rmsprop", "rho": 0.8, "epsilon": 1e-4, "momentum": 0.5}, 0.05),
        ({"name": "adam"}, 0.1),
        ({"name": "adam", "beta1": 0.5, "beta2": 0.9, "epsilon": 1e-4}, 0.1),
        ({"name": "adamax"}, 0.1),
        ({"name": "adamax", "beta1": 0.5, "beta2": 0.9}, 0.1),
        ({"name": "ftrl"}, 0.5),
        ({"name": "ftrl", "beta": 0.1}, 0.1),
    ]
    settings = [
        {},
        {"l2": 0.1},
        {"l1": 0.05},
        {"l1": 0.02, "l2": 0.1, "clip": 0.5, "learning_rate": 0.5},
        {"momentum": 0.25, "l2": 0.05},
        {"momentum": 0.0, "l2": 0.05},
    ]
    found = []
    for rule, rate in rules:
        for own in settings:
            for is_sparse in (False, True):
                name = ", ".join(f"{key} {value}" for key, value in (rule | own).items())
                name = name.removeprefix("name ")
                optimizer = {"rule": rule, "learning_rate": rate}
                found.append(case(name, optimizer, own, is_sparse, random))
    schedules = [
        {"name": "constant"},
        {"name": "poly", "a": 0.01, "b": 0.75},
        {"name": "caffe_poly", "a": 200.0, "b": 2.0},
        {"name": "exp", "a": 0.5, "b": 100.0},
        {"name": "discexp", "a": 0.5, "b": 100.0},
        {"name": "linear", "a": 0.0005, "b": 0.01},
        {"name": "manual", "segments": "64:1,160:0.5,200:0.1"},
        {"name": "pass_manual", "segments": "0:1,1:0.5"},
    ]
    for schedule in schedules:
        for rule in ({"name": "momentum"}, {"name": "adam"}, {"name": "adamax"}):
            optimizer = {"rule": rule, "learning_rate": 0.1, "schedule": schedule}
            name = f"{rule['name']}, {schedule['name']}"
            found.append(case(name, optimizer, {"l2": 0.1}, False, random))
    for longest in (3, 100):
        for rule in ({"name": "momentum"}, {"name": "adagrad", "momentum": 0.5}):
            for is_sparse in (False, True):
                average = {"window": 0.5, "window_max": longest}
                optimizer = {"rule": rule, "learning_rate": 0.1, "average": average}
                name = f"{rule['name']}, averaged over {longest}"
                found.append(case(name, optimizer, {}, is_sparse, random))
    return found


def mix64(word):
    """The finalizer of splitmix64."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def output(state, n):
    """The n-th output of splitmix64."""
    return mix64((state + (n + 1) * 0x9E3779B97F4A7C15) & MASK)


def initial(initializer, seed, name, index):
    """One element of a parameter, from its definition in src/initializer.rs."""
    name_hash = 0xCBF29CE484222325
    for byte in name.encode():
        name_hash = ((name_hash ^ byte) * 0x100000001B3) & MASK
    base = output(seed, 0) ^ name_hash
    bits = [output(output(base, stream), index & MASK) for stream in (0, 1)]
    if initializer["name"] == "uniform":
        low, high = initializer["low"], initializer["high"]
        return np.float32(low + (high - low) * (bits[0] >> 40) / 2**24)
    a, b = ((bits[0] >> 11) + 1) / 2**53, (bits[1] >> 11) / 2**53
    normal = np.sqrt(-2 * np.log(a)) * np.cos(2 * np.pi * b)
    return np.float32(initializer["mean"] + initializer["std"] * normal)


def starts():
    """First values."""
    initializers = [
        {"name": "uniform", "low": -1.0, "high": 1.0},
        {"name": "uniform", "low": 0.0, "high": 0.25},
        {"name": "normal", "mean": 0.0, "std": 1.0},
        {"name": "normal", "mean": 0.5, "std": 0.01},
    ]
    places = [(1, "fc.w", 0), (2, "fc.w", 0), (0, "", 7), (1, "Einbettung-ß", MASK - 1)]
    return [
        {
            "initializer": initializer,
            "seed": seed,
            "parameter": name,
            "first": first,
            "values": [float(initial(initializer, seed, name, first + i)) for i in range(4)],
        }
        for initializer in initializers
        for seed, name, first in places
    ]


def main():
    """Writes the vectors, one to a line."""
    lists = {"updates": cases(), "starts": starts()}
    parts = []
    for key, rows in lists.items():
        lines = ",\n".join(
            json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows
        )
        parts.append(f'"{key}": [\n{lines}\n]')
    path = pathlib.Path(__file__).with_name("optimizer.json")
    path.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
