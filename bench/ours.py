"""Runs `anabranch fit` on one case and reads its figures; checks its density with a second implementation."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

import score
from cases import Data

# The largest difference between the program's held-out density and ours that rounding explains.
TOLERANCE = 1e-6


class Missing(Exception):
    """The program refused a flag."""


def measure(binary: Path, data: Data, seed: int, flags: list[str], model: Path) -> dict:
    """The figures of one fit on one thread."""
    model.parent.mkdir(parents=True, exist_ok=True)
    command = [binary, "fit", data.folder / "train.npy", "--test", data.folder / "test.npy", "--out", model]
    command += ["--json", "--quiet", "--threads", "1", "--seed", str(seed), *flags]
    if data.train_labels is not None:
        command += ["--labels", data.folder / "train_labels.npy"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise Missing(run.stderr.strip().splitlines()[0] if run.stderr.strip() else f"exit code {run.returncode}")
    result = json.loads(run.stdout)
    return {
        "checked": check(binary, data, model, result["test_log_likelihood"]),
        "density": result["test_log_likelihood"],
        "agreement": result["adjusted_rand"],
        "components": result["effective_components"],
        "cpu_seconds": result["cpu_seconds"],
        "model": str(model),
        "command": " ".join(str(part) for part in command),
    }


def inspect(binary: Path, model: Path) -> dict:
    """What `anabranch inspect --json` says."""
    return json.loads(subprocess.run([binary, "inspect", model, "--json"], capture_output=True, text=True, check=True).stdout)


def check(binary: Path, data: Data, model: Path, density: float) -> bool:
    """Fails when the Student-t mixture of the model's components does not give the density that the program reported.

    False when the program does not say what its prior is in the units of the data.
    """
    shown = inspect(binary, model)
    base = shown.get("prior_summary")
    if base is None:
        return False
    dimension = data.train.shape[1]
    parts = [*shown["components"], base | {"count": 0.0}]
    counts = np.array([part["count"] for part in parts])
    degrees, kappas = base["dof"] + counts, base["kappa"] + counts
    covariances = np.array([part["covariance"] for part in parts]).reshape(-1, dimension, dimension)
    # Where there is no expected covariance, the program shows the scatter over the degrees of freedom.
    excess = degrees - dimension - 1
    scatters = covariances * np.where(excess > 0, excess, degrees)[:, None, None]
    weights = np.append(counts[:-1], shown["alpha"]) / (counts.sum() + shown["alpha"])
    joint = score.student_mixture(data.test, weights, np.array([part["mean"] for part in parts]), kappas, degrees, scatters)
    again = score.mean_density(joint)
    if not abs(again - density) <= TOLERANCE * max(1.0, abs(density)):
        raise AssertionError(f"{model}: the program reports a density of {density}, its components give {again}")
    return True
