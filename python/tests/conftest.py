"""Rows with a known truth, shared by the tests."""

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


def same(a, b):
    """Assert that two models are equal, bit by bit."""
    np.testing.assert_array_equal(a.component_ids_, b.component_ids_)
    np.testing.assert_array_equal(a.counts_, b.counts_)
    np.testing.assert_array_equal(a.means_, b.means_)
    np.testing.assert_array_equal(a.covariances_, b.covariances_)
    assert a.n_samples_seen_ == b.n_samples_seen_
