"""Functions beside the estimators: the worker's step, and models from files."""

import json
import secrets

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight

from . import _core, _input
from ._features import LatentFeatures
from ._mixture import DPMixture, PYMixture
from ._topics import HDPTopics

_LARGEST_BATCH = 2**62


def infer(snapshot, X, sample_weight=None, *, batch=None, max_new=50):
    """Step 2: what a minibatch teaches, given a snapshot. Runs anywhere; knows nothing of the model but the snapshot.

    Parameters
    ----------
    snapshot : bytes
        From ``model.snapshot()``.
    X : array, data frame, table or sparse matrix of counts
        The rows of one minibatch, with the columns of the model.
    sample_weight : array, optional
    batch : int, optional
        Name of the minibatch. The model counts a name once, so a task that is run again does no harm; drawn at random
        by default, which cannot tell a second run from a second minibatch.
    max_new : int, default=50
        Components that the minibatch may open.

    Returns
    -------
    increment : bytes
        For ``model.absorb``.
    """
    if batch is None:
        batch = secrets.randbelow(_LARGEST_BATCH)
    if not 0 <= batch < _LARGEST_BATCH:
        raise ValueError(f"batch: {batch} is not between 0 and 2**62")
    plain, _ = _input.plain(X)
    X = check_array(plain, dtype=[np.float64, np.float32], accept_sparse="csr", input_name="X")
    if sparse.issparse(X):
        X = X.astype(np.float64, copy=False)
    if sample_weight is not None:
        sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    return _core.infer(snapshot, _input.lend(X), sample_weight, int(batch), int(max_new))


def load(path):
    """Read a model file, written by ``save`` or by the command line, as the estimator that fits it."""
    with open(path, "rb") as file:
        data = file.read()
    kinds = {"dp": DPMixture, "py": PYMixture, "hdp": HDPTopics, "bp": LatentFeatures}
    return kinds[json.loads(_core.describe(data))["model"]]._from_bytes(data)
