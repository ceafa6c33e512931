"""Compares `--algorithm batch` and `movb` with scikit-learn's BayesianGaussianMixture on the same rows and prior.

    python bench/scikit.py path/to/anabranch

Needs numpy, scipy and scikit-learn. Both are judged twice by code that is not ours: the evidence lower bound is computed by
scikit-learn from the components that `anabranch inspect` prints, and the held-out density by scipy's Student t. Prints a table.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.special import betaln, logsumexp
from scipy.stats import multivariate_t, wishart
from sklearn.mixture import BayesianGaussianMixture
from sklearn.mixture._bayesian_mixture import _log_wishart_norm
from sklearn.mixture._gaussian_mixture import _compute_precision_cholesky

ALPHA, KAPPA = 5.0, 1e-2
ROWS, TEST_ROWS, CLUSTERS, TRUNCATION, ITERATIONS = 20_000, 5_000, 30, 60, 200


def draw(d, seed):
    """Rows of a mixture whose clusters come from the prior that the fits are given."""
    rng = np.random.default_rng(seed)
    dof = d + 2.0
    covariances = [np.linalg.inv(wishart.rvs(dof, np.eye(d), random_state=rng)) for _ in range(CLUSTERS)]
    means = [rng.multivariate_normal(np.zeros(d), c / KAPPA) for c in covariances]
    weights = rng.random(CLUSTERS)
    weights /= weights.sum()

    def rows(n):
        labels = rng.choice(CLUSTERS, n, p=weights)
        return np.array([rng.multivariate_normal(means[z], covariances[z]) for z in labels])

    return rows(ROWS), rows(TEST_ROWS), dof


def estimator(k, d, dof, seed=0):
    return BayesianGaussianMixture(
        n_components=k, max_iter=ITERATIONS, tol=1e-5, init_params="k-means++", random_state=seed,
        weight_concentration_prior_type="dirichlet_process", weight_concentration_prior=ALPHA,
        mean_prior=np.zeros(d), mean_precision_prior=KAPPA, degrees_of_freedom_prior=dof, covariance_prior=np.eye(d),
    )


def loaded(counts, means, psi, train, dof):
    """An estimator of scikit-learn with the parameters that follow from counts, means and scatter matrices."""
    order = np.argsort(-counts)
    counts, means, psi = counts[order], means[order], psi[order]
    k, d = means.shape
    model = estimator(k, d, dof)
    model._check_parameters(train)
    model.means_, model.mean_precision_ = means, KAPPA + counts
    model.degrees_of_freedom_ = dof + counts
    model.covariances_ = psi / model.degrees_of_freedom_[:, None, None]
    model.precisions_cholesky_ = _compute_precision_cholesky(model.covariances_, "full")
    behind = np.hstack((np.cumsum(counts[::-1])[-2::-1], 0))
    model.weight_concentration_ = (1 + counts, ALPHA + behind)
    return model


def lower_bound(model, train, dof):
    """scikit-learn's bound for each row, with the constants that make components without rows count nothing."""
    log_prob_norm, log_resp = model._e_step(train)
    bound = model._compute_lower_bound(log_resp, log_prob_norm)
    k, d = model.means_.shape
    empty = _log_wishart_norm(np.array([dof]), np.zeros(1), d)[0] + 0.5 * d * np.log(KAPPA)
    constant = -0.5 * len(train) * d * np.log(2 * np.pi) - k * betaln(1, ALPHA)
    return (bound + k * empty + constant) / len(train)


def held_out(counts, means, psi, test, dof):
    """Mean log of Σ t_k/(N + α) p(x | k) + α/(N + α) p(x | prior)."""
    d = means.shape[1]

    def student(count, mean, psi):
        nu, kappa = dof + count - d + 1, KAPPA + count
        return multivariate_t.logpdf(test, mean, psi * (kappa + 1) / (kappa * nu), df=nu)

    terms = [np.log(n) + student(n, m, p) for n, m, p in zip(counts, means, psi) if n > 1e-6]
    terms.append(np.log(ALPHA) + student(0.0, np.zeros(d), np.eye(d)))
    return np.mean(logsumexp(terms, axis=0)) - np.log(counts.sum() + ALPHA)


def of_anabranch(binary, algorithm, folder, d, dof):
    flags = f"--algorithm {algorithm} --truncation {TRUNCATION} --iterations {ITERATIONS if algorithm == 'batch' else 60} --alpha {ALPHA}"
    prior = f"--prior-mean 0 --prior-kappa {KAPPA} --prior-scale 1 --prior-dof {dof} --threads 1 --quiet --json"
    files = f"{folder}/train.npy --test {folder}/test.npy --out {folder}/model"
    run = lambda text: json.loads(subprocess.run(text.split(), check=True, capture_output=True).stdout)
    result = run(f"{binary} fit {files} {flags} {prior}")
    components = run(f"{binary} inspect {folder}/model --json")["components"]
    counts = np.array([c["count"] for c in components])
    means = np.array([c["mean"] for c in components])
    # inspect prints the expected covariance Ψ / (ν − D − 1).
    psi = np.array([c["covariance"] for c in components]).reshape(-1, d, d) * (dof + counts - d - 1)[:, None, None]
    return counts, means, psi, result["cpu_seconds"], result["test_log_likelihood"]


def of_scikit(train, d, dof):
    start = time.process_time()
    model = estimator(TRUNCATION, d, dof).fit(train)
    seconds = time.process_time() - start
    counts = model.degrees_of_freedom_ - dof
    psi = model.covariances_ * model.degrees_of_freedom_[:, None, None]
    return counts, model.means_, psi, seconds, None


def main(binary):
    print("| columns | program | CPU s | bound per row | held-out | the same, as reported | components ≥ 1 row |")
    print("|---|---|---|---|---|---|---|")
    for d in (2, 5):
        train, test, dof = draw(d, seed=d)
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "train.npy", train)
            np.save(Path(folder) / "test.npy", test)
            runs = {f"anabranch {a}": of_anabranch(binary, a, folder, d, dof) for a in ("batch", "movb")}
        runs["scikit-learn"] = of_scikit(train, d, dof)
        for name, (counts, means, psi, seconds, reported) in runs.items():
            bound = lower_bound(loaded(counts, means, psi, train, dof), train, dof)
            density = held_out(counts, means, psi, test, dof)
            said = "" if reported is None else f"{reported:.4f}"
            print(f"| {d} | {name} | {seconds:.1f} | {bound:.4f} | {density:.4f} | {said} | {(counts >= 1).sum()} |")


if __name__ == "__main__":
    main(sys.argv[1])
