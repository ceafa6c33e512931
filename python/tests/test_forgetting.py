"""The past fades; the callback hears what becomes of components."""

import datetime
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest
from anabranch import DPMixture, load
from conftest import same


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


# ---------------------------------------------------------------------- by time

START = 1_714_557_600


def hourly(**parameters):
    return DPMixture(half_life="10m", bootstrap=1000, batch_size=100, random_state=0, **parameters)


def timed():
    """The stream, one row a second but for one in ten, which comes ten minutes late."""
    seconds = START + np.arange(4000.0)
    seconds[::10] -= 600
    return stream(1500), seconds


def written(path, X, seconds):
    np.savetxt(path, np.column_stack([X, seconds]), delimiter=",", header="x,y,when", comments="", fmt="%.17g")


def test_the_model_of_the_command_line(tmp_path):
    X, seconds = timed()
    written(tmp_path / "all.csv", X, seconds)
    written(tmp_path / "more.csv", X[3000:], seconds[3000:])
    flags = ["--half-life", "10m", "--bootstrap", "1000", "--batch-size", "100"]

    def command(*words):
        subprocess.run([sys.executable, "-m", "anabranch", "fit", *words, "-q"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)

    command("all.csv", "--time", "when", "--out", "all", *flags)
    there, here = load(tmp_path / "all"), hourly().fit(X, times=seconds)
    assert there.half_life == "10m"
    same(here, there)
    assert here.forgotten_ == there.forgotten_ > 2000
    assert here.forgotten_ + here.counts_.sum() == pytest.approx(4000)
    same(hourly().fit(tmp_path / "all.csv", times="when"), there)
    # A model of this goes on there, and the other way round, by the times of its column.
    written(tmp_path / "first.csv", X[:3000], seconds[:3000])
    hourly().fit(tmp_path / "first.csv", times="when").save(tmp_path / "model")
    command("more.csv", "--from", "model", "--out", "new", "--workers", "1")
    there = load(tmp_path / "new")
    for more in ({"X": X[3000:], "times": seconds[3000:]}, {"X": tmp_path / "more.csv"}):
        here = load(tmp_path / "model").partial_fit(**more)
        same(here, there)
        assert here.forgotten_ == there.forgotten_


def test_times_of_every_kind_are_the_same_seconds(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, seconds = timed()
    whole = hourly().fit(X, times=seconds)
    stamps = (seconds * 1000).astype("datetime64[ms]")
    zoned = pandas.Series(pandas.to_datetime(stamps, utc=True).tz_convert("Asia/Tokyo"))
    frame = pandas.DataFrame(X, columns=["x", "y"]).assign(when=stamps)
    moments = [datetime.datetime.fromtimestamp(second, datetime.timezone.utc) for second in seconds]
    for times in (list(seconds), seconds.astype(int), stamps, pandas.Series(stamps), pandas.DatetimeIndex(stamps), zoned, moments):
        same(hourly().fit(X, times=times), whole)
    named = hourly().fit(frame, times="when")
    assert (named.n_features_in_, list(named.feature_names_in_)) == (2, ["x", "y"])
    assert np.array_equal(named.counts_, whole.counts_)
    assert len(hourly().fit_predict(frame, times="when")) == 4000


def test_pieces_streams_and_pickles_are_one_run():
    X, seconds = timed()
    whole = hourly().fit(X, times=seconds)
    pieces = hourly()
    for rows, times in zip(np.array_split(X, 7), np.array_split(seconds, 7)):
        pieces = pickle.loads(pickle.dumps(pieces.partial_fit(rows, times=times)))
    same(pieces, whole)
    same(hourly().fit((X[at : at + 300], None, seconds[at : at + 300]) for at in range(0, 4000, 300)), whole)


def test_looking_on_the_way_fades_what_was_shown():
    X, seconds = timed()
    model = hourly().fit(X[:3900], times=seconds[:3900])
    before = model.counts_.sum()
    # Few rows, and long after: what was shown is brought up to date.
    model.partial_fit(X[3900:3950], times=np.full(50, seconds.max() + 6000))
    assert model.counts_.sum() == pytest.approx(before * 2**-10 + 50, abs=2)
    assert model.forgotten_ + model.counts_.sum() == pytest.approx(3950)


def test_rows_without_times_are_of_now():
    X, _ = timed()
    began = time.time()
    model = DPMixture(half_life="1h", random_state=0).fit(X)
    # However long the test takes, rows of now have not faded by more than that.
    assert model.forgotten_ <= 4000 * (1 - 2 ** (-(time.time() - began) / 3600)) + 1e-6
    with pytest.raises(ValueError, match="(?s)faded by when they came.*leave times out"):
        model.partial_fit(X, times=np.arange(4000))


def test_times_that_are_none_are_told_with_their_row():
    X, seconds = timed()
    for value, message in ((np.nan, "row 31: NaN is not a time"), (np.inf, "row 31: inf is not a time"), (1e15, "row 31.* in the future")):
        wrong = seconds.copy()
        wrong[30] = value
        with pytest.raises(ValueError, match=message):
            hourly().fit(X, times=wrong)
    gone = (seconds * 1000).astype("datetime64[ms]")
    gone[30] = "NaT"
    with pytest.raises(ValueError, match="row 31: NaN is not a time"):
        hourly().fit(X, times=gone)
    with pytest.raises(ValueError, match="3999 for 4000 rows"):
        hourly().fit(X, times=seconds[1:])
    with pytest.raises(TypeError, match="times"):
        hourly().fit(X, times=["soon"] * 4000)
    with pytest.raises(TypeError, match="X has no names"):
        hourly().fit(X, times="when")
    for half_life in (None, 100, "auto"):
        with pytest.raises(ValueError, match="half-life that is a time"):
            DPMixture(half_life=half_life).fit(X, times=seconds)
    model = hourly().fit(X, times=seconds)
    with pytest.raises(ValueError, match='(?s)faded by "time".*pass times'):
        model.partial_fit(X)
    assert model.partial_fit(X, times=seconds).n_samples_seen_ == 8000


def test_models_by_time_are_merged_at_the_newest_time():
    X, seconds = timed()
    parts = [hourly().fit(X[ix], times=seconds[ix]) for ix in (slice(0, 2000), slice(2000, 4000))]
    merged = DPMixture.merge(parts)
    assert (merged.half_life, merged.n_samples_seen_) == ("10m", 4000)
    assert merged.counts_.sum() == pytest.approx(hourly().fit(X, times=seconds).counts_.sum(), abs=2)
    assert merged.forgotten_ + merged.counts_.sum() == pytest.approx(4000)
    with pytest.raises(ValueError, match="time time, .* has none"):
        DPMixture.merge([parts[0], hourly().fit(X[2000:])])
    with pytest.raises(ValueError, match="half_life 10m, .* has 300"):
        DPMixture.merge([parts[0], DPMixture(half_life=300, bootstrap=1000, random_state=0).fit(X[2000:])])
