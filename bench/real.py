"""The real data of the quality bench: from scikit-learn, or from a folder of `.npy` files (`--data`).

A held-out fifth is drawn by a stated seed, unless the data come with a test set. Integer data have a second case in which uniform
noise on [0, 1) is added to each value: a density of whole numbers has no upper bound, that of the noisy ones has.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn import datasets

from cases import Data, load


@dataclass(frozen=True)
class Real:
    """Where a data set is, and what the rival is given on it."""

    # File in the folder of `--data`, and its labels.
    file: str
    labels: str | None = None
    # A test set of its own; otherwise a fifth is held out.
    test: str | None = None
    # Loader of scikit-learn, for the data sets that it has.
    loader: str | None = None
    # Splits (or, with a test set of its own, seeds of the fit).
    draws: int = 3
    components: int = 100
    iterations: int = 40
    dequantise: bool = False
    # Rows in the order of this label, as a stream that is not shuffled.
    ordered: bool = False


REAL = {
    "mnist": Real("mnist_pca20_train", "mnist_train_labels", test="mnist_pca20_test"),
    "mnist-sorted": Real("mnist_pca20_train", "mnist_train_labels", test="mnist_pca20_test", ordered=True),
    "glove": Real("glove100k_pca20_train", test="glove100k_pca20_test"),
    "flow": Real("flow_facsdiva_asinh10"),
    "shuttle": Real("shuttle", "shuttle_labels"),
    "shuttle-noise": Real("shuttle", "shuttle_labels", dequantise=True),
    "letter": Real("letter", "letter_labels"),
    "letter-noise": Real("letter", "letter_labels", dequantise=True),
    "digits": Real("digits8x8", "digits8x8_labels", loader="load_digits", components=50, iterations=100),
    "digits-noise": Real("digits8x8", "digits8x8_labels", loader="load_digits", components=50, iterations=100, dequantise=True),
    "wine": Real("wine", "wine_labels", loader="load_wine", draws=10, components=10, iterations=500),
    "iris": Real("iris", "iris_labels", loader="load_iris", draws=10, components=10, iterations=500),
    "faithful": Real("old_faithful", draws=10, components=10, iterations=500),
}


def real(name: str, seed: int, root: Path, source: Path | None) -> Data | None:
    """Split `seed` of the case `name`; nothing when the data are not there."""
    case = REAL[name]
    folder = root / f"{name}-{seed}"
    if not (folder / "test.npy").exists():
        rows, labels = read(case, source)
        if rows is None:
            return None
        rng = np.random.default_rng(seed)
        if case.dequantise:
            rows = rows + rng.random(rows.shape)
        if case.test:
            train, test, train_labels, test_labels = rows, np.load(source / f"{case.test}.npy"), labels, None
        else:
            order = rng.permutation(len(rows))
            held_out = len(rows) // 5
            test, train = rows[order[:held_out]], rows[order[held_out:]]
            train_labels, test_labels = (None, None) if labels is None else (labels[order[held_out:]], labels[order[:held_out]])
        if case.ordered:
            order = np.argsort(train_labels, kind="stable")
            train, train_labels = train[order], train_labels[order]
        folder.mkdir(parents=True, exist_ok=True)
        for part, values in (("train", train), ("train_labels", train_labels), ("test_labels", test_labels), ("test", test)):
            if values is not None:
                np.save(folder / f"{part}.npy", values.astype(np.int64 if "labels" in part else np.float32))
    return load(folder)


def read(case: Real, source: Path | None) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Rows and labels, from the folder or from scikit-learn."""
    if source and (source / f"{case.file}.npy").exists():
        return np.load(source / f"{case.file}.npy"), np.load(source / f"{case.labels}.npy") if case.labels else None
    if case.loader:
        return getattr(datasets, case.loader)(return_X_y=True)
    return None, None
