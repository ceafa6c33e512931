"""Data whose clusters have shapes: what `make bench-clusters` draws, from stated seeds.

Labels count from 0; rows of no cluster (uniform noise) are -1, and are left out where agreement is measured.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn import datasets

Drawn = tuple[np.ndarray, np.ndarray]


def moons(n: int, seed: int) -> Drawn:
    return datasets.make_moons(n, noise=0.07, random_state=seed)


def circles(n: int, seed: int) -> Drawn:
    return datasets.make_circles(n, noise=0.05, factor=0.5, random_state=seed)


def spirals(n: int, seed: int) -> Drawn:
    """Two arms, one turn and a half."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    turn = 3 * np.pi * np.sqrt(rng.uniform(0.05, 1.0, n))
    arm = np.stack([np.cos(turn + np.pi * labels), np.sin(turn + np.pi * labels)], 1) * turn[:, None]
    return arm + rng.normal(0, 0.35, (n, 2)), labels


def touching(n: int, seed: int) -> Drawn:
    """Five round clusters on a cross, four deviations apart."""
    centres = np.array([[0, 0], [4, 0], [-4, 0], [0, 4], [0, -4]], float)
    rng = np.random.default_rng(seed)
    labels = rng.integers(5, size=n)
    return centres[labels] + rng.standard_normal((n, 2)), labels


def varied(n: int, seed: int) -> Drawn:
    """Three clusters whose widths differ by a factor of five."""
    rng = np.random.default_rng(seed)
    centres, widths = np.array([[-8, -6], [0, 6], [7, -4]], float), np.array([0.5, 2.5, 1.0])
    labels = rng.integers(3, size=n)
    return centres[labels] + widths[labels, None] * rng.standard_normal((n, 2)), labels


def anisotropic(n: int, seed: int) -> Drawn:
    """Three parallel cigars."""
    rng = np.random.default_rng(seed)
    centres = np.array([[-9, -2], [-5, 2], [2, -6]], float)
    labels = rng.integers(3, size=n)
    rows = centres[labels] + rng.standard_normal((n, 2))
    return rows @ np.array([[0.6, -0.6], [-0.4, 0.8]]), labels


def student(n: int, seed: int) -> Drawn:
    """Five clusters of Student's t with three degrees of freedom."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0, 0], [12, 0], [-10, 6], [3, 12], [2, -11]], float)
    labels = rng.integers(5, size=n)
    heavy = rng.standard_normal((n, 2)) / np.sqrt(rng.chisquare(3, (n, 1)) / 3)
    return centres[labels] + heavy, labels


def lognormal(n: int, seed: int) -> Drawn:
    """Four skew clusters."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0, 0], [7, 1], [1, 7], [9, 9]], float)
    labels = rng.integers(4, size=n)
    return centres[labels] + rng.lognormal(0.0, 0.6, (n, 2)), labels


def noisy(n: int, seed: int) -> Drawn:
    """Four round clusters in a square of uniform noise, a fifth of all rows."""
    rng = np.random.default_rng(seed)
    centres = np.array([[-5, -5], [5, -4], [-4, 5], [5, 5]], float)
    labels = np.where(rng.random(n) < 0.2, -1, rng.integers(4, size=n))
    rows = centres[labels] + rng.standard_normal((n, 2))
    rows[labels < 0] = rng.uniform(-10, 10, ((labels < 0).sum(), 2))
    return rows, labels


def rings(n: int, seed: int) -> Drawn:
    """Two linked rings in three columns."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=n)
    turn = rng.uniform(0, 2 * np.pi, n)
    zero = np.zeros(n)
    first, second = np.stack([np.cos(turn), np.sin(turn), zero], 1), np.stack([1 + np.cos(turn), zero, np.sin(turn)], 1)
    return np.where(labels[:, None] == 0, first, second) + rng.normal(0, 0.06, (n, 3)), labels


def separated(n: int, seed: int) -> Drawn:
    """Thirty clusters in twenty columns, each with a covariance of its own."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, 3.0, (30, 20))
    roots = rng.normal(0, 0.35, (30, 20, 20)) + 0.5 * np.eye(20)
    labels = rng.choice(30, n, p=rng.dirichlet(np.full(30, 3.0)))
    return centres[labels] + np.einsum("nij,nj->ni", roots[labels], rng.standard_normal((n, 20))), labels


def one(n: int, seed: int) -> Drawn:
    """One normal cluster in ten columns."""
    return np.random.default_rng(seed).standard_normal((n, 10)), np.zeros(n, int)


def square(n: int, seed: int) -> Drawn:
    """Uniform rows in the plane: one cluster with edges."""
    return np.random.default_rng(seed).uniform(-1, 1, (n, 2)), np.zeros(n, int)


def bananas(n: int, seed: int) -> Drawn:
    """Three curved clusters in five columns: the square of one column bends another."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=n)
    rows = rng.standard_normal((n, 5)) * np.array([2.0, 0.4, 1.0, 1.0, 1.0])
    rows[:, 1] += 0.5 * rows[:, 0] ** 2
    rows[:, 1] += 4.5 * labels
    rows[:, 2] += 2.0 * labels
    return rows, labels


SHAPES: dict[str, Callable[[int, int], Drawn]] = {
    draw.__name__: draw
    for draw in (moons, circles, spirals, touching, varied, anisotropic, student, lognormal, noisy, rings, separated, bananas, one, square)
}
