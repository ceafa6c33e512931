"""Topics and features: what holds for both."""

import copy
import json
import pickle
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_files import command

import anabranch
from anabranch import DPMixture, HDPTopics, LatentFeatures

TOPICS = np.kron(np.eye(3), [[0.4, 0.3, 0.2, 0.1]])
FEATURES = np.kron(np.eye(3), [[3.0, -2.0]])


def documents_of(n, seed=0):
    """Counts of twelve words in documents of two of three topics."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet([0.2] * 3, size=n)
    return np.array([rng.multinomial(40, share @ TOPICS) for share in shares]).astype(float)


def sums_of(n, seed=0):
    """Sums of any of three features, with noise."""
    rng = np.random.default_rng(seed)
    return rng.integers(2, size=(n, 3)) @ FEATURES + rng.normal(scale=0.2, size=(n, 6))


KINDS = [
    SimpleNamespace(make=HDPTopics, data=documents_of(700), name="hdp", parameter={"gamma": 3.0}),
    SimpleNamespace(make=LatentFeatures, data=sums_of(700), name="bp", parameter={"alpha": 3.0}),
]


@pytest.fixture(params=KINDS, ids=["topics", "features"])
def kind(request):
    return request.param


def model(kind, **parameters):
    return kind.make(**{"bootstrap": 300, "batch_size": 64, "random_state": 7, **parameters})


def same(a, b):
    """Assert that two models are equal, bit by bit."""
    np.testing.assert_array_equal(a.component_ids_, b.component_ids_)
    np.testing.assert_array_equal(a.counts_, b.counts_)
    np.testing.assert_array_equal(a.components_, b.components_)
    assert a.n_samples_seen_ == b.n_samples_seen_


def written(kind, folder):
    """The data as a file that the command reads."""
    if kind.name == "hdp":
        sparse.save_npz(folder / "data.npz", sparse.csr_matrix(kind.data))
        return folder / "data.npz"
    np.save(folder / "data.npy", kind.data)
    return folder / "data.npy"


def fitted_by_the_command(kind, folder, *flags):
    """The path of a model of the command, and what the command said of it."""
    path = folder / "theirs"
    always = ["--model", kind.name, "--out", path, "--seed", 7, "--threads", 1, "--quiet", "--json"]
    cut = ["--bootstrap", 300, "--batch-size", 64]
    return path, json.loads(command("fit", written(kind, folder), *always, *cut, *flags))


def predicted(*args):
    """What the command answers, as numbers, without those of the rows."""
    header, *lines = command("predict", *args).split()
    answers = np.array([[float(cell) for cell in line.split(",")] for line in lines])
    if not header.startswith("row,"):
        return answers
    np.testing.assert_array_equal(answers[:, 0], np.arange(1, len(answers) + 1))
    return answers[:, 1:]


# ---------------------------------------------------------------------- learning


def test_any_pieces_give_the_same_model(kind):
    whole = model(kind).fit(kind.data)
    pieces = model(kind)
    for piece in np.split(kind.data, [1, 250, 310, 555]):
        pieces.partial_fit(piece)
        assert pieces.n_components_ >= 0
    same(pieces, whole)
    same(model(kind).fit(iter(np.array_split(kind.data, 9))), whole)
    same(model(kind).fit(block for block in (kind.data[:40], kind.data[:0], kind.data[40:])), whole)
    assert whole.n_samples_seen_ == len(kind.data)
    assert whole.components_.shape == (whole.n_components_, kind.data.shape[1])


def test_threads_and_the_kind_of_array_change_no_bit(kind):
    whole = model(kind).fit(kind.data)
    same(model(kind, n_jobs=3).fit(kind.data), whole)
    same(model(kind).fit(np.asfortranarray(kind.data)), whole)
    np.testing.assert_array_equal(model(kind, n_jobs=3).fit(kind.data).transform(kind.data), whole.transform(kind.data))


def test_names_of_columns_are_kept_and_checked(kind):
    pandas = pytest.importorskip("pandas")
    names = [f"c{column}" for column in range(kind.data.shape[1])]
    frame = pandas.DataFrame(kind.data, columns=names)
    named = model(kind).fit(frame)
    same(named, model(kind).fit(kind.data))
    assert named.feature_names_in_.tolist() == names and named.n_features_in_ == len(names)
    with pytest.raises(ValueError, match="feature names should match"):
        named.transform(frame[names[::-1]])
    with pytest.raises(ValueError, match="is expecting"):
        model(kind).fit(kind.data).transform(kind.data[:, 1:])
    prefix = type(named).__name__.lower()
    assert named.get_feature_names_out().tolist() == [f"{prefix}{k}" for k in range(named.n_components_)]
    assert named.set_output(transform="pandas").transform(frame).shape == (len(frame), named.n_components_)
    pyarrow = pytest.importorskip("pyarrow")
    same(model(kind).fit(pyarrow.Table.from_pandas(frame)), named)


def test_a_callback_hears_of_minibatches_looks_and_ends_the_fit(kind):
    events, components = [], []

    def watch(event):
        events.append(event)
        components.append(stopped.n_components_)
        if len(events) == 3:
            raise StopIteration

    stopped = model(kind, callback=watch)
    stopped.fit(kind.data)
    # Nobody is called after the wish to end.
    assert [event.rows for event in events] == [300, 64, 64]
    # The run goes on while the callback looks: it sees the newest model, and on a busy machine the last one.
    assert len(components) == 3 and min(components) >= 1
    seen = stopped.n_samples_seen_
    assert 428 <= seen <= len(kind.data) and (seen % 64 == 300 % 64 or seen == len(kind.data))


def test_others_run_while_it_learns(kind):
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    began = time.monotonic()
    model(kind).fit(kind.data)
    ended = time.monotonic()
    done.set()
    other.join()
    within = [at for at in ticks if began < at < ended]
    # With the interpreter's lock held there would be two at most.
    assert len(within) > 3


INTERRUPTED = """
import numpy as np, os, signal, threading
from anabranch import HDPTopics, LatentFeatures
signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests may ignore it
rng = np.random.default_rng(0)
X = rng.integers(2, size=(60000, 12)) @ rng.integers(5, size=(12, 60)).astype(float)
interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
try:
    if {bootstrap} == 60000:
        interrupt.start()
        {make}(bootstrap={bootstrap}, random_state=0).partial_fit(X)
    else:
        start = lambda event: interrupt.is_alive() or interrupt.finished.is_set() or interrupt.start()
        model = {make}(bootstrap={bootstrap}, random_state=0, callback=start)
        model.partial_fit(X)
except KeyboardInterrupt:
    print("interrupted", {bootstrap} == 60000 or 0 < model.n_samples_seen_ < len(X))
"""


@pytest.mark.parametrize("bootstrap", [60000, 100])
def test_an_interrupt_ends_it_soon(kind, bootstrap):
    """In the first minibatch, and soon after it."""
    code = INTERRUPTED.format(make=kind.make.__name__, bootstrap=bootstrap)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout.split() == ["interrupted", "True"], done.stderr


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize("passes", [1, 3])
def test_the_command_line_writes_the_same_model(kind, passes, tmp_path):
    path, outcome = fitted_by_the_command(kind, tmp_path, "--passes", passes)
    ours = model(kind, passes=passes).fit(kind.data)
    same(anabranch.load(path), ours)
    assert ours.n_samples_seen_ == outcome["observations"] == len(kind.data)
    if kind.name == "hdp" and passes == 1:
        ours.save(tmp_path / "ours")
        assert contents(tmp_path / "ours") == contents(path)


def contents(path):
    """Everything in a model file but the names of the files that it was learned from."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(json.loads(raw[8:start])["__metadata__"]["header"])
    header["provenance"].pop("learned_from", None)
    return header, raw[start:]


def test_answers_are_those_of_the_command_line_to_the_last_bit(kind, tmp_path):
    data = written(kind, tmp_path)
    path, outcome = fitted_by_the_command(kind, tmp_path, "--test", data)
    loaded = anabranch.load(path)
    assert type(loaded) is kind.make
    np.testing.assert_array_equal(loaded.transform(kind.data), predicted(path, data, "--proba"))
    np.testing.assert_array_equal(loaded.score_samples(kind.data), predicted(path, data, "--score")[:, 0])
    assert loaded.score(kind.data) == pytest.approx(outcome["test_log_likelihood"], rel=1e-12)
    ours = model(kind).fit(kind.data)
    ours.save(tmp_path / "ours")
    np.testing.assert_array_equal(ours.transform(kind.data), predicted(tmp_path / "ours", data, "--proba"))


def test_a_saved_model_answers_and_goes_on(kind, tmp_path):
    fitted = model(kind).fit(kind.data)
    fitted.save(tmp_path / "model")
    loaded = kind.make.load(tmp_path / "model")
    same(loaded, fitted)
    np.testing.assert_array_equal(loaded.transform(kind.data), fitted.transform(kind.data))
    # The run that wrote the file has ended: reading, pickling and writing do not end it a second time.
    pickle.loads(pickle.dumps(loaded)).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    loaded.partial_fit(kind.data[:200])
    assert loaded.n_samples_seen_ == len(kind.data) + 200
    mass = loaded._engine.attributes()["mass"]
    assert mass == pytest.approx(fitted._engine.attributes()["mass"] * (900 / 700), rel=1e-6)
    with pytest.raises(ValueError, match=f"the file holds a model for {kind.make.__name__}, not for DPMixture"):
        DPMixture.load(tmp_path / "model")


@pytest.mark.parametrize(
    "through",
    [
        lambda m, _: pickle.loads(pickle.dumps(m)),
        lambda m, _: copy.deepcopy(m),
        lambda m, path: joblib.load(joblib.dump(m, path / "joblib")[0]),
    ],
    ids=["pickle", "deepcopy", "joblib"],
)
def test_a_copy_goes_on_as_if_nothing_had_happened(kind, through, tmp_path):
    for seen in (200, 350):
        half = model(kind).partial_fit(kind.data[:seen])
        other = through(half, tmp_path)
        same(other, half)
        same(other.partial_fit(kind.data[seen:]), half.partial_fit(kind.data[seen:]))
    fresh = through(model(kind), tmp_path)
    same(fresh.fit(kind.data), model(kind).fit(kind.data))


# ---------------------------------------------------------------------- conventions


class Counting(HDPTopics):
    """Counts of whatever numbers scikit-learn's checks make."""

    def _rows(self, X, reset):
        rows = super()._rows(X, reset)
        good = rows.data if sparse.issparse(rows) else rows
        if not np.isfinite(good).all() or (good < 0).any():
            return rows
        if not sparse.issparse(rows):
            return np.floor(10 * rows)
        rows = rows.copy()
        rows.data = np.floor(10 * rows.data)
        return rows


def expected_failures(estimator):
    if isinstance(estimator, LatentFeatures):
        return {}
    return {"check_positive_only_tag_during_fit": "a cell that is no count is named, in other words than scikit-learn's"}


@parametrize_with_checks([Counting(), LatentFeatures()], expected_failed_checks=expected_failures)
def test_the_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)


def test_a_clone_has_the_parameters_and_has_learned_nothing(kind):
    fitted = model(kind, **kind.parameter).fit(kind.data)
    again = clone(fitted)
    assert again.get_params() == fitted.get_params()
    assert not hasattr(again, "components_")


@pytest.mark.parametrize(
    ("make", "parameters", "words"),
    [
        (HDPTopics, {"gamma": 0.0}, "gamma = 0 is not a finite number above 0"),
        (HDPTopics, {"gamma": True}, "gamma: True is not a finite number"),
        (HDPTopics, {"alpha0": -1.0}, "alpha0 = -1 is not a number from 1e-6"),
        (HDPTopics, {"eta": 1e-9}, "eta is 0.000000001, expected a number from 1e-6"),
        (HDPTopics, {"batch_size": True}, "batch_size: True is not a whole number of at least 1"),
        (HDPTopics, {"passes": 0}, "passes: 0 is not a whole number of at least 1"),
        (HDPTopics, {"schedule": "deterministc"}, "did you mean 'deterministic'"),
        (HDPTopics, {"vocabulary": ["a", "b"]}, "vocabulary: it has 2 words, X has 12 columns"),
        (LatentFeatures, {"alpha": -1.0}, "alpha"),
        (LatentFeatures, {"alpha": "atuo"}, "alpha: 'atuo' is not one of auto; did you mean 'auto'"),
        (LatentFeatures, {"noise": 1.0}, "^noise and feature_scale go together\nhint: give both"),
        (LatentFeatures, {"noise": 0.0, "feature_scale": 1.0}, "^noise: 0 is not a finite number above 0"),
    ],
)
def test_wrong_parameters_are_told_as_parameters(make, parameters, words):
    kind = next(kind for kind in KINDS if kind.make is make)
    wrong = make(**parameters)
    with pytest.raises(ValueError, match=words) as error:
        wrong.fit(kind.data)
    assert "--" not in str(error.value)
    assert not hasattr(wrong, "components_")


def test_parameters_that_change_while_it_learns_are_refused_or_take_effect(kind):
    going = model(kind).partial_fit(kind.data[:400])
    going.set_params(n_jobs=2, verbose=0, passes=2).partial_fit(kind.data[400:])
    same(going, model(kind).fit(kind.data))
    name, value = next(iter(kind.parameter.items()))
    before = getattr(going, name)
    for changed, was in ((kind.parameter, before), ({"batch_size": 10}, 64), ({"random_state": 9}, 7)):
        name = next(iter(changed))
        going.set_params(**changed)
        with pytest.raises(ValueError, match=f"^{name}: this model was begun with {was!r}, and the parameter is now"):
            going.partial_fit(kind.data[:10])
        going.set_params(**{name: was})
    assert going.partial_fit(kind.data[:10]).n_samples_seen_ == len(kind.data) + 10
    going.set_params(**kind.parameter).fit(kind.data)
    same(going, model(kind, passes=2, **kind.parameter).fit(kind.data))


@pytest.mark.parametrize(
    ("value", "words"),
    [(np.nan, "NaN"), (np.inf, "inf"), (-1.0, "-1"), (0.5, "0.5")],
)
def test_cells_that_cannot_be_learned_from_are_named(kind, value, words):
    if kind.name == "bp" and np.isfinite(value):
        value, words = 1e300, "is not a number within ±1e40"
    bad = kind.data.copy()
    bad[41, 3] = value
    place = '"3"' if kind.name == "hdp" else '"4"'
    for learn in (model(kind).fit, model(kind).partial_fit, model(kind).fit(kind.data).transform):
        with pytest.raises(ValueError, match=f"X: row 42, column {place}: .*{words}"):
            learn(bad)
    if kind.name == "hdp":
        with pytest.raises(ValueError, match=f"X: row 42, column {place}: {words} is not a count"):
            model(kind).fit(sparse.csr_matrix(bad))
        with pytest.raises(ValueError, match='X: row 42, column "w3"'):
            model(kind, vocabulary=[f"w{ix}" for ix in range(12)]).fit(bad)


def test_what_was_learned_before_bad_rows_stays(kind):
    good = model(kind).partial_fit(kind.data[:350])
    with pytest.raises(ValueError, match="X: row 1"):
        good.partial_fit(np.full((5, kind.data.shape[1]), np.nan))
    same(good.partial_fit(kind.data[350:]), model(kind).fit(kind.data))
    with pytest.raises(ValueError, match="the stream has no rows"):
        model(kind).fit(iter([]))
    with pytest.raises(ValueError, match="passes: 2 passes need rows that can be read again"):
        model(kind, passes=2).fit(iter([kind.data]))
    with pytest.raises(TypeError, match="a path"):
        model(kind).fit("data.csv")
