"""Time and quality beside scikit-learn and river: the same rows, one thread each, in the same run, several draws.

    python bench/speed.py [--draws N] [--cases NAME ...] [--threads N] [--binary FILE] [--fresh | --kept] [--write]

Each fit has a process of its own whose BLAS and OpenMP have as many threads as anabranch. Densities of mixtures are those of held-out
rows, scored by the same function, minus that of the mixture that the rows were drawn from. Every fit is kept in target/speed, so that
a run that was cut short goes on; `--fresh` begins anew. `--write` stores bench/results/speed.json and fills the documents.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import record
import score
from cases import SYNTHETIC, Data, synthetic
from record import ROOT, number, span, spread, table

WORK = ROOT / "target" / "speed"
NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
CASES = ("2d", "20d-overlapping")
# What a rival is called, and what it is told: the true number of clusters where it must have one.
RIVALS = {
    "bgm": "scikit-learn `BayesianGaussianMixture`, twice the true K, 25 iterations",
    "gm": "scikit-learn `GaussianMixture`, true K given",
    "hdbscan": "scikit-learn `HDBSCAN`, the best of four settings",
    "kmeans": "scikit-learn `MiniBatchKMeans`, true K given",
    "denstream": "river `DenStream`, the best of four settings",
}
OURS = "anabranch, all defaults"
SIZES = (5, 15, 50, 150)
# By the number of columns, which are scaled to unit variance.
RADII = {2: (0.02, 0.05, 0.1, 0.2), 20: (0.5, 1.0, 2.0, 4.0)}


def labels_of_denstream(rows: np.ndarray, radius: float) -> np.ndarray:
    """Learned row by row, on rows of unit variance; labelled by the nearest cluster in the end, which is what `predict_one` does row by row."""
    from river import cluster

    scaled = (rows - rows.mean(0)) / rows.std(0)
    model = cluster.DenStream(decaying_factor=1e-4, beta=0.5, mu=3, epsilon=radius, n_samples_init=1000)
    for row in scaled.tolist():
        model.learn_one(dict(enumerate(row)))
    model.predict_one(dict(enumerate(scaled[0].tolist())))
    centres = np.array([list(found.center.values()) for found in model.clusters.values()])
    return np.concatenate([((part[:, None] - centres) ** 2).sum(2).argmin(1) for part in np.array_split(scaled, 50)])


def best_of(settings, run, truth: np.ndarray) -> dict:
    """The setting whose labels agree best with the truth; its time alone counts."""
    tried = []
    for setting in settings:
        began = time.process_time()
        labels = run(setting)
        seconds = time.process_time() - began
        tried.append({"cpu_seconds": seconds, "agreement": score.agreement(truth, labels), "components": len(set(labels[labels >= 0].tolist()))})
    return max(tried, key=lambda one: one["agreement"]) | {"density": None}


def rival(name: str, folder: Path, clusters: int, seed: int) -> dict:
    """Fits in this process; its number of threads was set before it started."""
    from sklearn import cluster, mixture
    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)
    rows, test = (np.load(folder / f"{part}.npy").astype(np.float64) for part in ("train", "test"))
    truth = np.load(folder / "train_labels.npy")
    if name == "hdbscan":
        return best_of(SIZES, lambda size: cluster.HDBSCAN(min_cluster_size=size, copy=False).fit_predict(rows), truth)
    if name == "denstream":
        return best_of(RADII[rows.shape[1]], lambda radius: labels_of_denstream(rows, radius), truth)
    model = {
        "bgm": lambda: mixture.BayesianGaussianMixture(n_components=2 * clusters, max_iter=25, random_state=seed),
        "gm": lambda: mixture.GaussianMixture(n_components=clusters, random_state=seed),
        "kmeans": lambda: cluster.MiniBatchKMeans(clusters, random_state=seed, n_init=1),
    }[name]()
    began = time.process_time()
    model.fit(rows)
    result = {"cpu_seconds": time.process_time() - began, "components": clusters, "density": None}
    labels = model.predict(rows)
    result["agreement"] = score.agreement(truth, labels)
    if name == "gm":
        result["density"] = float(model.score(test))
    if name == "bgm":
        scatters = model.covariances_ * model.degrees_of_freedom_[:, None, None]
        joint = score.student_mixture(test, model.weights_, model.means_, model.mean_precision_, model.degrees_of_freedom_, scatters)
        result |= {"density": score.mean_density(joint), "components": int((model.weights_ * len(rows) >= 1).sum())}
    return result | {"bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def of_rival(name: str, data: Data, clusters: int, threads: int, seed: int) -> dict:
    command = [sys.executable, __file__, "--rival", name, str(data.folder), str(clusters), str(seed)]
    environment = os.environ | {variable: str(threads) for variable in NAMES}
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def of_anabranch(binary: Path, data: Data, threads: int, seed: int) -> dict:
    files = [data.folder / "train.npy", "--test", data.folder / "test.npy", "--labels", data.folder / "train_labels.npy"]
    command = [binary, "fit", *files, "--threads", str(threads), "--seed", str(seed), "--json", "--quiet"]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {
        "cpu_seconds": result["cpu_seconds"],
        "components": result["effective_components"],
        "agreement": result["adjusted_rand"],
        "density": result["test_log_likelihood"],
        "bytes": result["peak_rss_bytes"],
    }


def kept(path: Path, run) -> dict:
    """What was measured before, or is measured now."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(run()))
    return json.loads(path.read_text())


def measure(case: str, draw: int, args: argparse.Namespace) -> list[dict]:
    """All programs on one draw of one case."""
    data = synthetic(case, draw, ROOT / "target/quality/data")
    clusters = SYNTHETIC[case].clusters
    truth = score.mean_density(score.normal_mixture(data.test, **data.truth))
    best = score.agreement(data.train_labels, score.normal_mixture(data.train, **data.truth).argmax(axis=1))
    runs = {"anabranch": lambda: of_anabranch(args.binary, data, args.threads, draw)}
    # HDBSCAN takes more than an hour for five draws in 20 columns.
    rivals = [name for name in RIVALS if name != "hdbscan" or data.train.shape[1] <= 2]
    runs |= {name: lambda name=name: of_rival(name, data, clusters, args.threads, draw) for name in rivals}
    rows = []
    if args.kept and not all((WORK / f"{case}-{draw}-{name}-{args.threads}.json").exists() for name in runs):
        return []
    for name, run in runs.items():
        found = kept(WORK / f"{case}-{draw}-{name}-{args.threads}.json", run)
        below = None if found["density"] is None else found["density"] - truth
        rows.append({"case": case, "draw": draw, "program": name, **found, "below_truth": below, "best_agreement": best})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def texts_of(rows: list[dict]) -> dict[str, str]:
    """The tables that documents show, and single figures."""
    texts = {}
    for case in dict.fromkeys(row["case"] for row in rows):
        lines = []
        for name in ("anabranch", *RIVALS):
            found = [row for row in rows if (row["case"], row["program"]) == (case, name)]
            if not found:
                continue
            seconds = [row["cpu_seconds"] for row in found]
            digits = 2 if max(seconds) < 10 else 0
            cells = [spread(seconds, digits), spread([row["below_truth"] for row in found], 4), span([row["components"] for row in found])]
            lines.append([OURS if name == "anabranch" else RIVALS[name], *cells, spread([row["agreement"] for row in found], 3)])
            texts[f"{case}.{name}.cpu"] = number(sum(seconds) / len(seconds), digits)
        texts[case] = table(["program", "CPU s", "below the truth", "components or clusters", "adj. Rand"], lines)
        draws = [row for row in rows if (row["case"], row["program"]) == (case, "anabranch")]
        texts[f"{case}.best"] = spread([row["best_agreement"] for row in draws], 3)
        texts[f"{case}.draws"] = str(len(draws))
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/anabranch")
    parser.add_argument("--cases", nargs="+", default=CASES, choices=SYNTHETIC)
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    parser.add_argument("--kept", action="store_true", help="measure nothing: the draws that are complete")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rival", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rival:
        name, folder, clusters, seed = args.rival
        print(json.dumps(rival(name, Path(folder), int(clusters), int(seed))))
        return
    if args.fresh:
        for old in WORK.glob("*.json"):
            old.unlink()
    rows = [row for draw in range(args.draws) for case in args.cases for row in measure(case, draw, args)]
    texts = texts_of(rows)
    print("\n\n".join(texts[case] for case in args.cases))
    if args.write:
        record.write("speed", f"make bench-speed ({args.threads} thread)", rows, texts, ("scikit-learn", "river", "numpy"))


if __name__ == "__main__":
    main()
