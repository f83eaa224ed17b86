#!/usr/bin/env python3
"""Writes tests/data/sampler/steps.json: every step of the sampler chain in plain NumPy float64, from its definition.

Needs numpy. Usage: make_sampler_fixture.py [output folder]
"""
import json
import math
import pathlib
import sys

import numpy as np

V = 257


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def order(x, ids):  # falling logit, then rising id
    return sorted(ids, key=lambda i: (-x[i], i))


def top_k(x, ids, k):
    return order(x, ids)[:k]


def typical(x, ids, p):
    q = dict(zip(ids, softmax(x[ids])))
    entropy = -sum(v * math.log(v) for v in q.values() if v > 0)
    kept, total = [], 0.0
    for i in sorted(ids, key=lambda i: (abs(-math.log(q[i]) - entropy), i)):
        kept.append(i)
        total += q[i]
        if total > p:
            break
    return kept


def top_p(x, ids, p):
    q = dict(zip(ids, softmax(x[ids])))
    kept, total = [], 0.0
    for i in order(x, ids):
        kept.append(i)
        total += q[i]
        if total >= p:
            break
    return kept


def min_p(x, ids, p):
    q = softmax(x[ids])
    return [i for i, v in zip(ids, q) if v >= p * q.max()]


def xtc(x, ids, threshold):
    q = dict(zip(ids, softmax(x[ids])))
    above = [i for i in order(x, ids) if q[i] >= threshold]
    return [i for i in ids if i not in above[:-1]]


def penalties(x, history, window, repeat, frequency, presence):
    x = x.copy()
    recent = history if window < 0 else history[len(history) - window:] if window else []
    for t in set(recent):
        x[t] = x[t] / repeat if x[t] > 0 else x[t] * repeat
        x[t] -= recent.count(t) * frequency + presence
    return x


def dry(x, history, multiplier, base, allowed):
    """By the definition, in cubic time: for each earlier position, how long a match with the end of the text ends there."""
    x, longest = x.copy(), {}
    for position in range(len(history) - 1):
        n = 0
        while n <= position and history[position - n] == history[-1 - n]:
            n += 1
        if n >= allowed:
            follower = history[position + 1]
            longest[follower] = max(longest.get(follower, 0), n)
    for t, n in longest.items():
        x[t] -= multiplier * base ** (n - allowed)
    return x


def mirostat(version, x, ids, mu, vocabulary):
    ids = order(x, ids)
    if version == 1:
        m = min(100, len(ids))
        t = np.log([(i + 2) / (i + 1) for i in range(m - 1)])
        b = np.array([x[ids[i]] - x[ids[i + 1]] for i in range(m - 1)])
        s = (t * b).sum() / (t * t).sum()
        k = ((s - 1) * 2 ** mu / (1 - vocabulary ** -(s - 1))) ** (1 / s)
        ids = ids[:max(1, int(k))]
    else:
        q = softmax(x[ids])
        ids = [i for i, v in zip(ids, q) if -math.log2(v) <= mu] or ids[:1]
    return ids, softmax(x[ids])


def as_float32(a):
    return np.asarray(a, np.float32).astype(np.float64)


def numbers(a):
    return [float(f"{v:.9g}") for v in a]


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "data" / "sampler")
    rng = np.random.default_rng(7)
    logits = {
        "spread": as_float32(np.round(rng.normal(0, 3, V), 5)),
        "flat": as_float32(np.round(rng.normal(0, 0.7, V), 5)),
        "ties": as_float32(np.round(rng.normal(0, 2, V))),
    }
    everything = list(range(V))
    steps = []
    parameters = {
        "top_k": (top_k, [1, 2, 40, 256, 257]),
        "typical": (typical, [0.0, 0.2, 0.5, 0.9]),
        "top_p": (top_p, [0.0, 0.3, 0.9, 0.99]),
        "min_p": (min_p, [0.001, 0.05, 0.5, 1.0]),
        "xtc": (xtc, [0.01, 0.1, 0.4]),
    }
    for name, x in logits.items():
        for step, (function, values) in parameters.items():
            if name == "ties" and step == "typical":
                continue  # equal distances: which one the cut falls on is rounding
            for value in values:
                steps.append({"logits": name, "step": step, "value": value,
                              "ids": sorted(function(x, everything, value))})

    text = [5, 9, 5, 9, 7, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3]
    edits = []
    for window in (0, 3, 8, -1):
        x = penalties(logits["spread"], text, window, 1.3, 0.25, -0.5)
        edits.append({"kind": "penalties", "history": text, "window": window, "repeat": 1.3, "frequency": 0.25,
                      "presence": -0.5, "result": numbers(x)})
    for history in (text, [8] * 12, [1, 2], [1], rng.integers(0, 3, 60).tolist()):
        for allowed in (1, 2, 4):
            x = dry(logits["spread"], history, 0.8, 1.75, allowed)
            edits.append({"kind": "dry", "history": history, "multiplier": 0.8, "base": 1.75, "allowed": allowed,
                          "result": numbers(x)})

    surprise = []
    for version in (1, 2):
        for name in ("spread", "flat"):
            mu, tau, eta, rows = 6.0, 3.0, 0.2, []
            for draw in range(6):
                ids, q = mirostat(version, logits[name], everything, mu, V)
                pick = draw % len(ids)
                mu_next = mu - eta * (-math.log2(q[pick]) - tau)
                rows.append({"ids": sorted(ids), "picked": ids[pick], "probability": float(q[pick]), "mu": mu_next})
                mu = mu_next
            surprise.append({"version": version, "logits": name, "tau": tau, "eta": eta, "rows": rows})

    # Whole chains, with the exact distribution that draws must follow.
    chains = []
    for options in (
        {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05},
        {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "typical_p": 0.4},
        {"temperature": 0.6, "top_k": 12, "top_p": 1.0, "min_p": 0.0},
    ):
        for name in ("spread", "flat"):
            x, ids = logits[name], everything
            if options["top_k"]:
                ids = top_k(x, ids, options["top_k"])
            if options.get("typical_p", 1) < 1:
                ids = typical(x, ids, options["typical_p"])
            if options["top_p"] < 1:
                ids = top_p(x, ids, options["top_p"])
            if options["min_p"] > 0:
                ids = min_p(x, ids, options["min_p"])
            q = softmax(x[ids] / options["temperature"])
            chains.append({"logits": name, "options": options, "ids": [int(i) for i in ids],
                           "probabilities": numbers(q)})

    out.mkdir(parents=True, exist_ok=True)
    document = {"logits": {k: numbers(v) for k, v in logits.items()}, "steps": steps, "edits": edits,
                "mirostat": surprise, "chains": chains}
    (out / "steps.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")


main()
