"""The rival: scikit-learn's BayesianGaussianMixture, in a process of its own with one thread.

`python rival.py FOLDER SETTINGS SEED OUT` with its settings as JSON fits `FOLDER/train.npy` and writes the posterior to `OUT` (npz).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import score
from cases import Data

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


def fit(folder: Path, settings: dict, seed: int, out: Path) -> None:
    """Fits in this process, which was started with one thread."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    rows = np.load(folder / "train.npy").astype(np.float64)
    warnings.simplefilter("ignore", ConvergenceWarning)
    start = time.process_time()
    model = BayesianGaussianMixture(**settings, random_state=seed).fit(rows)
    seconds = time.process_time() - start
    np.savez(
        out,
        weights=model.weights_,
        means=model.means_,
        kappas=model.mean_precision_,
        degrees=model.degrees_of_freedom_,
        scatters=model.covariances_ * model.degrees_of_freedom_[:, None, None],
        covariances=model.covariances_,
        labels=model.predict(rows),
        seconds=seconds,
        converged=model.converged_,
    )


def measure(name: str, seed: int, data: Data, settings: dict, cache: Path, fresh: bool) -> dict:
    """The rival's figures on the same files, from the cache unless they are wanted fresh."""
    cache.mkdir(parents=True, exist_ok=True)
    given = "-prior" if "covariance_prior" in settings else ""
    stem = cache / f"{name}-{seed}-k{settings['n_components']}-i{settings['max_iter']}{given}"
    figures, posterior = stem.with_suffix(".json"), stem.with_suffix(".npz")
    if figures.exists() and not fresh:
        return json.loads(figures.read_text())
    command = [sys.executable, __file__, data.folder, json.dumps(settings), str(seed), posterior]
    run = subprocess.run(command, env=os.environ | ONE_THREAD, capture_output=True, text=True)
    if run.returncode != 0:
        result = {"failure": run.stderr.strip().splitlines()[-1]}
    else:
        with np.load(posterior) as fitted:
            joint = score.student_mixture(data.test, *(fitted[k] for k in ("weights", "means", "kappas", "degrees", "scatters")))
            result = {
                "density": score.mean_density(joint),
                "agreement": score.agreement(data.train_labels, fitted["labels"]),
                "components": int((fitted["weights"] * len(data.train) >= 1).sum()),
                "cpu_seconds": float(fitted["seconds"]),
                "converged": bool(fitted["converged"]),
                "posterior": str(posterior),
            }
    figures.write_text(json.dumps(result))
    return result


if __name__ == "__main__":
    fit(Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
