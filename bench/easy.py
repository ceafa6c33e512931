"""Counts clusters that anybody can see, and compares with the truth that made the data.

`make bench-easy` draws and prints everything; `--case few` is one case, `--draws 2` a quick look, `--data DIR` adds real data.

A fit counts as right when the components that hold at least half a per cent of the rows are as many as the clusters.
Each line is a case, printed when it is complete; the last line sums up.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

import record
from record import ROOT

SHARE = 0.005


@dataclass
class Fit:
    """Rows to fit, the clusters they have, and flags."""

    rows: np.ndarray
    labels: np.ndarray
    seed: int = 0
    flags: list[str] = field(default_factory=list)
    test: np.ndarray | None = None


@dataclass
class Found:
    """What a fit found."""

    components: int
    agreement: float
    density: float | None
    seconds: float


def fit(binary: Path, work: Fit) -> Found:
    """Runs the command on one thread."""
    with tempfile.TemporaryDirectory() as folder:
        rows, labels, model = (str(Path(folder) / name) for name in ("rows.npy", "labels.csv", "model"))
        np.save(rows, work.rows)
        np.savetxt(labels, work.labels, fmt="%d")
        flags = ["--labels", labels, "--out", model, "--seed", str(work.seed), "--threads", "1", *work.flags]
        if work.test is not None:
            test = str(Path(folder) / "test.npy")
            np.save(test, work.test)
            flags += ["--test", test]
        run = [str(binary), "fit", rows, "--json", "--quiet", *flags]
        summary = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
        look = [str(binary), "inspect", model, "--json"]
        shown = json.loads(subprocess.run(look, check=True, capture_output=True, text=True).stdout)
        counts = [component["count"] for component in shown["components"]]
        large = sum(count >= SHARE * len(work.rows) for count in counts)
        return Found(large, summary["adjusted_rand"], summary["test_log_likelihood"], summary["cpu_seconds"])


def centres(rng: np.random.Generator, k: int, d: int, apart: float = 8.0) -> np.ndarray:
    """Centres at least so far apart."""
    if d == 1:
        return (np.arange(k) * apart * 1.25)[:, None]
    found: list[np.ndarray] = []
    radius = apart * max(1.0, k ** (1 / d))
    while len(found) < k:
        direction = rng.normal(size=d)
        point = direction / np.linalg.norm(direction) * radius * rng.random() ** (1 / d)
        if all(np.linalg.norm(point - other) >= apart for other in found):
            found.append(point)
        else:
            radius *= 1.01
    return np.array(found)


def separated(k: int, d: int, n: int, kind: str, draw: int) -> Fit:
    """Clusters of standard deviation at most 1, at least 8 apart: round, stretched, or of very different sizes."""
    rng = np.random.default_rng([k, d, n, draw, ["round", "stretched", "unbalanced"].index(kind)])
    weights = np.geomspace(100, 1, k) if kind == "unbalanced" else np.ones(k)
    # Clusters too small to count are no clusters of this case.
    weights = np.maximum(weights / weights.sum(), 2 * SHARE)
    labels = rng.choice(k, size=n, p=weights / weights.sum())
    noise = rng.normal(size=(n, d))
    where = centres(rng, k, d)
    for cluster in range(k if kind == "stretched" else 0):
        turned = np.linalg.qr(rng.normal(size=(d, d)))[0] * np.exp(rng.uniform(-1.2, 0, size=d))
        noise[labels == cluster] = noise[labels == cluster] @ turned.T
    return Fit(noise + where[labels], labels, seed=draw)


def separated_cases(draws: int):
    """Every size and shape that has twenty rows for each cluster and column."""
    for d in (1, 2, 5, 10, 20, 30, 60):
        for n in (300, 3_000, 30_000, 100_000):
            for k in (1, 2, 3, 4, 5, 10, 30):
                for kind in ("round", "stretched", "unbalanced"):
                    if n >= 20 * k * d and not (k == 1 and kind == "unbalanced"):
                        few = draws if d != 2 else 4 * draws
                        yield k, [separated(k, d, n, kind, draw) for draw in range(few)], f"{kind} D={d} n={n:,} K={k}"


def few_cases(draws: int):
    """One Gaussian of few rows."""
    for d in (1, 2, 5, 10):
        for n in (10, 20, 50, 200):
            if n >= 5 * d:
                rows = [np.random.default_rng([d, n, draw]).normal(size=(n, d)) for draw in range(4 * draws)]
                yield 1, [Fit(x, np.zeros(n, int)) for x in rows], f"one Gaussian D={d} n={n}"


def plane(n: int, draw: int) -> tuple[np.ndarray, np.ndarray]:
    """The paper's setting: 100 clusters from NIW(0, 0.001, I, 4), weights uniform and normalised."""
    rng = np.random.default_rng([100, draw])
    weights = rng.random(100)
    labels = rng.choice(100, size=n, p=weights / weights.sum())
    rows = np.empty((n, 2))
    for k in range(100):
        bartlett = np.array([[np.sqrt(rng.chisquare(4)), 0.0], [rng.normal(), np.sqrt(rng.chisquare(3))]])
        covariance = np.linalg.inv(bartlett @ bartlett.T)
        mean = rng.multivariate_normal(np.zeros(2), covariance / 1e-3)
        rows[labels == k] = rng.multivariate_normal(mean, covariance, size=int((labels == k).sum()))
    return rows, labels


def sorted_cases(_: int):
    """The paper's plane in several orders, for several numbers of workers."""
    rows, labels = plane(80_000, 0)
    rows, labels, test = rows[:60_000], labels[:60_000], rows[60_000:]
    keys = {"shuffled": None, "by label": labels, "by x": rows[:, 0], "by radius": np.hypot(*rows.T)}
    for name, key in keys.items():
        order = np.arange(len(rows)) if key is None else np.argsort(key, kind="stable")
        for workers in (1, 8, 32):
            flags = ["--schedule", "deterministic", "--workers", str(workers)]
            yield None, [Fit(rows[order], labels[order], flags=flags, test=test)], f"plane {name} W={workers}"


def overlapping_cases(draws: int):
    """Overlapping clusters in the plane, next to what the true parameters reach."""
    for k in (2, 5, 20):
        for draw in range(draws):
            rng = np.random.default_rng([k, draw, 77])
            where = rng.normal(size=(k, 2)) * 2.2 * np.sqrt(k)
            shapes = [np.linalg.qr(rng.normal(size=(2, 2)))[0] * np.exp(rng.uniform(-0.5, 0.5, 2)) for _ in range(k)]
            labels = rng.integers(k, size=20_000)
            noise = rng.normal(size=(20_000, 2))
            rows = np.array([shapes[label] @ z + where[label] for label, z in zip(labels, noise)])
            scores = [
                -0.5 * (np.linalg.solve(shape, (rows - centre).T) ** 2).sum(0) - np.log(abs(np.linalg.det(shape)))
                for shape, centre in zip(shapes, where)
            ]
            best = adjusted_rand_score(labels, np.argmax(scores, axis=0))
            yield k, [Fit(rows, labels)], f"overlapping K={k} draw {draw}, true parameters {best:.3f}"


def rounded_cases(draws: int):
    """Clusters rounded to integers, and rows that repeat."""
    for k in (1, 2, 4, 8):
        for d in (1, 2, 5):
            for n in (3_000, 30_000):
                for deviation in (0.7, 1.0, 2.0, 5.0):
                    fits = [separated(k, d, n, "round", draw) for draw in range(draws)]
                    fits = [Fit(np.round(deviation * one.rows), one.labels, seed=one.seed) for one in fits]
                    yield k, fits, f"integers, deviation {deviation} D={d} n={n:,} K={k}"
    for k in (1, 2, 4):
        for d in (1, 2, 5):
            for different, copies in ((600, 5), (6_000, 5), (20_000, 5), (100, 50)):
                fits = []
                for draw in range(draws):
                    one = separated(k, d, different, "round", draw)
                    order = np.random.default_rng(draw).permutation(np.repeat(np.arange(different), copies))
                    fits.append(Fit(one.rows[order], one.labels[order], seed=draw))
                yield k, fits, f"{different:,} rows × {copies} D={d} K={k}"


CASES = {"rounded": rounded_cases, "separated": separated_cases, "few": few_cases, "sorted": sorted_cases, "overlapping": overlapping_cases}


def main() -> None:
    """Prints a line for each case and a sum for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/anabranch")
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--write", action="store_true", help="store bench/results/easy.json")
    args = parser.parse_args()
    kept, texts = [], {}
    with ThreadPoolExecutor(args.jobs) as pool:
        for name in args.case or CASES:
            right = total = worst = 0
            for k, fits, title in CASES[name](args.draws):
                found = list(pool.map(lambda work: fit(args.binary, work), fits))
                numbers = [one.components for one in found]
                agreement = min(one.agreement for one in found) if k != 1 else 1.0
                density = "" if found[0].density is None else f"  held-out {found[0].density:.4f}"
                mark = "" if k is None or all(number == k for number in numbers) else "  <--"
                print(f"{title}: {numbers}  least ARI {agreement:.3f}{density}  {np.mean([f.seconds for f in found]):.2f} s{mark}", flush=True)
                kept.append({"case": name, "what": title, "clusters": k, "found": numbers, "least_agreement": agreement, "density": found[0].density})
                if k is not None:
                    right += sum(number == k for number in numbers)
                    worst = max([worst, *(number - k for number in numbers)])
                    total += len(numbers)
            if total:
                texts[name] = f"{right} of {total}"
                print(f"{name}: {right} of {total} fits find the number ({100 * right / total:.1f} %), at most {worst} more\n", flush=True)
        if args.data:
            real(args.binary, args.data)
    if args.write:
        record.write("easy", f"make bench-easy ({args.draws} draws)", kept, texts, ("numpy",))


def real(binary: Path, folder: Path) -> None:
    """Real data with labels, or held out."""
    for name in ("iris", "wine", "digits8x8", "letter"):
        rows, labels = np.load(folder / f"{name}.npy"), np.load(folder / f"{name}_labels.npy")
        order = np.random.default_rng(0).permutation(len(rows))
        found = fit(binary, Fit(rows[order].astype(float), labels[order].astype(int)))
        print(f"{name}: {found.components} components, ARI {found.agreement:.3f}, {found.seconds:.2f} s", flush=True)
    for name in ("mnist_pca20", "glove100k_pca20"):
        rows, test = (np.load(folder / f"{name}_{part}.npy").astype(float) for part in ("train", "test"))
        for seed in range(3):
            found = fit(binary, Fit(rows, np.zeros(len(rows), int), seed=seed, test=test))
            print(f"{name} seed {seed}: {found.components} components, held-out {found.density:.4f}, {found.seconds:.2f} s", flush=True)


if __name__ == "__main__":
    main()
