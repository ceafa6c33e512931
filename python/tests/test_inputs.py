"""Whatever holds rows goes in, without copies where it can, and wrong columns are told."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from conftest import rows_of, same
from scipy import sparse

from anabranch import DPMixture


def model(**parameters):
    return DPMixture(bootstrap=500, random_state=3, **parameters)


X, TRUTH = rows_of(2000)
FITTED = model().fit(X)


@pytest.mark.parametrize(
    "rows",
    [
        np.asfortranarray(X),
        np.repeat(X, 2, axis=0)[::2],
        np.hstack([X, X])[:, 2:],
        X[::-1].copy()[::-1],
        X.tolist(),
        X.astype(">f8"),
    ],
    ids=["fortran", "every other row", "right half", "backwards", "list", "big-endian"],
)
def test_the_layout_of_an_array_does_not_matter(rows):
    same(model().fit(rows), FITTED)
    np.testing.assert_array_equal(FITTED.predict(rows), FITTED.predict(X))


@pytest.mark.parametrize(
    "few",
    [X[:3], X[:1], X[:3].astype(np.float32), np.asfortranarray(X[:3]), X[6:0:-2], X[:3].astype(">f8"), X[:3].tolist()],
)
def test_a_few_rows_are_answered_as_among_many(few):
    rows = np.vstack([np.asarray(few, dtype=np.float64), X])
    np.testing.assert_array_equal(FITTED.predict(few), FITTED.predict(rows)[: len(few)])
    np.testing.assert_array_equal(FITTED.score_samples(few), FITTED.score_samples(rows)[: len(few)])


@pytest.mark.parametrize("wrong", [np.full((1, 2), np.inf), X[:2, :1], X[0], X[:0], X[:2] * 1j, np.zeros((2, 2, 1))])
def test_a_few_rows_that_are_wrong_are_refused_as_many_are(wrong):
    with pytest.raises(ValueError):
        FITTED.predict(wrong)


def test_a_share_that_the_model_cannot_tell_is_told():
    with pytest.warns(UserWarning, match="flags no row"):
        assert not FITTED.flag(np.full((1, 2), 1e6), below=1e-9).any()


def test_single_precision_is_learned_as_it_is():
    same(model().fit(X.astype(np.float32)), model().fit(X.astype(np.float32).astype(np.float64)))


def test_whole_numbers_are_numbers():
    whole = np.rint(X).astype(int)
    same(model().fit(whole), model().fit(whole.astype(float)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_is_not_copied(dtype, order):
    large = np.asarray(np.random.default_rng(0).normal(size=(200_000, 4)), dtype=dtype, order=order)
    fresh = DPMixture(family="spherical", bootstrap=500, batch_size=2048, random_state=0)
    tracemalloc.start()
    fresh.fit(large)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # scikit-learn looks for NaN block by block; a copy would be all of it.
    assert peak < large.nbytes / 4


def test_pandas_keeps_and_checks_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["length", "width"])
    fitted = model().fit(frame)
    same(fitted, FITTED)
    assert fitted.feature_names_in_.tolist() == ["length", "width"]
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame[["width", "length"]])
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.partial_fit(frame.rename(columns={"width": "breadth"}))


def test_polars_keeps_and_checks_names():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(X, schema=["length", "width"])
    fitted = model().fit(frame)
    same(fitted, FITTED)
    assert fitted.feature_names_in_.tolist() == ["length", "width"]
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame.select("width", "length"))


def test_arrow_tables_batches_readers_and_data_sets():
    pa = pytest.importorskip("pyarrow")
    import pyarrow.dataset

    table = pa.table({"length": X[:, 0], "width": X[:, 1]})
    for rows in (table, pa.dataset.dataset(table), table.to_reader(max_chunksize=300), iter(table.to_batches(77))):
        fitted = model().fit(rows)
        same(fitted, FITTED)
        assert fitted.feature_names_in_.tolist() == ["length", "width"]
    batch = table.to_batches()[0]
    np.testing.assert_array_equal(fitted.predict(batch), FITTED.predict(X))
    np.testing.assert_array_equal(fitted.predict(table), FITTED.predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(table.select(["width", "length"]))
    holes = pa.table({"length": [1.0, None], "width": [1.0, 2.0]})
    np.testing.assert_array_equal(fitted.predict(holes), fitted.predict(np.array([[1.0, 1.0], [np.nan, 2.0]])))


@pytest.mark.parametrize("suffix", ["csv", "npy", "parquet"])
def test_files_are_read_by_the_engine(tmp_path, suffix):
    pandas = pytest.importorskip("pandas")
    path = tmp_path / f"rows.{suffix}"
    frame = pandas.DataFrame(X, columns=["length", "width"])
    {"csv": lambda: frame.to_csv(path, index=False), "npy": lambda: np.save(path, X),
     "parquet": lambda: frame.to_parquet(path)}[suffix]()
    fitted = model().fit(path)
    same(fitted, FITTED)
    assert getattr(fitted, "feature_names_in_", None) is None or list(fitted.feature_names_in_) == ["length", "width"]
    same(model().fit([str(path), path]), model().fit(np.vstack([X, X])))
    with pytest.raises(FileNotFoundError, match="no such file"):
        model().fit(tmp_path / "missing.csv")


def test_sparse_counts_are_the_dense_ones():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.1), size=3)
    counts = np.array([rng.multinomial(40, topics[ix % 3]) for ix in range(900)]).astype(float)
    for family in ("multinomial", "poisson"):
        dense = model(family=family).fit(counts)
        for matrix in (sparse.csr_matrix(counts), sparse.csr_array(counts), sparse.csc_matrix(counts)):
            thin = model(family=family).fit(matrix)
            np.testing.assert_array_equal(thin.counts_, dense.counts_)
            np.testing.assert_array_equal(thin.predict(matrix), dense.predict(counts))
        truth = np.arange(900) % 3
        labels = dense.predict(counts)
        assert all(len(set(labels[truth == topic])) == 1 for topic in range(3)), family
    with pytest.raises(TypeError, match="[Ss]parse"):
        model().fit(sparse.csr_matrix(X))


def test_a_cell_outside_the_family_is_named():
    counts = np.ones((700, 3))
    counts[650, 2] = 1.5
    with pytest.raises(ValueError, match='row 651, column "3": 1.5 is not'):
        model(family="poisson").fit(counts)


def test_columns_of_different_kinds():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=1200)
    frame = pandas.DataFrame(
        {"ignored": rng.normal(size=1200), "visits": rng.poisson(2 + 20 * kind), "height": rng.normal(8.0 * kind)}
    )
    fitted = model(family="gaussian:height+poisson:visits").fit(frame)
    labels = fitted.predict(frame)
    assert fitted.n_components_ == 2
    assert len(set(labels[kind == 0])) == len(set(labels[kind == 1])) == 1
    with pytest.raises(ValueError, match="there is no column `weight`"):
        model(family="gaussian:height+poisson:weight").fit(frame)


def test_another_number_of_columns_is_told():
    with pytest.raises(ValueError, match="3 features, but DPMixture is expecting 2 features"):
        FITTED.predict(np.ones((4, 3)))


def test_a_path_that_leads_nowhere_is_told():
    model = DPMixture()
    for given in ("nofile.csv", Path("nofile.csv"), ["nofile.csv"]):
        with pytest.raises(FileNotFoundError, match="X: a path was given, and there is no such file: 'nofile.csv'"):
            model.fit(given)
    with pytest.raises(TypeError, match="X: a path was given .*fit and partial_fit read files"):
        model.fit(rows_of(200)[0]).predict("nofile.csv")
