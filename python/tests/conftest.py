"""Rows with a known truth, shared by the tests."""

import json

import numpy as np
import pytest

CENTRES = np.array([[-12.0, 0.0], [0.0, 12.0], [12.0, 0.0], [0.0, -12.0]])


def rows_of(n, seed=0, dtype=np.float64):
    """Rows in the plane from four round clusters, and which one each came from."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(len(CENTRES), size=n)
    return (CENTRES[truth] + rng.normal(size=(n, 2))).astype(dtype), truth


@pytest.fixture
def rows():
    """2000 rows and their clusters."""
    return rows_of(2000)


def learned(path):
    """All of a model file but the names of its inputs, and the checksum over them."""
    file = path.read_bytes()
    end = 8 + int.from_bytes(file[:8], "little")
    parts = json.loads(file[8:end])
    metadata = parts.pop("__metadata__")
    header = json.loads(metadata.pop("header"))
    del metadata["crc32"]
    for read in header["provenance"]["learned_from"]:
        del read["name"]
    return parts, metadata, header, file[end:]


def same_but_for_names(a, b):
    """Assert that two models are equal, bit by bit, whatever their components are called."""
    mine, others = np.lexsort(a.means_.T), np.lexsort(b.means_.T)
    np.testing.assert_array_equal(a.counts_[mine], b.counts_[others])
    np.testing.assert_array_equal(a.means_[mine], b.means_[others])
    np.testing.assert_array_equal(a.covariances_[mine], b.covariances_[others])
    assert a.n_samples_seen_ == b.n_samples_seen_


def same(a, b):
    """Assert that two models are equal, bit by bit."""
    np.testing.assert_array_equal(a.component_ids_, b.component_ids_)
    np.testing.assert_array_equal(a.counts_, b.counts_)
    np.testing.assert_array_equal(a.means_, b.means_)
    np.testing.assert_array_equal(a.covariances_, b.covariances_)
    assert a.n_samples_seen_ == b.n_samples_seen_
