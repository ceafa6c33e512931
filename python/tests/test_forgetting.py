"""The past fades; the callback hears what becomes of components."""

import numpy as np
import pytest
from anabranch import DPMixture


def stream(change):
    """Two clusters, of which one is elsewhere after so many of 4,000 rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 2))
    X[1::2] += np.where(np.arange(1, 4000, 2)[:, None] < change, 30.0, -30.0)
    return X


@pytest.mark.parametrize("half_life", [300, "auto"])
def test_what_has_moved_is_forgotten_where_it_was(half_life):
    model = DPMixture(half_life=half_life, bootstrap=1000, random_state=0).fit(stream(1500))
    whole = DPMixture(bootstrap=1000, random_state=0).fit(stream(1500))
    there = np.full((1, 2), 30.0)
    assert model.score_samples(there)[0] < whole.score_samples(there)[0] - 3
    assert model.score_samples(-there)[0] > whole.score_samples(-there)[0]


def test_pieces_are_one_stream():
    X = stream(1500)
    one = DPMixture(half_life=300, random_state=0).fit(X)
    pieces = DPMixture(half_life=300, random_state=0)
    for part in np.array_split(X, 7):
        pieces.partial_fit(part)
    assert np.array_equal(one.score_samples(X), pieces.score_samples(X))


def test_a_model_that_was_saved_goes_on_forgetting(tmp_path):
    X = stream(1500)
    for half_life in (300, "auto"):
        model = DPMixture(half_life=half_life, bootstrap=1000, random_state=0).fit(X[:3000])
        model.save(tmp_path / "model")
        loaded = DPMixture.load(tmp_path / "model")
        assert loaded.half_life == half_life
        assert loaded.partial_fit(X[3000:]).counts_.sum() < 4000


def test_events_follow_every_id():
    ids, deaths, components = set(), 0, 0

    def follow(event):
        nonlocal deaths, components
        for change in event.changes:
            match change["event"]:
                case "birth":
                    ids.add(change["id"])
                case "merge":
                    ids.discard(change["id"])
                case "split":
                    ids.update(change["into"])
                case "death":
                    deaths += 1
                    ids.discard(change["id"])
        components = event.components

    DPMixture(half_life=100, bootstrap=1000, random_state=0, callback=follow, n_jobs=1).fit(stream(1500))
    # What has happened is told with the next event: all of it with the last one.
    assert (deaths >= 1, components) == (True, len(ids))


def test_a_half_life_is_rows_or_auto():
    for wrong in (0, -1, 2.5, "soon"):
        with pytest.raises((ValueError, TypeError), match="half_life"):
            DPMixture(half_life=wrong).fit(stream(0))
    with pytest.raises(ValueError, match="half.life"):
        DPMixture(half_life=100, polish=1000).fit(stream(0))


def test_what_is_forgotten_and_what_counts_are_all_rows():
    model = DPMixture(half_life=300, bootstrap=1000, random_state=0).fit(stream(1500))
    assert model.forgotten_ > 1000
    assert model.forgotten_ + model.counts_.sum() == pytest.approx(4000)
    assert DPMixture(random_state=0).fit(stream(1500)).forgotten_ == 0


@pytest.mark.parametrize("wrong", [True, 0, 1.5, "soon"])
def test_half_lives_are_rows_or_auto(wrong):
    with pytest.raises(ValueError, match="half_life"):
        DPMixture(half_life=wrong).fit(stream(1500))
