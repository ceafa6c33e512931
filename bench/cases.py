"""The data of the quality bench: synthetic draws from stated seeds, and real data from packages or a folder.

Every case is a folder with `train.npy`, `test.npy`, the labels where they are known, and, where the rows were drawn, the mixture
that they were drawn from (`truth.npz`). The folders are made once and kept under `target/quality/data`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Synthetic:
    """Clusters with covariance from an inverse Wishart, means from a normal, and drawn weights."""

    dimension: int
    clusters: int
    train: int
    test: int
    degrees: float
    scale: float
    # Means are N(0, covariance / kappa) when `kappa` is given, N(0, spread^2 I) when `spread` is.
    kappa: float | None = None
    spread: float | None = None
    # Weights are Dirichlet(concentration), or uniform numbers that are normalised.
    concentration: float | None = None


SYNTHETIC = {
    "2d": Synthetic(2, 100, 100_000, 20_000, degrees=4.0, scale=1.0, kappa=1e-3),
    "20d-separated": Synthetic(20, 60, 60_000, 10_000, degrees=60.0, scale=39.0, kappa=0.25),
    "20d-overlapping": Synthetic(20, 60, 60_000, 10_000, degrees=32.0, scale=11.0, spread=0.62, concentration=1.5),
    "64d": Synthetic(64, 30, 20_000, 10_000, degrees=76.0, scale=11.0, spread=0.40, concentration=1.5),
}


@dataclass
class Data:
    """One drawn or split data set, and where its files are."""

    folder: Path
    train: np.ndarray
    test: np.ndarray
    train_labels: np.ndarray | None = None
    test_labels: np.ndarray | None = None
    truth: dict[str, np.ndarray] = field(default_factory=dict)


def inverse_wishart(rng: np.random.Generator, degrees: float, scale: float, dimension: int) -> np.ndarray:
    """A draw from IW(degrees, scale * I), by Bartlett's triangle."""
    triangle = np.tril(rng.standard_normal((dimension, dimension)), -1)
    triangle[np.diag_indices(dimension)] = np.sqrt(rng.chisquare(degrees - np.arange(dimension)))
    inverse = np.linalg.inv(triangle) * np.sqrt(scale)
    return inverse.T @ inverse


def draw(case: Synthetic, seed: int) -> dict[str, np.ndarray]:
    """A mixture, and rows from it."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(case.clusters, case.concentration)) if case.concentration else rng.random(case.clusters)
    weights /= weights.sum()
    covariances = np.stack([inverse_wishart(rng, case.degrees, case.scale, case.dimension) for _ in range(case.clusters)])
    roots = np.linalg.cholesky(covariances)
    spread = roots / np.sqrt(case.kappa) if case.kappa else case.spread * np.eye(case.dimension)[None]
    means = (spread @ rng.standard_normal((case.clusters, case.dimension, 1)))[..., 0]
    rows = case.train + case.test
    labels = rng.choice(case.clusters, size=rows, p=weights)
    noise = rng.standard_normal((rows, case.dimension))
    values = means[labels] + np.einsum("nij,nj->ni", roots[labels], noise)
    return {
        "weights": weights,
        "means": means,
        "covariances": covariances,
        "rows": values.astype(np.float32),
        "labels": labels.astype(np.int32),
    }


def synthetic(name: str, seed: int, root: Path) -> Data:
    """Draw `seed` of the case `name`, made when it is not there."""
    case = SYNTHETIC[name]
    folder = root / f"{name}-{seed}"
    if not (folder / "truth.npz").exists():
        folder.mkdir(parents=True, exist_ok=True)
        drawn = draw(case, seed)
        for part, span in (("train", slice(0, case.train)), ("test", slice(case.train, None))):
            np.save(folder / f"{part}.npy", drawn["rows"][span])
            np.save(folder / f"{part}_labels.npy", drawn["labels"][span])
        np.savez(folder / "truth.npz", **{k: drawn[k] for k in ("weights", "means", "covariances")})
    data = load(folder)
    with np.load(folder / "truth.npz") as truth:
        data.truth = dict(truth)
    return data


def load(folder: Path) -> Data:
    """The files of one case."""

    def optional(part: str) -> np.ndarray | None:
        path = folder / f"{part}.npy"
        return np.load(path) if path.exists() else None

    return Data(folder, np.load(folder / "train.npy"), np.load(folder / "test.npy"), optional("train_labels"), optional("test_labels"))
