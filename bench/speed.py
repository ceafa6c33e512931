"""Time and quality beside scikit-learn: the same rows, the same number of threads, in the same run.

    python bench/speed.py [--threads N] [--binary FILE] [--cases NAME ...] [--write]

Rivals are MiniBatchKMeans and BayesianGaussianMixture, both told the true number of clusters. Each program fits in a process of
its own whose BLAS and OpenMP have as many threads as anabranch, and the fastest of TRIES counts (the mixture runs once). Prints a
table; `--write` also puts it and a picture into docs/performance.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import score
from cases import SYNTHETIC, Data, synthetic

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TRIES = 3
CASES = ("2d", "20d-overlapping")
# The mixture does not converge on these rows in a reasonable time; this is its default.
ITERATIONS = 100


def rival(name: str, folder: Path, clusters: int, seed: int) -> dict:
    """Fits in this process; its number of threads was set before it started."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    warnings.simplefilter("ignore", ConvergenceWarning)
    rows, test = (np.load(folder / f"{part}.npy").astype(np.float64) for part in ("train", "test"))
    if name == "MiniBatchKMeans":
        model = MiniBatchKMeans(clusters, random_state=seed, n_init=1)
    else:
        model = BayesianGaussianMixture(n_components=clusters, max_iter=ITERATIONS, random_state=seed)
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(rows)
    result = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu, "components": clusters}
    result["agreement"] = score.agreement(np.load(folder / "train_labels.npy"), model.predict(rows))
    result["density"] = float(model.score(test)) if name == "BayesianGaussianMixture" else None
    return result


def of_rival(name: str, data: Data, clusters: int, threads: int, seed: int) -> dict:
    command = [sys.executable, __file__, "--rival", name, str(data.folder), str(clusters), str(seed)]
    environment = os.environ | {variable: str(threads) for variable in NAMES}
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def of_anabranch(binary: Path, data: Data, threads: int, seed: int) -> dict:
    files = [data.folder / "train.npy", "--test", data.folder / "test.npy", "--labels", data.folder / "train_labels.npy"]
    command = [binary, "fit", *files, "--threads", str(threads), "--seed", str(seed), "--json", "--quiet"]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {
        "seconds": result["seconds"],
        "cpu_seconds": result["cpu_seconds"],
        "components": result["effective_components"],
        "agreement": result["adjusted_rand"],
        "density": result["test_log_likelihood"],
    }


def fastest(tries: int, run) -> dict:
    return min((run() for _ in range(tries)), key=lambda result: result["cpu_seconds"])


def measure(case: str, binary: Path, threads: int, data: Data) -> dict[str, dict]:
    clusters = SYNTHETIC[case].clusters
    return {
        "anabranch": fastest(TRIES, lambda: of_anabranch(binary, data, threads, 0)),
        "MiniBatchKMeans": fastest(TRIES, lambda: of_rival("MiniBatchKMeans", data, clusters, threads, 0)),
        "BayesianGaussianMixture": of_rival("BayesianGaussianMixture", data, clusters, threads, 0),
    }


def truth(data: Data) -> float:
    """Mean log density of the held-out rows under the mixture that they were drawn from."""
    from scipy.special import logsumexp
    from scipy.stats import multivariate_normal

    parts = zip(data.truth["weights"], data.truth["means"], data.truth["covariances"])
    joint = [np.log(weight) + multivariate_normal.logpdf(data.test, mean, covariance) for weight, mean, covariance in parts]
    return float(np.mean(logsumexp(joint, axis=0)))


def table(results: dict[str, dict[str, dict]], truths: dict[str, float], threads: int) -> str:
    lines = [
        f"Threads: {threads}. Clusters are given to the rivals, not to anabranch. Density: held-out, minus that of the true mixture.",
        "",
        "| data | program | seconds | CPU-seconds | times anabranch | adjusted Rand | density | components |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case, programs in results.items():
        for name, r in programs.items():
            density = "–" if r["density"] is None else f"{r['density'] - truths[case]:+.3f}"
            ratio = r["cpu_seconds"] / programs["anabranch"]["cpu_seconds"]
            lines.append(
                f"| {case} | {name} | {r['seconds']:.2f} | {r['cpu_seconds']:.2f} | {ratio:.2f} | {r['agreement']:.3f} | {density} | {r['components']} |"
            )
    return "\n".join(lines) + "\n"


def picture(results: dict[str, dict[str, dict]], path: Path) -> None:
    """CPU-seconds against the agreement with the true clusters."""
    from pictures import GREY, OURS, RIVAL, plt, save

    figure, axes = plt.subplots(1, len(results), figsize=(3.2 * len(results), 2.6), squeeze=False)
    colours = {"anabranch": OURS, "MiniBatchKMeans": GREY, "BayesianGaussianMixture": RIVAL}
    for panel, (case, programs) in zip(axes[0], results.items()):
        for name, r in programs.items():
            panel.scatter(r["cpu_seconds"], r["agreement"], color=colours[name], label=name, zorder=3)
        panel.set(xscale="log", xlabel="CPU-seconds", ylabel="adjusted Rand", title=case, ylim=(0, 1))
        panel.grid(alpha=0.3)
    axes[0][0].legend(loc="lower right", frameon=False, fontsize=7)
    figure.tight_layout()
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/anabranch")
    parser.add_argument("--cases", nargs="+", default=CASES, choices=SYNTHETIC)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rival", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rival:
        name, folder, clusters, seed = args.rival
        print(json.dumps(rival(name, Path(folder), int(clusters), int(seed))))
        return
    data = {case: synthetic(case, 0, ROOT / "target/quality/data") for case in args.cases}
    results = {case: measure(case, args.binary, args.threads, data[case]) for case in args.cases}
    text = table(results, {case: truth(data[case]) for case in args.cases}, args.threads)
    print(text)
    folder = ROOT / "docs/performance" if args.write else Path(tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    picture(results, folder / "rivals.svg")
    if args.write:
        (folder / "rivals.md").write_text(text)
    else:
        print(f"picture: {folder / 'rivals.svg'}")


if __name__ == "__main__":
    main()
