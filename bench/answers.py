"""Answers beside scikit-learn: labels, densities and probabilities of the same rows with as many components, on one thread, in the same run.

    python bench/answers.py [--binary FILE] [--data FOLDER] [--cases NAME ...] [--skip-flags]

Prints, for each set of rows, processor seconds of `anabranch predict` (reading the rows and writing the answers included, loading
the model not) and of `GaussianMixture` with the means and covariances of the same components, and their ratio; what learning from the rows costs; then how many held-out
rows are flagged at 0.1 %, 1 % and 5 %, and the area under the curve of planted outliers beside IsolationForest. FOLDER holds `mnist_pca20_train.npy`
and others that no package brings; without it, the rows are drawn here. The latency of one row: `cargo bench --bench answers`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
TRIES = 3
QUESTIONS = {"predict": [], "score_samples": ["--score"], "predict_proba": ["--proba"]}


def drawn(dimensions: int, clusters: int, rows: int, seed: int, spread: float) -> np.ndarray:
    """Rows of Gaussian clusters with covariances of their own."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(0, spread, (clusters, dimensions))
    shapes = rng.normal(0, 1, (clusters, dimensions, dimensions)) / np.sqrt(dimensions)
    labels = rng.integers(clusters, size=rows)
    noise = rng.normal(0, 1, (rows, dimensions))
    return (centres[labels] + np.einsum("nij,nj->ni", shapes[labels], noise)).astype(np.float32)


def cases(data: Path | None) -> dict:
    found = {
        "2d-100": lambda: (drawn(2, 100, 200_000, 1, 12.0), drawn(2, 100, 200_000, 1, 12.0)[:100_000]),
        "64d-30": lambda: (drawn(64, 30, 60_000, 2, 1.0), drawn(64, 30, 60_000, 2, 1.0)[:40_000]),
        "20d-300": lambda: (drawn(20, 300, 120_000, 3, 1.2), drawn(20, 300, 120_000, 3, 1.2)[:60_000]),
    }
    if data is not None and (data / "mnist_pca20_train.npy").exists():
        rows = lambda name: np.load(data / f"{name}.npy")
        found["mnist-pca20"] = lambda: (rows("mnist_pca20_train"), rows("mnist_pca20_train"))
    return found


def processor(command: list[str]) -> tuple[float, str]:
    """Processor seconds of a command, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def best(command: list[str]) -> float:
    return min(processor(command)[0] for _ in range(TRIES))


def rival(folder: Path) -> dict:
    """In a process of its own, whose BLAS has one thread: the components are those of our labels."""
    from sklearn.mixture import GaussianMixture

    rows = np.load(folder / "asked.npy").astype(np.float64)
    labels = np.load(folder / "labels.npy")
    names, labels = np.unique(labels, return_inverse=True)
    k, d = len(names), rows.shape[1]
    whole = np.cov(rows.T)
    model = GaussianMixture(k, covariance_type="full")
    model.weights_ = np.bincount(labels, minlength=k) / len(labels)
    model.means_ = np.array([rows[labels == c].mean(axis=0) for c in range(k)])
    own = [np.cov(rows[labels == c].T) if (labels == c).sum() > d else whole for c in range(k)]
    model.covariances_ = np.array(own) + 1e-3 * whole
    model.precisions_cholesky_ = np.linalg.cholesky(np.linalg.inv(model.covariances_))
    result = {"components": k}
    for question in QUESTIONS:
        times = []
        for _ in range(TRIES):
            started = time.process_time()
            getattr(model, question)(rows)
            times.append(time.process_time() - started)
        result[question] = min(times)
    return result


def compare(name: str, train: np.ndarray, asked: np.ndarray, binary: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        np.save(folder / "train.npy", train)
        np.save(folder / "asked.npy", asked)
        np.save(folder / "one.npy", asked[:1])
        model = str(folder / "model")
        fitted = processor([binary, "fit", str(folder / "train.npy"), "--threads", "1", "--quiet", "--json", "--out", model])
        learned = json.loads(fitted[1])
        learning = learned["cpu_seconds"] / len(train) * len(asked)
        predict = [binary, "predict", model, "--quiet", "--threads", "1"]
        processor(predict + [str(folder / "asked.npy"), "--out", str(folder / "labels.npy")])
        command = [sys.executable, __file__, "--rival", str(folder)]
        theirs = json.loads(processor(command)[1])
        for question, flags in QUESTIONS.items():
            out = ["--out", str(folder / "answers.npy")]
            alone = best(predict + [str(folder / "one.npy")] + flags + out)
            ours = best(predict + [str(folder / "asked.npy")] + flags + out) - alone
            ratio = ours / theirs[question]
            print(
                f"{name:12} {question:14} {len(asked):7} rows, {learned['components']:4} components: {ours:7.3f} s, scikit-learn"
                f" ({theirs['components']:4}) {theirs[question]:7.3f} s, ratio {ratio:.3f} (1/{1 / ratio:.1f}),"
                f" learning {learning:.2f} s, ratio {ours / learning:.2f}",
                flush=True,
            )


def flags(data: Path | None, binary: str) -> None:
    """The share of held-out rows that are flagged, and outliers."""
    sets = {"synthetic": lambda: (drawn(2, 100, 400_000, 5, 12.0)[:200_000], drawn(2, 100, 400_000, 5, 12.0)[200_000:])}
    if data is not None:
        rows = lambda name: np.load(data / f"{name}.npy")
        if (data / "mnist_pca20_test.npy").exists():
            sets["mnist"] = lambda: (rows("mnist_pca20_train"), rows("mnist_pca20_test"))
        if (data / "flow_facsdiva_asinh10.npy").exists():
            def flow():
                all_rows = np.random.default_rng(0).permutation(rows("flow_facsdiva_asinh10"))
                return all_rows[:60_000], all_rows[60_000:]
            sets["flow"] = flow
    for name, make in sets.items():
        train, test = make()
        tail = tails(train, test, binary)[1]
        shares = ", ".join(f"{share:.1%}: {np.mean(tail < share):.2%}" for share in (0.001, 0.01, 0.05))
        print(f"{name:12} flagged of {len(test)} held-out rows at {shares}", flush=True)
    if data is not None and (data / "mnist_train_labels.npy").exists():
        from sklearn.ensemble import IsolationForest
        from sklearn.metrics import roc_auc_score

        train, test = np.load(data / "mnist_pca20_train.npy"), np.load(data / "mnist_pca20_test.npy")
        seven, truth = np.load(data / "mnist_train_labels.npy") == 7, np.load(data / "mnist_test_labels.npy") == 7
        density = tails(train[~seven], test, binary)[0]
        forest = IsolationForest(random_state=0).fit(train[~seven])
        print(f"sevens       AUROC of log density {roc_auc_score(truth, -density):.3f},"
              f" of IsolationForest {roc_auc_score(truth, -forest.score_samples(test)):.3f}")


def tails(train: np.ndarray, test: np.ndarray, binary: str) -> tuple[np.ndarray, np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        np.save(folder / "train.npy", train)
        np.save(folder / "test.npy", test)
        model, out = str(folder / "model"), str(folder / "answers.npy")
        processor([binary, "fit", str(folder / "train.npy"), "--quiet", "--json", "--out", model])
        processor([binary, "predict", model, str(folder / "test.npy"), "--quiet", "--score", "--tail", "--out", out])
        answers = np.load(out)
        return answers[:, 1], answers[:, 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target/release/anabranch"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cases", nargs="*")
    parser.add_argument("--skip-flags", action="store_true")
    parser.add_argument("--rival", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rival:
        print(json.dumps(rival(arguments.rival)))
        return
    for name, make in cases(arguments.data).items():
        if arguments.cases is None or name in arguments.cases:
            compare(name, *make(), arguments.binary)
    if not arguments.skip_flags:
        flags(arguments.data, arguments.binary)


if __name__ == "__main__":
    main()
