"""The pictures of docs/quality.md, as small SVG files."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")

import numpy as np  # noqa: E402
from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.collections import EllipseCollection  # noqa: E402

import ours  # noqa: E402
from cases import load  # noqa: E402

OURS, RIVAL, GREY = "#1f5fa8", "#d1782b", "#8a8a8a"
# Rows drawn in one panel, and components, the largest first.
ROWS, COMPONENTS = 2_000, 400

plt.rcParams.update({"svg.hashsalt": "anabranch", "font.size": 8, "axes.spines.top": False, "axes.spines.right": False})


def save(figure: plt.Figure, path: Path) -> None:
    """Writes without a date, so that equal pictures are equal files."""
    dated = "Date" if path.suffix == ".svg" else "Software"
    figure.savefig(path, metadata={dated: None}, dpi=100, bbox_inches="tight")
    plt.close(figure)


def ellipses(axes: plt.Axes, means: np.ndarray, covariances: np.ndarray, colour: str, width: float) -> None:
    """One ellipse of two standard deviations for each component of the plane."""
    values, vectors = np.linalg.eigh(covariances)
    sizes = 4 * np.sqrt(np.maximum(values, 0))
    angles = np.degrees(np.arctan2(vectors[:, 1, 1], vectors[:, 0, 1]))
    axes.add_collection(
        EllipseCollection(
            sizes[:, 1], sizes[:, 0], angles, units="xy", offsets=means, offset_transform=axes.transData,
            facecolors="none", edgecolors=colour, linewidths=width, alpha=float(np.clip(60 / len(means), 0.25, 1)),
        )
    )


def panel(axes: plt.Axes, title: str, rows: np.ndarray, shown: dict, truth: dict) -> None:
    """Rows and components, in the two columns or the two leading principal directions of the rows."""
    rows = rows[np.random.default_rng(0).choice(len(rows), min(ROWS, len(rows)), replace=False)].astype(np.float64)
    dimension = rows.shape[1]
    centre, axis = np.zeros(dimension), np.eye(dimension)[:, :2]
    if dimension > 2:
        centre = rows.mean(axis=0)
        axis = np.linalg.svd(rows - centre, full_matrices=False)[2][:2].T
    plane = (rows - centre) @ axis
    axes.scatter(*plane.T, s=6 if len(rows) < 500 else 1.5, color="#9aa3af", rasterized=True, linewidths=0)
    for covered, colour, width in ((truth, "#e0a030", 2.0), (shown, OURS, 0.7)):
        if covered:
            means = (np.asarray(covered["means"]) - centre) @ axis
            covariances = axis.T @ np.asarray(covered["covariances"]) @ axis
            ellipses(axes, means, covariances, colour, width)
    low, high = np.quantile(plane, [0.002, 0.998], axis=0)
    margin = 0.1 * (high - low)
    axes.set(xlim=(low[0] - margin[0], high[0] + margin[0]), ylim=(low[1] - margin[1], high[1] + margin[1]), title=title)
    axes.tick_params(length=2)


def components_of(binary: Path, model: str) -> dict:
    """Means and covariances of the largest components with at least one row."""
    shown = ours.inspect(binary, Path(model))["components"]
    kept = [part for part in shown if part["count"] >= 1][:COMPONENTS]
    dimension = len(kept[0]["mean"])
    return {
        "means": np.array([part["mean"] for part in kept]),
        "covariances": np.array([part["covariance"] for part in kept]).reshape(-1, dimension, dimension),
    }


def first_fit(result: dict) -> dict | None:
    """Our first measured variant on the first draw."""
    return next(iter(result["draws"][0]["ours"].values()), None)


def maps(results: list[dict], binary: Path, path: Path, columns: int, size: float) -> None:
    """A panel for each case."""
    results = [result for result in results if first_fit(result)]
    if not results:
        return
    lines = -(-len(results) // columns)
    figure, grid = plt.subplots(lines, columns, figsize=(size * columns, 0.92 * size * lines), squeeze=False, layout="constrained")
    for axes in grid.flat[len(results) :]:
        axes.axis("off")
    for axes, result in zip(grid.flat, results):
        data = load(Path(result["draws"][0]["folder"]))
        truth = {}
        if (data.folder / "truth.npz").exists():
            with np.load(data.folder / "truth.npz") as drawn:
                truth = {key: drawn[key] for key in ("means", "covariances")}
        fit = first_fit(result)
        panel(axes, f"{result['case']}: {fit['components']} components", data.train, components_of(binary, fit["model"]), truth)
    save(figure, path)


def shortfall(results: list[dict], path: Path) -> None:
    """How far below the truth: the rival, ours, and a fit that knows the labels."""
    names, bars = [], []
    for result in results:
        entry, fit = result["draws"][0], first_fit(result)
        if not entry["bounds"] or "density" not in entry.get("rival", {}) or fit is None:
            continue
        truth = entry["bounds"]["truth"]
        names.append(result["case"])
        bars.append([truth - entry["rival"]["density"], truth - fit["density"], truth - entry["bounds"]["ceiling"]])
    if not names:
        return
    figure, axes = plt.subplots(figsize=(5.2, 0.55 * len(names) + 0.8), layout="constrained")
    place = np.arange(len(names))
    for ix, (label, colour) in enumerate((("scikit-learn", RIVAL), ("anabranch", OURS), ("labels known", GREY))):
        axes.barh(place + 0.27 * (ix - 1), [max(bar[ix], 1e-4) for bar in bars], height=0.25, color=colour, label=label)
    axes.set(yticks=place, yticklabels=names, xscale="log", xlabel="nats per held-out row below the true mixture (shorter is better)")
    axes.invert_yaxis()
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, 1.25), ncols=3)
    save(figure, path)


def against_components(results: list[dict], path: Path) -> None:
    """Held-out density and number of components on real data, as steps from the rival to ours."""
    figure, axes = plt.subplots(figsize=(5.6, 3.6), layout="constrained")
    drawn = False
    for result in results:
        entry, fit = result["draws"][0], first_fit(result)
        if entry["bounds"] or "density" not in entry.get("rival", {}) or fit is None:
            continue
        gain = fit["density"] - entry["rival"]["density"]
        axes.annotate("", (fit["components"], gain), (entry["rival"]["components"], 0), arrowprops={"arrowstyle": "->", "color": GREY, "lw": 0.7})
        axes.plot(entry["rival"]["components"], 0, "o", color=RIVAL, ms=4)
        axes.plot(fit["components"], gain, "o", color=OURS, ms=4)
        axes.annotate(result["case"], (fit["components"], gain), xytext=(4, 3), textcoords="offset points")
        drawn = True
    if not drawn:
        plt.close(figure)
        return
    axes.set(xscale="log", xlabel="components with at least one row", ylabel="nats per held-out row\nabove scikit-learn (orange)")
    axes.set_yscale("symlog", linthresh=0.1)
    axes.margins(0.12)
    axes.axhline(0, color=GREY, lw=0.5)
    save(figure, path)
