"""Streams that change, next to river's DenStream and CluStream: `make bench-drift`.

Rows come in blocks. Each block is first scored and labelled by the model of all rows before it, and then learned from (prequentially):
nobody has seen a row that he is asked about. Told are the mean log density of a row; the adjusted Rand index of the labels of a block,
averaged over blocks; and, where it is known when the stream changes, how many rows it takes until a block scores as well again as
those before the change did (their mean less two standard deviations). Everything runs on one thread, at one setting each, chosen by hand, but for the half-life
and the rows of the first minibatch, which are the same for all of ours.

    python bench/drift.py [--rows N] [--block N] [FILE.npy[:CHANGE] ...]

FILE.npy holds rows, FILE_labels.npy beside it their clusters, CHANGE is the number of rows between changes. Without files it makes a
stream of fifteen Gaussians that change places every 3,000 rows, and one that never changes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from anabranch import DPMixture
from sklearn.metrics import adjusted_rand_score

import record

FIRST = 2_000


def interchanging(rows, change, seed):
    """Fifteen Gaussians in the plane; every `change` rows each takes the place of another one."""
    rng = np.random.default_rng(seed)
    n = 15
    places = rng.uniform(0, 100, (n, 2))
    spread = rng.uniform(1, 5, (n, 1))
    weights = rng.dirichlet(np.full(n, 3.0))
    labels = rng.choice(n, rows, p=weights)
    out = np.empty((rows, 2))
    for start in range(0, rows, change or rows):
        if start:
            places = places[np.roll(np.arange(n), 1)] + rng.normal(0, 3, (n, 2))
        part = slice(start, start + (change or rows))
        at = labels[part]
        out[part] = places[at] + spread[at] * rng.normal(size=(len(at), 2))
    return out, labels


class Ours:
    """A mixture with this half-life."""

    def __init__(self, half_life, block):
        kind = {"half_life": half_life} if half_life else {}
        self.model = DPMixture(random_state=0, n_jobs=1, bootstrap=FIRST, batch_size=min(block, 125), **kind)

    def learn(self, rows):
        self.model.partial_fit(rows)

    def look(self, rows):
        return self.model.score_samples(rows), self.model.predict(rows)


class River:
    """One of river's clusterers, on rows scaled to unit variance by the first ones."""

    def __init__(self, make):
        self.model, self.scale = make(), None

    def _rows(self, rows):
        if self.scale is None:
            self.scale = rows.mean(axis=0), rows.std(axis=0) + 1e-12
        return [dict(enumerate(row)) for row in (rows - self.scale[0]) / self.scale[1]]

    def learn(self, rows):
        for row in self._rows(rows):
            self.model.learn_one(row)

    def look(self, rows):
        return None, np.array([self.model.predict_one(row) for row in self._rows(rows)])


def contestants(half_lives, block):
    """Name and maker of each."""
    from river import cluster

    yield "no forgetting", lambda: Ours(None, block)
    for half_life in half_lives:
        yield f"half-life {half_life}", lambda half_life=half_life: Ours(half_life, block)
    yield "half-life auto", lambda: Ours("auto", block)
    yield "DenStream", lambda: River(lambda: cluster.DenStream(decaying_factor=0.001, beta=0.5, mu=3, epsilon=0.15, n_samples_init=1000))
    yield "CluStream", lambda: River(
        lambda: cluster.CluStream(n_macro_clusters=15, max_micro_clusters=150, time_window=1000, time_gap=250, seed=0)
    )


def recovery(scores, block, change, first):
    """Rows after each change until a block scores as the five before the change do, less two standard deviations."""
    took = []
    per = change // block
    if np.isnan(scores).all():
        return float("nan")
    for at in range(change, len(scores) * block, change):
        now = at // block
        if now * block < first + 5 * block or now + per > len(scores):
            continue
        before = scores[now - 5 : now]
        level = before.mean() - 2 * before.std()
        back = np.flatnonzero(scores[now : now + per] >= level)
        took.append((back[0] if back.size else per) * block)
    return float(np.mean(took)) if took else float("nan")


def run(make, rows, labels, block, change):
    """Density, agreement, recovery by density and by agreement, and seconds of one contestant."""
    model, densities, agreements = make(), [], []
    began = time.process_time()
    model.learn(rows[:FIRST])
    for start in range(FIRST, len(rows) - block + 1, block):
        part = rows[start : start + block]
        density, found = model.look(part)
        densities.append(np.nan if density is None else float(np.mean(density)))
        agreements.append(adjusted_rand_score(labels[start : start + block], found) if labels is not None else np.nan)
        model.learn(part)
    seconds = time.process_time() - began
    # Blocks are counted from the first row of the stream.
    pad = np.full(FIRST // block, np.nan)
    densities, agreements = (np.concatenate([pad, np.array(values)]) for values in (densities, agreements))
    took = [recovery(values, block, change, FIRST) if change else float("nan") for values in (densities, agreements)]
    mean = [np.nan if np.isnan(values).all() else np.nanmean(values) for values in (densities, agreements)]
    return *mean, *took, seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--block", type=int, default=250)
    parser.add_argument("--half-life", type=int, nargs="*", default=[500, 1_000, 4_000])
    parser.add_argument("--only", nargs="*", help="names of contestants")
    parser.add_argument("--write", action="store_true", help="store bench/results/drift.json")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    streams = []
    for name in args.files:
        path, _, change = name.partition(":")
        labels = Path(path.removesuffix(".npy") + "_labels.npy")
        rows = np.load(path)[: args.rows].astype(float)
        streams.append((Path(path).stem, rows, np.load(labels)[: args.rows] if labels.exists() else None, int(change or 0)))
    if not streams:
        streams = [(name, *interchanging(args.rows, change, 7), change) for name, change in (("changing", 3_000), ("steady", 0))]
    kept = []
    for name, rows, labels, change in streams:
        print(f"\n**{name}**, {len(rows)} rows in blocks of {args.block}\n")
        print("| | log density | adjusted Rand | rows to recover, density | agreement | CPU seconds |\n|---|---|---|---|---|---|")
        for who, make in contestants(args.half_life, args.block):
            if args.only and not any(word in who for word in args.only):
                continue
            density, agreement, by_density, by_agreement, seconds = run(make, rows, labels, args.block, change)
            kept.append({"stream": name, "who": who, "density": density, "agreement": agreement, "recovery": by_density, "cpu_seconds": seconds})
            cells = (f"{density:.3f}", f"{agreement:.3f}", f"{by_density:.0f}", f"{by_agreement:.0f}", f"{seconds:.1f}")
            print(f"| {who} | " + " | ".join("" if cell == "nan" else cell for cell in cells) + " |", flush=True)
    if args.write:
        record.write("drift", "make bench-drift", kept, {}, ("river", "scikit-learn", "numpy"))


if __name__ == "__main__":
    main()
