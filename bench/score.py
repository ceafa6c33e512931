"""Densities and agreements, written apart from the program under test.

A fitted mixture is scored by its exact posterior predictive: a mixture of Student-t densities. (scikit-learn's `score` of a
variational mixture is not that density.)
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import digamma, gammaln, logsumexp, multigammaln
from sklearn.metrics import adjusted_rand_score

# Concentration of the process in the ceiling; the program's default.
ALPHA = 5.0


def squared_distance(rows: np.ndarray, mean: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Squared distance of rows from a mean, in the metric of the lower Cholesky factor `root`."""
    return np.square(np.linalg.solve(root, (rows - mean).T)).sum(axis=0)


def normal_mixture(rows: np.ndarray, weights: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """ln(weight * normal density), rows by components."""
    rows = rows.astype(np.float64)
    columns = []
    for weight, mean, covariance in zip(weights, means, covariances):
        root = np.linalg.cholesky(covariance)
        constant = np.log(weight) - np.log(np.diag(root)).sum() - 0.5 * len(mean) * np.log(2 * np.pi)
        columns.append(constant - 0.5 * squared_distance(rows, mean, root))
    return np.stack(columns, axis=1)


def student_mixture(
    rows: np.ndarray, weights: np.ndarray, means: np.ndarray, kappas: np.ndarray, degrees: np.ndarray, scatters: np.ndarray
) -> np.ndarray:
    """ln(weight * predictive density) under normal-inverse-Wishart posteriors, rows by components."""
    rows = rows.astype(np.float64)
    columns = []
    for weight, mean, kappa, degree, scatter in zip(weights, means, kappas, degrees, scatters):
        dimension = len(mean)
        nu = degree - dimension + 1
        root = np.linalg.cholesky(scatter * (kappa + 1) / (kappa * nu))
        constant = np.log(weight) - np.log(np.diag(root)).sum() - 0.5 * dimension * np.log(np.pi * nu)
        constant += gammaln(0.5 * (nu + dimension)) - gammaln(0.5 * nu)
        columns.append(constant - 0.5 * (nu + dimension) * np.log1p(squared_distance(rows, mean, root) / nu))
    return np.stack(columns, axis=1)


def mean_density(log_joint: np.ndarray) -> float:
    """Mean log density from ln(weight * density)."""
    return float(logsumexp(log_joint, axis=1).mean())


def agreement(labels: np.ndarray | None, found: np.ndarray) -> float | None:
    """Adjusted Rand index; nothing without labels."""
    return None if labels is None else float(adjusted_rand_score(labels, found))


class Prior:
    """A normal-inverse-Wishart prior, and the posteriors that it gives to labelled rows."""

    def __init__(self, mean: np.ndarray, kappa: float, degrees: float, scatter: np.ndarray):
        self.mean, self.kappa, self.degrees, self.scatter = mean, kappa, degrees, scatter

    def posteriors(self, statistics: tuple[np.ndarray, np.ndarray, np.ndarray]) -> tuple[np.ndarray, ...]:
        """Means, kappas, degrees and scatters of the components with these counts, means and scatters."""
        counts, means, scatters = statistics
        kappas, degrees = self.kappa + counts, self.degrees + counts
        centres = (self.kappa * self.mean + counts[:, None] * means) / kappas[:, None]
        shift = means - self.mean
        scatters = scatters + self.scatter + (self.kappa * counts / kappas)[:, None, None] * shift[:, :, None] * shift[:, None, :]
        return centres, kappas, degrees, scatters


def label_statistics(rows: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Count, mean and scatter around the mean of each label that occurs."""
    parts = [rows[labels == label].astype(np.float64) for label in np.unique(labels)]
    means = [part.mean(axis=0) for part in parts]
    scatters = [(part - mean).T @ (part - mean) for part, mean in zip(parts, means)]
    return np.array([len(part) for part in parts], dtype=np.float64), np.stack(means), np.stack(scatters)


def estimated_prior(statistics: tuple[np.ndarray, np.ndarray, np.ndarray], rounds: int = 100) -> Prior:
    """Type-II maximum likelihood by expectation and maximisation: the prior that makes labelled rows most probable."""
    counts, means, scatters = statistics
    dimension = means.shape[1]
    pooled = scatters.sum(axis=0) / counts.sum() + 1e-9 * np.eye(dimension)
    prior = Prior(np.average(means, axis=0, weights=counts), 0.1, dimension + 2.0, pooled)
    for _ in range(rounds):
        centres, kappas, degrees, posterior_scatters = prior.posteriors(statistics)
        inverses = np.linalg.inv(posterior_scatters)
        precisions = degrees[:, None, None] * inverses
        steps = np.arange(dimension)
        log_precision = (
            digamma(0.5 * (degrees[:, None] - steps)).sum(axis=1) + dimension * np.log(2) - np.linalg.slogdet(posterior_scatters)[1]
        ).mean()
        mean_precision = precisions.mean(axis=0)
        centre = np.linalg.solve(mean_precision, (precisions @ centres[..., None])[..., 0].mean(axis=0))
        shift = centres - centre
        spread = np.einsum("ki,kij,kj->k", shift, precisions, shift) + dimension / kappas
        log_mean = np.linalg.slogdet(mean_precision)[1]

        def loss(log_excess: float) -> float:
            nu = dimension + 1 + np.exp(log_excess)
            return -(
                0.5 * nu * (dimension * np.log(0.5 * nu) - log_mean)
                - multigammaln(0.5 * nu, dimension)
                + 0.5 * (nu - dimension - 1) * log_precision
                - 0.5 * nu * dimension
            )

        nu = dimension + 1 + np.exp(minimize_scalar(loss, bounds=(-5, 10), method="bounded").x)
        prior = Prior(centre, dimension / spread.mean(), nu, nu * np.linalg.inv(mean_precision))
    return prior


def known_labels(train: np.ndarray, labels: np.ndarray, test: np.ndarray, prior: Prior | None) -> float:
    """The ceiling: held-out density of the posterior that knows the label of every training row."""
    statistics = label_statistics(train, labels)
    prior = prior or estimated_prior(statistics)
    counts = statistics[0]
    empty = (prior.mean[None], np.array([prior.kappa]), np.array([prior.degrees]), prior.scatter[None])
    posteriors = [np.concatenate(pair) for pair in zip(prior.posteriors(statistics), empty)]
    weights = np.append(counts, ALPHA) / (counts.sum() + ALPHA)
    return mean_density(student_mixture(test, weights, *posteriors))
