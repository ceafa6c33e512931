"""anabranch beside scikit-learn's BayesianGaussianMixture and MiniBatchKMeans, on the same arrays in one run.

    python benchmarks/compare.py [--rows 50000] [--clusters 100] [--repeats 5]

Prints processor seconds, held-out mean log density and adjusted Rand index as a table, and what Python adds to the
engine: the processor seconds of ``fit`` on an array against those of the command line on the same rows in a file.
The densities are exact posterior predictives, mixtures of Student's t, for both mixtures.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
from scipy.special import logsumexp  # noqa: E402
from scipy.stats import invwishart, multivariate_t  # noqa: E402
from sklearn.cluster import MiniBatchKMeans  # noqa: E402
from sklearn.metrics import adjusted_rand_score  # noqa: E402
from sklearn.mixture import BayesianGaussianMixture  # noqa: E402

from anabranch import DPMixture  # noqa: E402


def draw(n_rows, n_clusters, seed):
    """Rows of a mixture of Gaussians in the plane, their clusters, and a function for the true log density."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(n_clusters, 2.0))
    means = rng.normal(0.0, 30.0, size=(n_clusters, 2))
    covariances = invwishart(df=10, scale=10 * np.eye(2)).rvs(n_clusters, random_state=rng)
    factors = np.linalg.cholesky(covariances)
    truth = rng.choice(n_clusters, size=n_rows, p=weights)
    X = means[truth] + np.einsum("nij,nj->ni", factors[truth], rng.normal(size=(n_rows, 2)))
    precisions = np.linalg.inv(covariances)
    constants = np.log(weights) - np.log(2 * np.pi) - np.log(np.linalg.det(covariances)) / 2

    def density(x):
        off = x[:, None, :] - means
        return logsumexp(constants - np.einsum("nki,kij,nkj->nk", off, precisions, off) / 2, axis=1)

    return X, truth, density


def student_mixture(model, x):
    """Log predictive density of scikit-learn's variational posterior."""
    d = x.shape[1]
    terms = []
    for weight, mean, kappa, dof, covariance in zip(
        model.weights_, model.means_, model.mean_precision_, model.degrees_of_freedom_, model.covariances_
    ):
        df = dof - d + 1
        scale = covariance * dof * (kappa + 1) / (kappa * df)
        terms.append(np.log(max(weight, 1e-300)) + multivariate_t(mean, scale, df=df).logpdf(x))
    return logsumexp(np.stack(terms), axis=0)


def timed(work):
    """The result of ``work`` with its processor and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return result, time.process_time() - cpu, time.perf_counter() - wall


def compare(options):
    X, truth, density = draw(options.rows, options.clusters, options.seed)
    test, test_truth, _ = X[-options.rows // 10 :], truth[-options.rows // 10 :], None
    train = X[: len(X) - len(test)]
    best = density(test).mean()
    print(f"{len(train):,} rows in the plane from {options.clusters} clusters, {len(test):,} held out, one thread each")
    print(f"the mixture that made them scores {best:.4f}\n")
    print("| program | CPU s | wall s | log density | below the truth | clusters | adj. Rand |")
    print("|---|---|---|---|---|---|---|")

    def row(name, cpu, wall, score, clusters, labels):
        shown = ("–", "–") if score is None else (f"{score:.4f}", f"{score - best:.4f}")
        rand = adjusted_rand_score(test_truth, labels)
        print(f"| {name} | {cpu:.2f} | {wall:.2f} | {shown[0]} | {shown[1]} | {clusters} | {rand:.3f} |", flush=True)

    ours, cpu, wall = timed(lambda: DPMixture(random_state=options.seed).fit(train))
    row("anabranch `DPMixture()`", cpu, wall, ours.score(test), ours.n_components_, ours.predict(test))
    stream = DPMixture(random_state=options.seed)
    _, cpu, wall = timed(lambda: [stream.partial_fit(piece) for piece in np.array_split(train, 100)])
    row("the same, `partial_fit` 100 times", cpu, wall, stream.score(test), stream.n_components_, stream.predict(test))
    limit = 2 * options.clusters
    theirs = BayesianGaussianMixture(n_components=limit, max_iter=options.iterations, random_state=options.seed)
    _, cpu, wall = timed(lambda: theirs.fit(train))
    used = len(np.unique(theirs.predict(train)))
    row(f"BayesianGaussianMixture({limit}, max_iter={options.iterations})", cpu, wall,
        student_mixture(theirs, test).mean(), used, theirs.predict(test))
    means = MiniBatchKMeans(n_clusters=options.clusters, random_state=options.seed, n_init="auto")
    _, cpu, wall = timed(lambda: means.fit(train))
    row(f"MiniBatchKMeans({options.clusters}), K given", cpu, wall, None, options.clusters, means.predict(test))


def overhead(options):
    X, _, _ = draw(options.overhead_rows, options.clusters, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rows.npy")
        np.save(path, X)
        command = [sys.executable, "-m", "anabranch", "fit", path, "--threads", "1", "--json", "--quiet"]
        engine, python, mapped = [], [], []
        for _ in range(options.repeats):
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            engine.append(json.loads(done.stdout)["cpu_seconds"])
            python.append(timed(lambda: DPMixture(random_state=0).fit(X))[1])
            mapped.append(timed(lambda: DPMixture(random_state=0).fit(np.load(path, mmap_mode="r")))[1])
    least = min(engine)
    print(f"\n{len(X):,} rows, best of {options.repeats}: command line {least:.3f} CPU s")
    for name, seconds in (("an array", min(python)), ("a memory-mapped file", min(mapped))):
        print(f"fit on {name}: {seconds:.3f} CPU s, {100 * (seconds / least - 1):+.1f} %")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=25)
    parser.add_argument("--overhead-rows", type=int, default=400_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    compare(arguments)
    overhead(arguments)
