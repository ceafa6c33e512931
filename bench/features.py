"""Features of `--model bp`: planted numbers, and rows rebuilt next to scikit-learn's factors, which are told the number.

    python bench/features.py [--binary FILE] [--draws 3] [--write]

Planted: 3, 6 and 12 normal vectors of 25 columns that rows have with probability 0.15 to 0.5, under noise of 0.2 and 0.6, 3,000 rows to
learn from and 500 held out. Digits: scikit-learn's 1,797 pictures of 8 × 8 cells, 1,500 to learn from and 297 held out. A held-out row
is rebuilt from what it has of each feature: 0 or 1 here, any number there. Everything runs on one thread.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import argparse  # noqa: E402
import json  # noqa: E402
import subprocess  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import record  # noqa: E402
from sklearn.datasets import load_digits  # noqa: E402
from sklearn.decomposition import DictionaryLearning, FactorAnalysis  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
NUMBERS = [3, 6, 12]
NOISES = [0.2, 0.6]
WORKERS = [1, 16]
COLUMNS, LEARNED, HELD_OUT = 25, 3000, 500
DIGITS = 1500
# A true feature is found when a feature is nearer to it than this, in deviations of the noise for each cell.
NEAR = 0.5


def draw(k: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The features, rows, and the rows without noise."""
    rng = np.random.default_rng([seed, k, int(10 * noise)])
    features = rng.normal(size=(k, COLUMNS))
    chances = rng.uniform(0.15, 0.5, size=k)
    clean = (rng.random((LEARNED + HELD_OUT, k)) < chances) @ features
    return features, clean + noise * rng.normal(size=clean.shape), clean


def ours(binary: Path, work: Path, rows: np.ndarray, learned: int, flags: list) -> dict:
    """`anabranch fit --model bp`, and held-out rows rebuilt."""
    np.save(work / "train.npy", rows[:learned])
    np.save(work / "test.npy", rows[learned:])
    command = [binary, "fit", work / "train.npy", "--model", "bp", "--threads", "1", "--json", "--quiet", "--out", work / "model", *flags]
    told = json.loads(run(command))
    shown = json.loads(run([binary, "inspect", work / "model", "--json"]))["components"]
    features = np.array([feature["mean"] for feature in shown])
    lines = run([binary, "predict", work / "model", work / "test.npy", "--proba"]).splitlines()
    place = {name.split("_")[-1]: ix for ix, name in enumerate(lines[0].split(","))}
    shares = np.array([[float(cell) for cell in line.split(",")] for line in lines[1:]])
    shares = shares[:, [place[str(feature["id"])] for feature in shown]]
    return {"found": len(features), "features": features, "rebuilt": shares @ features, "cpu": told["cpu_seconds"], "noise": told["noise"]}


def run(command: list) -> str:
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout


def factors(rows: np.ndarray, learned: int, k: int) -> dict:
    started = time.process_time()
    model = FactorAnalysis(k, random_state=0).fit(rows[:learned])
    cpu = time.process_time() - started
    return {"cpu": cpu, "rebuilt": model.transform(rows[learned:]) @ model.components_ + model.mean_}


def dictionary(rows: np.ndarray, learned: int, k: int) -> dict:
    started = time.process_time()
    centre = rows[:learned].mean(axis=0)
    model = DictionaryLearning(k, random_state=0, max_iter=100, fit_algorithm="cd").fit(rows[:learned] - centre)
    cpu = time.process_time() - started
    return {"cpu": cpu, "rebuilt": model.transform(rows[learned:] - centre) @ model.components_ + centre}


def error(rows: np.ndarray, rebuilt: np.ndarray) -> float:
    """Root of the mean squared difference of a cell."""
    return float(np.sqrt(((rows - rebuilt) ** 2).mean()))


RIVALS = {"FactorAnalysis": factors, "DictionaryLearning": dictionary}


def planted(binary: Path, work: Path, draws: int) -> list[dict]:
    rows = []
    for k, noise, seed in ((k, noise, seed) for k in NUMBERS for noise in NOISES for seed in range(draws)):
        features, data, clean = draw(k, noise, seed)
        row: dict = {"k": k, "noise": noise, "draw": seed, "found": {}, "near": {}, "error": {}, "of the truth": {}, "cpu": {}}
        for workers in WORKERS:
            method = f"{workers} worker{'s' * (workers > 1)}"
            result = ours(binary, work, data, LEARNED, ["--workers", workers, "--schedule", "deterministic"])
            row["found"][method] = result["found"]
            distances = [float(np.sqrt(((result["features"] - feature) ** 2).mean(axis=1).min())) for feature in features]
            row["near"][method] = sum(distance < NEAR * noise for distance in distances)
            note(row, method, result, data[LEARNED:], clean[LEARNED:])
        for method, rival in RIVALS.items():
            note(row, method, rival(data, LEARNED, k), data[LEARNED:], clean[LEARNED:])
        print(row, flush=True)
        rows.append(row)
    return rows


def note(row: dict, method: str, result: dict, data: np.ndarray, clean: np.ndarray) -> None:
    row["error"][method] = round(error(data, result["rebuilt"]), 4)
    row["of the truth"][method] = round(error(clean, result["rebuilt"]), 4)
    row["cpu"][method] = round(result["cpu"], 2)


def digits(binary: Path, work: Path) -> dict:
    data = load_digits().data[np.random.default_rng(0).permutation(1797)]
    result = ours(binary, work, data, DIGITS, [])
    found = result["found"]
    row: dict = {"digits": len(data), "found": found, "noise": result["noise"], "error": {}, "cpu": {}}
    for method, result in {"anabranch": result, **{name: rival(data, DIGITS, found) for name, rival in RIVALS.items()}}.items():
        row["error"][method] = round(error(data[DIGITS:], result["rebuilt"]), 3)
        row["cpu"][method] = round(result["cpu"], 2)
    np.save(work / "train.npy", data)
    row["cpu"]["anabranch, all rows"] = round(json.loads(run([binary, "fit", work / "train.npy", "--model", "bp", "--threads", "1", "--json", "--quiet"]))["cpu_seconds"], 2)
    print(row, flush=True)
    return row


def texts(rows: list[dict], pictures: dict) -> dict[str, str]:
    ours_, rivals = [f"{workers} worker{'s' * (workers > 1)}" for workers in WORKERS], list(RIVALS)
    lines = ["| features | noise | found, 1 worker | found, 16 workers | error: anabranch | " + " | ".join(rivals) + " |", "|---" * (5 + len(rivals)) + "|"]
    mean = lambda same, part, method: float(np.mean([row[part][method] for row in same]))  # noqa: E731
    for k, noise in ((k, noise) for k in NUMBERS for noise in NOISES):
        same = [row for row in rows if (row["k"], row["noise"]) == (k, noise)]
        found = [", ".join(str(row["found"][method]) for row in same) for method in ours_]
        errors = [f"{mean(same, 'error', method):.3f} ({mean(same, 'of the truth', method):.3f})" for method in [ours_[0], *rivals]]
        lines.append(f"| {k} | {noise} | " + " | ".join(found + errors) + " |")
    told = [(row["k"], row["found"][method], row["near"][method]) for row in rows for method in ours_]
    right = sum(k == found for k, found, _ in told)
    near = sum(k == found for k, _, found in told)
    errors, cpu = pictures["error"], pictures["cpu"]
    return {
        "table": "\n" + "\n".join(lines) + "\n",
        "right": f"the number is right in {right} of {len(told)} runs, and every true feature is found in {near}",
        "digits": f"{pictures['found']} features, an error of {errors['anabranch']:.2f} for a cell of a held-out row in {cpu['anabranch']:.1f} processor seconds; "
        + ", ".join(f"{name} told as many {errors[name]:.2f} in {cpu[name]:.1f}" for name in rivals)
        + f". All {pictures['digits']:,} rows take {cpu['anabranch, all rows']:.1f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/anabranch")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="store bench/results/features.json and fill the documents")
    args = parser.parse_args()
    work = ROOT / "target/quality/features"
    work.mkdir(parents=True, exist_ok=True)
    pictures = digits(args.binary, work)
    rows = planted(args.binary, work, args.draws)
    shown = texts(rows, pictures)
    print("\n".join(shown.values()))
    if args.write:
        record.write("features", f"bench/features.py --draws {args.draws} --write", [pictures, *rows], shown, ("scikit-learn",))


if __name__ == "__main__":
    main()
