"""Models as files and pickles, to the command line and back."""

import copy
import json
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
from conftest import learned, rows_of, same

import anabranch
from anabranch import DPMixture

X, _ = rows_of(2345)


def command(*arguments, **options):
    """Run the command line and return what it printed."""
    line = [sys.executable, "-m", "anabranch", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=True, **options).stdout


def model(**parameters):
    return DPMixture(bootstrap=1000, random_state=11, **parameters)


def test_a_saved_model_predicts_and_goes_on(tmp_path):
    fitted = model().fit(X)
    fitted.save(tmp_path / "model")
    loaded = anabranch.load(tmp_path / "model")
    same(loaded, fitted)
    np.testing.assert_array_equal(loaded.score_samples(X), fitted.score_samples(X))
    # The run that wrote the file has ended: reading, pickling and writing do not end it a second time.
    pickle.loads(pickle.dumps(loaded)).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert loaded.partial_fit(X[:300]).n_samples_seen_ == len(X) + 300


@pytest.mark.parametrize(
    "through",
    [
        lambda m, _: pickle.loads(pickle.dumps(m)),
        lambda m, _: copy.deepcopy(m),
        lambda m, path: joblib.load(joblib.dump(m, path / "joblib")[0]),
    ],
    ids=["pickle", "deepcopy", "joblib"],
)
def test_a_copy_goes_on_as_if_nothing_had_happened(through, tmp_path):
    for seen in (300, 1234):
        half = model().partial_fit(X[:seen], sample_weight=np.linspace(0.5, 1.5, seen))
        other = through(half, tmp_path)
        same(other, half)
        same(other.partial_fit(X[seen:]), half.partial_fit(X[seen:]))
    fresh = through(model(), tmp_path)
    same(fresh.fit(X), model().fit(X))


def test_names_travel_with_the_model(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["length", "width"])
    model().fit(frame).save(tmp_path / "model")
    loaded = anabranch.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == ["length", "width"]
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame[["width", "length"]])
    assert json.loads(command("inspect", tmp_path / "model", "--json"))["columns"] == ["length", "width"]


def test_the_command_line_writes_the_same_file(tmp_path):
    """The engine, the cut into minibatches, the seed and every default are the same: so is every byte but the name of the input."""
    np.save(tmp_path / "rows.npy", X)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    DPMixture(random_state=11).fit(X).save(ours)
    command("fit", tmp_path / "rows.npy", "--out", theirs, "--seed", 11, "--threads", 1, "--quiet")
    assert learned(ours) == learned(theirs)
    model(family="diagonal", alpha=2.0, batch_size=100, max_new=7, bound="conditional").fit(X).save(ours)
    flags = "--family diagonal --alpha 2 --batch-size 100 --max-new 7 --bound conditional --bootstrap 1000"
    command("fit", tmp_path / "rows.npy", "--out", theirs, "--seed", 11, "--threads", 1, "--quiet", *flags.split())
    assert learned(ours) == learned(theirs)


def predicted(*args, column="component"):
    """A column of what the command answers, as numbers."""
    header, *lines = (line.split(",") for line in command("predict", *args).split())
    return np.array([float(line[header.index(column)]) for line in lines])


def test_the_command_line_reads_our_model_and_we_read_its(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    fitted = model().fit(X)
    fitted.save(tmp_path / "ours")
    labels = predicted(tmp_path / "ours", tmp_path / "rows.npy")
    np.testing.assert_array_equal(labels, fitted.component_ids_[fitted.predict(X)])
    scores = predicted(tmp_path / "ours", tmp_path / "rows.npy", "--score", column="log_density")
    np.testing.assert_array_equal(scores, fitted.score_samples(X))
    command("fit", tmp_path / "rows.npy", "--out", tmp_path / "theirs", "--quiet", "--alpha", 3)
    loaded = anabranch.load(tmp_path / "theirs")
    assert loaded.alpha == 3 and loaded.n_samples_seen_ == len(X)
    inspected = json.loads(command("inspect", tmp_path / "theirs", "--json"))
    by_id = {row["id"]: row for row in inspected["components"]}
    for id, mean, covariance, count in zip(loaded.component_ids_, loaded.means_, loaded.covariances_, loaded.counts_):
        np.testing.assert_allclose(mean, by_id[id]["mean"])
        np.testing.assert_allclose(covariance.ravel(), by_id[id]["covariance"])
        np.testing.assert_allclose(count, by_id[id]["count"])


def test_a_file_that_is_no_model_is_told(tmp_path):
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ValueError, match="not an anabranch model"):
        anabranch.load(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        anabranch.load(tmp_path / "missing")
    with pytest.raises(OSError, match="No such file"):
        model().fit(X).save(tmp_path / "missing" / "model")


def test_python_m_anabranch_is_the_command_line(tmp_path):
    assert command("--version").startswith("anabranch ")
    line = [sys.executable, "-m", "anabranch", "fit", str(tmp_path / "none.csv")]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("error: ")


def test_text_in_columns_of_categories(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=1500)
    frame = pandas.DataFrame({"size": rng.normal(10.0 * kind), "colour": np.where(kind, "red", "blue")})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    family = "gaussian:size+categorical:colour"
    ours = model(family=family).fit(tmp_path / "rows.csv")
    command("fit", tmp_path / "rows.csv", "--out", tmp_path / "model", "--family", family, "--quiet")
    for fitted in (ours, anabranch.load(tmp_path / "model")):
        assert fitted.family == family and fitted.n_components_ == 2
        labels = fitted.predict(frame)
        assert len(set(labels[kind == 0])) == len(set(labels[kind == 1])) == 1
        np.testing.assert_array_equal(fitted.predict(frame.to_numpy(dtype=object)), labels)
        # A colour that nobody has seen is unlikely, not an error.
        green = fitted.score_samples(pandas.DataFrame({"size": [10.0], "colour": ["green"]}))
        assert green < fitted.score_samples(pandas.DataFrame({"size": [10.0], "colour": ["red"]}))
    written = predicted(tmp_path / "model", tmp_path / "rows.csv")
    np.testing.assert_array_equal(written, fitted.component_ids_[labels])
