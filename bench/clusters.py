"""Clusters of any shape next to scikit-learn: `make bench-clusters`.

Each case goes, as the same rows in the same order, to `anabranch fit` with all defaults (its clusters, and its clusters when told their
number), to HDBSCAN at its default and at the best of four settings, and, with the true number of clusters given, to k-means and to
BayesianGaussianMixture. Agreement is the adjusted Rand index over the rows that have a true cluster; what HDBSCAN calls noise is a
cluster of its own there. Seconds are of processor time, of a process that holds the rows already (ours reads them from a file).
Everything runs on one thread. Up to 10,000 rows each figure is the mean over three draws, of real data over three orders; the best
of four is that of each draw. The seeds are others than those that the default cut was chosen on.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import hashlib
import json
import resource
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture

import record
from shapes import SHAPES

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = (5, 15, 50, 150)
SIZES = (1_000, 10_000, 100_000, 1_000_000)
# Seeds of the draws: up to so many rows all of them, beyond only the first.
SEEDS = (101, 102, 103)
ONE_DRAW = 10_000
# HDBSCAN is quadratic where no tree helps (100,000 rows in the plane: a minute for each setting), the mixture slow: the sizes and
# columns that a rival is given.
MOST_HDBSCAN = {2: 100_000, 3: 100_000, 5: 30_000, 64: 2_000}
MOST_MIXTURE = 30_000
REAL = {
    # name: file, labels, width of the uniform noise that whole numbers need
    "digits": ("digits8x8", "digits8x8_labels", 1.0),
    "iris": ("iris", "iris_labels", 0.0),
    "wine": ("wine", "wine_labels", 0.0),
    "mnist": ("mnist_pca20_train", "mnist_train_labels", 0.0),
    "letter": ("letter", "letter_labels", 1.0),
    "shuttle": ("shuttle", "shuttle_labels", 1.0),
}


@dataclass
class Line:
    """What was measured on one case."""

    case: str
    rows: int
    clusters: int
    figures: dict[str, tuple[float, int, float]] = field(default_factory=dict)


def cpu() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def agreement(truth: np.ndarray, labels: np.ndarray) -> float:
    known = truth >= 0
    return adjusted_rand_score(truth[known], labels[known])


def predicted(binary: Path, model: Path, rows: Path) -> np.ndarray:
    table = subprocess.run([binary, "predict", model, rows], capture_output=True, text=True, check=True).stdout
    return np.array([int(line.rsplit(",", 1)[1] or -1) for line in table.splitlines()[1:]])


def ours(binary: Path, folder: Path, rows: np.ndarray, truth: np.ndarray, line: Line) -> None:
    path, model = folder / "rows.npy", folder / "model"
    np.save(path, rows.astype(np.float32))
    start = cpu()
    fitted = subprocess.run(
        [binary, "fit", path, "--out", model, "--json", "--quiet", "--threads", "1"], capture_output=True, text=True, check=True
    )
    seconds = cpu() - start
    components = json.loads(fitted.stdout)["components"]
    labels = predicted(binary, model, path)
    line.figures["components"] = (float("nan"), components, seconds)
    line.figures["clusters"] = (agreement(truth, labels), len(set(labels.tolist())), seconds)
    subprocess.run([binary, "clusters", model, "--count", str(line.clusters), "--keep"], capture_output=True, check=True)
    labels = predicted(binary, model, path)
    line.figures["told"] = (agreement(truth, labels), len(set(labels.tolist())), seconds)


def rivals(rows: np.ndarray, truth: np.ndarray, line: Line) -> None:
    n, d = rows.shape
    limit = next((most for columns, most in sorted(MOST_HDBSCAN.items()) if d <= columns), 2_000)
    if n <= limit:
        found = {}
        for size in SETTINGS:
            start = cpu()
            labels = HDBSCAN(min_cluster_size=size, copy=True).fit_predict(rows)
            found[size] = (agreement(truth, labels), len(set(labels.tolist()) - {-1}), cpu() - start)
        line.figures["hdbscan"] = found[SETTINGS[0]]
        line.figures["hdbscan best"] = max(found.values())
    start = cpu()
    labels = KMeans(line.clusters, n_init=3, random_state=0).fit_predict(rows)
    line.figures["k-means"] = (agreement(truth, labels), line.clusters, cpu() - start)
    if n <= MOST_MIXTURE:
        start = cpu()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels = BayesianGaussianMixture(n_components=line.clusters, max_iter=200, random_state=0).fit_predict(rows)
        line.figures["mixture"] = (agreement(truth, labels), len(set(labels.tolist())), cpu() - start)


def cases(sizes: tuple[int, ...], data: Path | None, only: str):
    """Each case with its draws."""
    for n in sizes:
        for name, draw in SHAPES.items():
            if only in name:
                yield name, (draw(n, seed) for seed in (SEEDS if n <= ONE_DRAW else SEEDS[:1]))
    for name, (file, labels, noise) in REAL.items():
        if data is None or only not in name or not (data / f"{file}.npy").exists():
            continue
        rows, truth = np.load(data / f"{file}.npy").astype(float), np.load(data / f"{labels}.npy").astype(int)
        yield name, (shuffled(rows, truth, noise, seed) for seed in SEEDS)


def shuffled(rows: np.ndarray, truth: np.ndarray, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows))
    return rows[order] + noise * rng.uniform(-0.5, 0.5, rows.shape), truth[order]


def mean_of(lines: list[Line]) -> Line:
    """The mean figures of several draws of one case."""
    mean = Line(lines[0].case, lines[0].rows, lines[0].clusters)
    for method in lines[0].figures:
        mean.figures[method] = tuple(np.mean([line.figures[method] for line in lines], axis=0))
    return mean


# Where the page holds the table.
OURS = ("components", "clusters", "told")
METHODS = ("clusters", "told", "hdbscan", "hdbscan best", "mixture", "k-means")
HEADS = ("clusters", "clusters, N given", "HDBSCAN, default", "HDBSCAN, best of four", "BGM, K given", "k-means, K given")


def cell(figure: tuple[float, int, float] | None) -> str:
    return "–" if figure is None else f"{figure[0]:.3f} ({figure[1]:.3g}; {figure[2]:.1f} s)"


SCALE = (1_000_000, 100_000)
RIVAL = """
import resource, sys
import numpy as np
from sklearn.cluster import HDBSCAN
HDBSCAN(min_cluster_size=150, copy=False).fit_predict(np.load(sys.argv[1]))
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
"""


def scale(binary: Path, folder: Path) -> str:
    """Seconds and memory of a million rows in the plane, and of HDBSCAN with as many as it can do in about a minute."""
    said = []
    for rows in SCALE:
        np.save(folder / "rows.npy", SHAPES["moons"](rows, SEEDS[0])[0].astype(np.float32))
        if rows == SCALE[0]:
            command = [binary, "fit", folder / "rows.npy", "--json", "--quiet", "--threads", "1"]
            fitted = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            seconds, memory, who = fitted["cpu_seconds"], fitted["peak_rss_bytes"], "`fit`"
        else:
            command = [sys.executable, "-c", RIVAL, folder / "rows.npy"]
            found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            seconds, memory, who = float(found[0]), float(found[1]), "HDBSCAN (150)"
        said.append((rows, seconds, memory, who))
    (n, s, m, _), (rn, rs, rm, _) = said
    text = ", ".join(f"{who} {rows:,} rows in {seconds:.1f} s with {memory / 1e6:.0f} MB" for rows, seconds, memory, who in said)
    return f"Scale, moons: {text}; a row costs 1/{rs / rn / (s / n):.0f} of the time, all of it 1/{rm / m:.1f} of the memory."


def table(lines: list[Line]) -> str:
    out = ["| data | rows | true | components | " + " | ".join(HEADS) + " |", "|---" * (4 + len(METHODS)) + "|"]
    for line in lines:
        figures = " | ".join(cell(line.figures.get(method)) for method in METHODS)
        out.append(f"| {line.case} | {line.rows:,} | {line.clusters} | {line.figures['components'][1]:.0f} | {figures} |")
    compared = [line for line in lines if "hdbscan" in line.figures]
    if compared:
        mean = {m: np.mean([line.figures[m][0] for line in compared]) for m in ("clusters", "told", "hdbscan", "hdbscan best")}
        out += ["", "Means over the lines that HDBSCAN has: " + ", ".join(f"{head} {mean[m]:.3f}" for m, head in zip(METHODS, HEADS) if m in mean) + "."]
        behind = [f"{line.case} {line.rows:,}" for line in compared if line.figures["clusters"][0] < line.figures["hdbscan best"][0] - 0.005]
        out += ["", f"Behind HDBSCAN's best setting by more than 0.005: {', '.join(behind) or 'none'}."]
    return "\n".join(out)


def kept_names(binary: Path, folder: Path) -> tuple[list[dict], str]:
    """The share of the first rows that have the same cluster name after ten times as many."""
    measured = []
    for rows in (1_000, 10_000):
        for name, draw in SHAPES.items():
            drawn, _ = draw(10 * rows, SEEDS[0])
            first, rest, before, after = (folder / part for part in ("first.npy", "rest.npy", "before", "after"))
            np.save(first, drawn[:rows].astype(np.float32))
            np.save(rest, drawn[rows:].astype(np.float32))
            for command in (["fit", first, "--out", before], ["fit", rest, "--from", before, "--out", after]):
                subprocess.run([binary, *command, "--quiet"], capture_output=True, check=True)
            told = subprocess.run([binary, "clusters", after, "--since", before, "--json"], capture_output=True, text=True, check=True)
            events = sorted({event["event"] for event in json.loads(told.stdout)["events"]})
            old, new = predicted(binary, before, first), predicted(binary, after, first)
            measured.append({"case": name, "rows": rows, "kept": float(np.mean(old == new)), "events": events})
    lines = []
    for rows in sorted({line["rows"] for line in measured}):
        of_size = [line for line in measured if line["rows"] == rows]
        still = [line["kept"] for line in of_size if not line["events"]]
        changed = "; ".join(f"{line['case']} ({', '.join(line['events'])}) {line['kept']:.3f}" for line in of_size if line["events"])
        lines.append(
            f"- {rows:,} rows, then {10 * rows:,}: of {len(of_size)} shapes {len(still)} had no event, and of their first rows at least {min(still):.3f}, "
            f"in the mean {np.mean(still):.4f}, kept their cluster's name." + (f" With events: {changed}." if changed else "")
        )
    return measured, "\n".join(lines)


def stored(lines: list[Line], binary: Path, scale: str) -> None:
    """Stores what was measured beside what the same program has shown in other runs, and fills the page."""
    program = hashlib.sha256(binary.read_bytes()).hexdigest()[:12]
    path = record.RESULTS / "clusters.json"
    old = json.loads(path.read_text()) if path.exists() else {"rows": [], "texts": {}}
    before = {(row["case"], row["rows"]): row for row in old["rows"]}
    known = {key: row for key, row in before.items() if row.get("program") == program}
    scale = scale or (old["texts"].get("scale", "") if known else "")
    for line in lines:
        # What rivals make of the same rows does not depend on our program.
        of_rivals = {m: f for m, f in before.get((line.case, line.rows), {"figures": {}})["figures"].items() if m not in OURS}
        figures = {**of_rivals, **line.figures}
        row = {"case": line.case, "rows": line.rows, "clusters": line.clusters, "figures": figures, "program": program}
        known[line.case, line.rows] = row
    names = [*SHAPES, *REAL]
    rows = sorted(known.values(), key=lambda row: (row["case"] in REAL, 0 if row["case"] in REAL else row["rows"], names.index(row["case"])))
    all_lines = [Line(row["case"], row["rows"], row["clusters"], {m: tuple(f) for m, f in row["figures"].items()}) for row in rows]
    texts = {"table": table(all_lines) + (f"\n\n{scale}" if scale else ""), "scale": scale}
    record.write("clusters", "make bench-clusters DATA=DIR", rows, texts, ("scikit-learn", "numpy"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with the real data, as .npy files")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="rows of the drawn cases")
    parser.add_argument("--scale", action="store_true", help="also a million rows, and memory")
    parser.add_argument("--names", action="store_true", help="only how many rows keep the name of their cluster after ten times as many rows")
    parser.add_argument("--ours", action="store_true", help="without the rivals: --write keeps what they made of the same rows before")
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/anabranch")
    parser.add_argument("--write", action="store_true", help="write the table into docs/clusters.md")
    args = parser.parse_args()
    folder = ROOT / "target/clusters" / str(os.getpid())
    folder.mkdir(parents=True, exist_ok=True)
    if args.names:
        measured, text = kept_names(args.binary, folder)
        print(text)
        if args.write:
            record.write("clusters-names", "bench/clusters.py --names", measured, {"names": text}, ("scikit-learn", "numpy"))
        return
    lines = []
    for name, draws in cases(tuple(int(n) for n in args.sizes.split(",") if n), args.data, args.only):
        drawn = []
        for rows, truth in draws:
            line = Line(name, len(rows), len(set(truth[truth >= 0].tolist())))
            ours(args.binary, folder, rows, truth, line)
            if not args.ours:
                rivals(rows, truth, line)
            drawn.append(line)
        lines.append(line := mean_of(drawn))
        shown = "  ".join(f"{method} {cell(line.figures.get(method))}" for method in METHODS)
        print(f"{name} {line.rows}: {line.figures['components'][1]:.0f} components  {shown}", flush=True)
    at_scale = scale(args.binary, folder) if args.scale else ""
    print(table(lines), at_scale, sep="\n\n")
    if args.write:
        stored(lines, args.binary, at_scale)


if __name__ == "__main__":
    main()
