"""What the mixtures share: rows in, predictions, fitted attributes, and the four steps in the open."""

import numbers
import warnings

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import DensityMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from . import _core, _input
from ._estimator import StreamingEstimator, _given, _list, _number, _one_of, _parameter, _whole

# Values of rows that are few.
_FEW_VALUES = 4096

# What ``predict`` may return.
_LABELS = ("components", "clusters")

_PRIORS = ("prior_mean", "prior_kappa", "prior_scale", "prior_dof")
_LISTS = ("prior_mean", "prior_scale", "resolution")


class StreamingMixture(DensityMixin, StreamingEstimator):
    """Base class of the mixtures; see the class that you construct for parameters and attributes."""

    _engine_class = _core.Engine

    _sparse_families = frozenset()
    _count_families = frozenset()
    _has_discount = False

    # ------------------------------------------------------------------ learning

    def fit(self, X, y=None, sample_weight=None, times=None):
        """Learn from ``X``, forgetting what was learned before.

        Parameters
        ----------
        X : array, data frame, table, sparse matrix of counts, stream or path
            Rows. An iterator of blocks, a pyarrow record-batch reader or data set, a path or a list of paths is read
            once and piece by piece: it may be larger than memory. Paths may end in csv, tsv, npy, parquet, arrow or
            jsonl, also compressed.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            How often each row counts. A stream yields ``(X, sample_weight)`` pairs instead.
        times : array of shape (n_samples,) or str, optional
            When each row was, with a ``half_life`` that is a time: seconds, ``datetime64`` or timestamps (UTC where they have no
            zone), or the name of the column of a table or file that says so and is not learned from. A stream yields
            ``(X, sample_weight, times)`` instead. Without, rows are of the moment at which they come.

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C, with a model of the rows that were read so far.
        """
        return self._fit(X, sample_weight, times=times)

    def partial_fit(self, X, y=None, sample_weight=None, times=None):
        """Learn from more rows.

        In the deterministic schedule, the default, it does not matter how rows are cut into calls: any number of calls
        gives the same model as one ``fit`` on all rows. Rows that do not fill a minibatch yet count in everything you
        look at. Looking changes nothing of what will be learned, and costs little soon after the last look.

        Parameters
        ----------
        X, y, sample_weight, times
            As in ``fit``.

        Returns
        -------
        self
        """
        return self._partial_fit(X, sample_weight, times=times)

    def fit_predict(self, X, y=None, sample_weight=None, times=None):
        """Fit and return the label of each row."""
        self.fit(X, sample_weight=sample_weight, times=times)
        return self.predict(_input.without(X, times)[0] if isinstance(times, str) and not _input.is_path(X) else X)

    def _learn(self, X, sample_weight, reset, times=None):
        if _input.is_path(X):
            self._no_weights(sample_weight, "files")
            return self._learn_files(X, times)
        return super()._learn(X, sample_weight, reset, times=times)

    def _timed(self, X, times):
        """Rows without the column that says when they were, their times in seconds, and what these are called."""
        if times is None:
            return X, None, None
        name = times if isinstance(times, str) else ""
        if name:
            X, times = _input.without(X, name)
        times = _input.seconds(times)
        rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if len(times) != rows:
            raise ValueError(f"times: there are {len(times)} for {rows} rows")
        return X, times, name

    def _learn_rows(self, X, sample_weight, reset, times=None):
        X, times, time = self._timed(X, times)
        mapped = isinstance(X, np.memmap)
        X = self._rows(X, reset=reset, finite=False if mapped else "allow-nan")
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        lent = _input.lend(self._chosen(X))
        if not mapped:
            self._engine.check(lent, self._names())
        with self._watch(X.shape[0]) as watch:
            self._engine.learn(lent, sample_weight, times, time, self._names(), watch.receiver)

    def _learn_files(self, X, times=None):
        if times is not None and not isinstance(times, str):
            raise TypeError("times: of files it is the name of the column that says when rows were")
        with self._watch(None) as watch:
            self._engine.learn_files(_input.paths(X), times or self._engine.time_column, watch.receiver)
        names, named = self._engine.schema
        self.n_features_in_ = len(names)
        if named:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _learn_stream(self, X, reset, times=None):
        if times is not None and not isinstance(times, str):
            raise TypeError("times: of a stream it is the name of a column, or the stream yields (X, sample_weight, times)")
        first, blocks = self._first_of(_input.blocks(X))
        time = times
        if times is None and isinstance(first, tuple) and len(first) == 3 and first[2] is not None:
            time = ""

        def checked():
            nonlocal reset
            for block in blocks:
                rows, weight, *when = block if isinstance(block, tuple) else (block, None)
                if getattr(rows, "num_rows", 1) == 0:
                    continue
                rows, when, _ = self._timed(rows, times or next(iter(when), None))
                if (when is None) != (time is None):
                    raise ValueError("times: some blocks of the stream say when their rows were, and others do not")
                rows = self._rows(rows, reset=reset)
                reset = False
                if weight is not None:
                    weight = _check_sample_weight(weight, rows, dtype=np.float64, ensure_non_negative=True)
                lent = _input.lend(self._chosen(rows))
                self._engine.check(lent, self._names())
                yield lent, weight, when

        head, ready = self._first_of(checked())
        columns = head[0][3] if isinstance(head[0], tuple) else head[0].shape[1]
        with self._watch(None) as watch:
            self._engine.learn_iterator(ready, columns, time, self._names(), watch.receiver)

    # ------------------------------------------------------------------ rows

    def _rows(self, X, reset, finite="allow-nan"):
        """Rows that the engine can read, with columns checked against those of the fit."""
        _input.refuse_path(X, "fit and partial_fit read files, everything else takes rows")
        sparse = "csr" if self._family_name() in self._sparse_families else False
        options = dict(dtype=[np.float64, np.float32], accept_sparse=sparse, ensure_all_finite=finite)
        categories = self._engine.categories
        if any(labels is not None for labels in categories):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return _input.coded(X, categories)
        plain, table = _input.plain(X)
        if table is None:
            return validate_data(self, X, reset=reset, **options)
        validate_data(self, table, reset=reset, skip_check_array=True)
        return check_array(plain, estimator=self, input_name="X", **options)

    def _names(self):
        """Names of the columns that the engine sees, or None."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return None
        chosen = self._chosen_positions()
        return [str(name) for name in (names if chosen is None else names[chosen])]

    def _chosen_positions(self):
        chosen = self._engine.chosen_columns
        if chosen is None:
            return None
        names = getattr(self, "feature_names_in_", None)
        known = [str(n) for n in (names if names is not None else range(1, self.n_features_in_ + 1))]
        missing = [name for name in chosen if name not in known]
        if missing:
            raise ValueError(f"there is no column `{missing[0]}`")
        return [known.index(name) for name in chosen]

    def _chosen(self, X):
        chosen = self._chosen_positions()
        return X if chosen is None else X[:, chosen]

    def _query(self, X):
        self._check_fitted()
        if self._is_plain(X):
            return X
        return _input.lend(self._chosen(self._rows(X, reset=False)))

    def _is_plain(self, X):
        """Whether these are a few rows that the engine can read as they are: for them, the same checks in less time than
        scikit-learn takes."""
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype in (np.float64, np.float32)
            and 0 < X.size <= _FEW_VALUES
            and X.shape[1] == self.n_features_in_
            and "feature_names_in_" not in self.__dict__
            and self._engine.chosen_columns is None
            and all(labels is None for labels in self._engine.categories)
            and bool(np.isfinite(X).all())
        )

    # ------------------------------------------------------------------ prediction

    def predict(self, X):
        """Label each row with its most probable component: a position in ``component_ids_`` and ``means_``.

        Positions may change when the model learns more; ``component_ids_[labels]`` never change their meaning. With
        ``labels="clusters"`` it is ``predict_clusters``.
        """
        if _one_of("labels", self.labels, _LABELS) == "clusters":
            return self.predict_clusters(X)
        return self._predict_components(X)

    def _predict_components(self, X):
        return self._engine_of(X).predict(self._query(X), self._threads())

    def predict_clusters(self, X, N=None, *, valley=None, min_size=None, noise=False):
        """Label each row with its cluster: components that no valley of the density parts are one, whatever its shape.

        That is the cluster of the row's component. Rows of a wide component under several clusters are divided among these.
        The parameters are those of :meth:`cluster_labels`, and so are the names.
        """
        how = self._how_to_cut(N, valley, min_size, noise)
        return self._engine_of(X).predict_clusters(self._query(X), self._threads(), *how)

    def cluster_labels(self, N=None, *, valley=None, min_size=None, noise=False):
        """The cluster of each component, in the order of ``component_ids_``.

        A cluster is named after its oldest component, and keeps that name as the stream goes on.

        Parameters
        ----------
        N : int, optional
            As many clusters. By default valleys count that are deep for the rows there are, or those that the model file
            says (``anabranch clusters MODEL --keep``).
        valley : float, optional
            Two groups are one cluster while the pass between them is at least this part of the lower of their peaks.
        min_size : float, optional
            Clusters with fewer rows belong to the one over their highest pass; by default 10, or 2 % of the rows where
            these are fewer than 500 (at least 3); 0 with ``N``.
        noise : bool, default=False
            Clusters that are too small get the label -1 instead.
        """
        self._attribute("ids", "cluster_labels")
        return self._engine.clusters(*self._how_to_cut(N, valley, min_size, noise))

    @staticmethod
    def _how_to_cut(N, valley, min_size, noise):
        count = None if N is None else _whole("N", N, 1)
        valley = None if valley is None else _number("valley", valley)
        min_size = None if min_size is None else _number("min_size", min_size)
        return count, valley, min_size, bool(noise)

    def predict_proba(self, X):
        """Probability of each component for each row, in the order of ``component_ids_``."""
        values, width = self._engine_of(X).probabilities(self._query(X), self._threads())
        return values.reshape(-1, width)

    def transform(self, X):
        """The same as ``predict_proba``: rows described by the components they belong to."""
        return self.predict_proba(X)

    def score_samples(self, X):
        """Log predictive density of each row; low ones are anomalies."""
        return self._engine_of(X).log_density(self._query(X), self._threads())

    def tail(self, X):
        """Share of ordinary rows that are as unlikely as each row or more.

        Ordinary rows are those the model has learned from, each judged before it was learned: of fresh rows of the same kind about
        one in a hundred has a tail below 0.01.
        """
        return self._engine_of(X).tail(self._query(X), self._threads())

    def flag(self, X, below=0.001):
        """True for rows so unlikely that less than a share ``below`` of ordinary rows are."""
        if not 0 < below < 1:
            raise ValueError(f"below: {below!r} is not a share between 0 and 1")
        tail = self.tail(X)
        smallest = self._engine.smallest_tail()
        if below <= smallest:
            warnings.warn(
                f"below={below!r} flags no row: the ordinary rows that the model knows of tell no share below {smallest:.3g}",
                stacklevel=2,
            )
        return tail < below

    def score(self, X, y=None):
        """Mean log predictive density of the rows."""
        return float(np.mean(self.score_samples(X)))

    def impute(self, X, return_std=False):
        """Rows with their missing values (NaN) filled in: what the model expects given the values that are known.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        return_std : bool, default=False
            Also return the standard deviation of each value that was filled in, 0 for the others.

        Returns
        -------
        X : array of shape (n_samples, n_features)
            In columns of categories the code of the most probable one, whose deviation is NaN.
        std : array of shape (n_samples, n_features), if ``return_std``
        """
        rows = self._query(X)
        both = self._engine_of(X).impute(rows, self._threads())
        columns = rows[3] if isinstance(rows, tuple) else rows.shape[1]
        both = both.reshape(-1, 2, columns)
        return (both[:, 0], both[:, 1]) if return_std else both[:, 0]

    def sample(self, n_samples=1):
        """Draw rows from the mixture.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Position of the component of each row; -1 for a component that nobody has seen yet.
        """
        check_is_fitted(self)
        if not isinstance(n_samples, numbers.Integral) or n_samples < 1:
            raise ValueError(f"n_samples: {n_samples!r} is not a whole number of at least 1")
        seed = int(check_random_state(self.random_state).randint(2**31))
        return self._engine.sample(int(n_samples), seed)

    def _engine_of(self, X):
        self._check_fitted()
        return self._engine

    # ------------------------------------------------------------------ attributes

    def _kind(self):
        return f"a {self._family_name()} mixture"

    @property
    def weights_(self):
        """Share of each component; they sum to 1."""
        counts = self._attribute("counts", "weights_")
        return counts / counts.sum()

    @property
    def alpha_(self):
        """Concentration of the process: as given, or as learned."""
        return self._attribute("alpha", "alpha_")

    @property
    def means_(self):
        """Mean of each component, shape (n_components_, n_features)."""
        return self._attribute("means", "means_")

    @property
    def missing_(self):
        """How often values are missing with ``missing_informative``, shape (n_components_, n_features); NaN of other columns."""
        return self._attribute("missing", "missing_")

    @property
    def covariances_(self):
        """Expected covariance of each component; the shape follows the family as in scikit-learn's mixtures."""
        family = self._family_name()
        if family == "diagonal":
            return self._attribute("spreads", "covariances_") ** 2
        if family == "spherical":
            return self._attribute("spreads", "covariances_")[:, 0] ** 2
        return self._attribute("covariances", "covariances_")

    @property
    def probabilities_(self):
        """Probabilities of categories: a table of shape (n_components_, n_categories) for each column of categories, or one
        table over all columns for ``multinomial``."""
        return self._attribute("probabilities", "probabilities_")

    @property
    def n_components_between_(self):
        """Between how many components the rows cannot tell: ``(fewest, most)``, equal where the number is certain."""
        return self._attribute("between", "n_components_between_")

    @property
    def n_clusters_(self):
        """Number of clusters, as ``cluster_labels()`` cuts them."""
        return len(np.unique(self.cluster_labels()))

    @property
    def cluster_tree_(self):
        """How components join, as a dict of arrays.

        ``component_ids``, ``counts``, ``heights`` (log density at the mean, under the highest peak) and ``peaks`` (uphill of it)
        of the leaves; ``joins`` of two leaves each, ``passes`` (log density where they meet) and ``slopes`` (True where no
        valley lies between them), slopes first and then from the highest pass down; ``measure``: ``"density"``, or
        ``"overlap"`` for families whose rows are no points of a space.
        """
        self._attribute("ids", "cluster_tree_")
        return self._engine.cluster_tree()

    @property
    def forgotten_(self):
        """Weight of the rows that is forgotten, with ``half_life``; 0 without. It and ``counts_`` add up to what was learned from."""
        return self._attribute("forgotten", "forgotten_")

    # ------------------------------------------------------------------ files

    @classmethod
    def merge(cls, models, *, assume_apart=False, n_jobs=None):
        """One model from models that were learned apart, with the same parameters, each from rows of its own.

        Components are identified as the paper identifies those of workers; ids are those of the first model, and new ones for
        what it does not have. Every row counts once.

        Parameters
        ----------
        models : sequence of fitted estimators
        assume_apart : bool, default=False
            Merge models that begin with the same rows, or do not know what they were learned from.
        n_jobs : int, optional
            Threads; None means 1, -1 all cores.

        Returns
        -------
        model : estimator of this class
        """
        models = list(models)
        if not models:
            raise ValueError("there is no model to merge")
        for model in models:
            check_is_fitted(model)
        data = [bytes(model._engine.to_bytes()) for model in models]
        return cls._from_bytes(_core.merge(data, bool(assume_apart), effective_n_jobs(n_jobs)))

    @classmethod
    def _from_bytes(cls, data):
        made = cls._made(data, "py" if cls._has_discount else "dp")
        provenance, process, half_life = made["provenance"], made["process"], made["half_life"]
        discount = {"discount": _given(process["discount"])} if "discount" in process else {}
        model = cls(
            alpha=_given(process["alpha"]),
            **discount,
            bound=process["bound"],
            family=made["family"],
            batch_size=provenance["batch_size"],
            bootstrap=provenance["bootstrap_rows"],
            random_state=provenance["seed"],
            half_life=int(half_life) if isinstance(half_life, float) and half_life.is_integer() else half_life,
            missing_informative=made["missing_informative"],
        )
        return model._with_columns(provenance["schema"])._go_on(data)

    # ------------------------------------------------------------------ the four steps

    def snapshot(self):
        """Step 1: the posterior as bytes, to be sent to whoever runs ``anabranch.infer``.

        Rows that wait for a full minibatch are learned from first.
        """
        check_is_fitted(self)
        return self._engine.snapshot()

    def absorb(self, increment):
        """Steps 3 and 4: identify the new components of an increment and add it.

        Returns
        -------
        counted : bool
            False when its minibatch is in the model already, so that nothing changed.
        """
        check_is_fitted(self)
        return self._engine.absorb(increment)

    def _has_started(self):
        """True when the first minibatch has been learned from, so that workers can help."""
        engine = self.__dict__.get("_engine")
        return engine is not None and engine.started

    # ------------------------------------------------------------------ parameters

    def _family_name(self):
        return str(self.family).split(":")[0].strip() if "+" not in str(self.family) else "product"

    def _most_components(self):
        # An estimator that an older version has pickled has no such parameter.
        most = getattr(self, "max_components", None)
        return None if most is None else _whole("max_components", most, 1)

    def _half_life(self):
        # The same of this one. The engine says which text is none.
        half_life = getattr(self, "half_life", None)
        return half_life if half_life is None or isinstance(half_life, str) else str(_whole("half_life", half_life, 1))

    def _missing_informative(self):
        # And of this one.
        columns = getattr(self, "missing_informative", False)
        if isinstance(columns, (bool, np.bool_)):
            return "*" if columns else None
        if isinstance(columns, str) or not isinstance(columns, (list, tuple, np.ndarray)) or len(columns) == 0:
            raise ValueError(f"missing_informative: {columns!r} is neither True nor False nor a list of columns")
        return ",".join(str(column) for column in columns)

    def _own_options(self):
        _one_of("labels", self.labels, _LABELS)
        options = {
            "family": str(self.family),
            "alpha": _parameter("alpha", self.alpha),
            "discount": _parameter("discount", self.discount) if hasattr(self, "discount") else None,
            "polish": None if self.polish is None else _whole("polish", self.polish, 1),
            "max_components": self._most_components(),
            "half_life": self._half_life(),
            "missing_informative": self._missing_informative(),
        }
        for name in (*_PRIORS, "resolution"):
            value = getattr(self, name)
            read = _list if name in _LISTS else _number
            options[name] = None if value is None or (name, value) == ("resolution", "auto") else read(name, value)
        return options

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        family = self._family_name()
        tags.input_tags.sparse = family in self._sparse_families
        tags.input_tags.positive_only = family in self._count_families
        # Counts of a multinomial row share their total: where one is missing, nothing says how large that was.
        tags.input_tags.allow_nan = family != "multinomial"
        return tags
