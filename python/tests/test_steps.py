"""The four steps in the open: snapshots out, increments back, each minibatch counted once."""

import pickle

import numpy as np
import pytest
from conftest import rows_of

import anabranch
from anabranch import DPMixture

X, TRUTH = rows_of(9000)


def started(seed=0):
    return DPMixture(bootstrap=1000, random_state=seed).fit(X[:1000])


def test_what_two_workers_open_for_the_same_rows_is_joined():
    # Both see a cluster that the model does not know, from the same snapshot.
    known, unknown = X[TRUTH < 3][:1000], X[TRUTH == 3]
    pieces = [unknown[:150], unknown[150:300]]

    def absorb(pieces):
        model = DPMixture(bootstrap=1000, random_state=0).fit(known)
        before, snapshot = model.n_components_, model.snapshot()
        for ix, rows in enumerate(pieces):
            assert model.absorb(anabranch.infer(snapshot, rows, batch=100 + ix, max_new=5))
        np.testing.assert_allclose(model.counts_.sum(), 1000 + 150 * len(pieces))
        return model.n_components_ - before

    first, second, both = absorb(pieces[:1]), absorb(pieces[1:]), absorb(pieces)
    assert first > 0 and second > 0
    assert max(first, second) <= both < first + second


def test_a_minibatch_counts_once_whoever_sends_it_again():
    model = started()
    snapshot = model.snapshot()
    increment = anabranch.infer(snapshot, X[1000:1300], batch=50)
    again = anabranch.infer(model.snapshot(), X[1000:1300], batch=50)
    assert [model.absorb(piece) for piece in (increment, increment, again)] == [True, False, False]
    assert model.n_samples_seen_ == 1300
    np.testing.assert_allclose(model.counts_.sum(), 1300)


def test_increments_of_known_components_commute():
    forwards, backwards = started(), started()
    snapshot = forwards.snapshot()
    assert snapshot == backwards.snapshot()
    increments = [anabranch.infer(snapshot, piece, batch=ix + 9, max_new=0) for ix, piece in enumerate(np.split(X[1000:], 8))]
    for increment in increments:
        forwards.absorb(increment)
    for increment in reversed(increments):
        backwards.absorb(increment)
    np.testing.assert_allclose(forwards.means_, backwards.means_, rtol=1e-12)
    np.testing.assert_allclose(forwards.counts_, backwards.counts_, rtol=1e-12)


def test_bytes_are_small_and_go_through_a_pickle():
    model = started()
    snapshot = model.snapshot()
    increment = pickle.loads(pickle.dumps(anabranch.infer(pickle.loads(pickle.dumps(snapshot)), X[:256])))
    assert isinstance(snapshot, bytes) and len(snapshot) < 4000
    assert isinstance(increment, bytes) and len(increment) < 1000 < X[:256].nbytes
    assert model.absorb(increment)


def test_partial_fit_and_absorb_take_turns():
    model = started()
    model.absorb(anabranch.infer(model.snapshot(), X[1000:1100], batch=2))
    model.partial_fit(X[1100:2000])
    model.absorb(anabranch.infer(model.snapshot(), X[2000:2100], batch=2**40))
    model.partial_fit(X[2100:3000])
    assert model.n_samples_seen_ == 3000
    np.testing.assert_allclose(model.counts_.sum(), 3000)


def test_weights_go_with_the_rows():
    model = started()
    model.absorb(anabranch.infer(model.snapshot(), X[:100], sample_weight=np.full(100, 2.5)))
    np.testing.assert_allclose(model.counts_.sum(), 1250)


def test_what_does_not_belong_is_refused_and_changes_nothing():
    model = started()
    before = model.snapshot()
    wider = DPMixture(bootstrap=500, random_state=0).fit(np.hstack([X, X])[:600])
    shifted = DPMixture(bootstrap=500, random_state=0).fit(3 * X[:600] + 1)
    ahead = started()
    for start in range(1000, 3000, 500):
        ahead.absorb(anabranch.infer(ahead.snapshot(), X[start : start + 500]))
    good = anabranch.infer(before, X[:100])
    for words, increment in [
        ("another model", anabranch.infer(wider.snapshot(), np.hstack([X, X])[:100])),
        ("another model", anabranch.infer(shifted.snapshot(), X[:100])),
        ("it was learned from version", anabranch.infer(ahead.snapshot(), X[:100])),
        ("the checksum does not match", good[:-1] + bytes([good[-1] ^ 1])),
        ("cut short|checksum", good[:8]),
        ("not an increment", b"hello"),
        ("not an increment", b""),
    ]:
        with pytest.raises(ValueError, match=words):
            model.absorb(increment)
    assert model.snapshot() == before
    with pytest.raises(ValueError, match="not an anabranch model"):
        anabranch.infer(b"hello", X[:10])
    with pytest.raises(ValueError, match="rows have 4 columns, the model has 2"):
        anabranch.infer(before, np.hstack([X, X])[:10])
    with pytest.raises(ValueError, match="batch"):
        anabranch.infer(before, X[:10], batch=-1)
