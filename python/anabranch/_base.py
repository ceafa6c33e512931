"""What every estimator shares: rows in, the engine, fitted attributes, files, and the four steps in the open."""

import itertools
import json
import numbers
import os
import warnings

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from . import _core, _input
from ._progress import Watch

# Values of rows that are few.
_FEW_VALUES = 4096

# What a parameter that is to be learned starts from, as on the command line.
_LEARNED_FROM = {"alpha": 5.0, "discount": 0.5}

_PRIORS = ("prior_mean", "prior_kappa", "prior_scale", "prior_dof")
_LISTS = ("prior_mean", "prior_scale", "resolution")


class StreamingMixture(ClassNamePrefixFeaturesOutMixin, TransformerMixin, DensityMixin, BaseEstimator):
    """Base class of the mixtures; see the class that you construct for parameters and attributes."""

    _sparse_families = frozenset()
    _count_families = frozenset()
    _has_discount = False

    # ------------------------------------------------------------------ learning

    def fit(self, X, y=None, sample_weight=None):
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

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C, with a model of the rows that were read so far.
        """
        before = self.__dict__.get("_engine")
        self._engine = self._new_engine()
        try:
            self._learn(X, sample_weight, reset=True)
            self._engine.refresh()
        except KeyboardInterrupt:
            raise
        except BaseException:
            self._engine = before
            if before is None:
                del self._engine
            raise
        return self

    def partial_fit(self, X, y=None, sample_weight=None):
        """Learn from more rows.

        In the deterministic schedule, the default, it does not matter how rows are cut into calls: any number of calls
        gives the same model as one ``fit`` on all rows. Rows that do not fill a minibatch yet count in everything you
        look at. Looking changes nothing of what will be learned, and costs little soon after the last look.

        Parameters
        ----------
        X, y, sample_weight
            As in ``fit``.

        Returns
        -------
        self
        """
        first = "_engine" not in self.__dict__
        if first:
            self._engine = self._new_engine()
        try:
            self._learn(X, sample_weight, reset=first)
        except KeyboardInterrupt:
            raise
        except BaseException:
            if first and self._engine.rows_seen == 0:
                del self._engine
            raise
        return self

    def fit_predict(self, X, y=None, sample_weight=None):
        """Fit and return the label of each row."""
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def _learn(self, X, sample_weight, reset):
        if _input.is_path(X):
            self._no_weights(sample_weight, "files")
            return self._learn_files(X)
        if _input.is_stream(X):
            self._no_weights(sample_weight, "a stream, which yields (X, sample_weight) pairs")
            return self._learn_stream(X, reset)
        mapped = isinstance(X, np.memmap)
        X = self._rows(X, reset=reset, finite=False if mapped else "allow-nan")
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        lent = _input.lend(self._chosen(X))
        if not mapped:
            self._engine.check(lent, self._names())
        with Watch(self.verbose, self.callback, X.shape[0]) as watch:
            self._engine.learn(lent, sample_weight, self._names(), watch.receiver)

    def _learn_files(self, X):
        with Watch(self.verbose, self.callback, None) as watch:
            self._engine.learn_files(_input.paths(X), watch.receiver)
        names, named = self._engine.schema
        self.n_features_in_ = len(names)
        if named:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _learn_stream(self, X, reset):
        blocks = _input.blocks(X)
        first = next(blocks, None)
        if first is None:
            raise ValueError("the stream has no rows")

        def checked():
            nonlocal reset
            for block in itertools.chain([first], blocks):
                rows, weight = block if isinstance(block, tuple) else (block, None)
                if getattr(rows, "num_rows", 1) == 0:
                    continue
                rows = self._rows(rows, reset=reset)
                reset = False
                if weight is not None:
                    weight = _check_sample_weight(weight, rows, dtype=np.float64, ensure_non_negative=True)
                lent = _input.lend(self._chosen(rows))
                self._engine.check(lent, self._names())
                yield lent, weight

        ready = checked()
        head = next(ready, None)
        if head is None:
            raise ValueError("the stream has no rows")
        columns = head[0][3] if isinstance(head[0], tuple) else head[0].shape[1]
        with Watch(self.verbose, self.callback, None) as watch:
            self._engine.learn_iterator(
                itertools.chain([head], ready), columns, self._names(), watch.receiver
            )

    @staticmethod
    def _no_weights(sample_weight, what):
        if sample_weight is not None:
            raise ValueError(f"sample_weight does not go with {what}")

    # ------------------------------------------------------------------ rows

    def _rows(self, X, reset, finite="allow-nan"):
        """Rows that the engine can read, with columns checked against those of the fit."""
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

    def _check_fitted(self):
        # What scikit-learn looks at besides costs more than the answer for a row.
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)

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
        if _one_of("labels", self.labels, ("components", "clusters")) == "clusters":
            return self.predict_clusters(X)
        return self._predict_components(X)

    def _predict_components(self, X):
        return self._engine_of(X).predict(self._query(X), self._threads())

    def predict_clusters(self, X, N=None, *, valley=None, min_size=None, noise=False):
        """Label each row with its cluster: components that no valley of the density parts are one, whatever its shape.

        The parameters are those of :meth:`cluster_labels`, and so are the names.
        """
        positions = self._predict_components(X)
        return self.cluster_labels(N, valley=valley, min_size=min_size, noise=noise)[positions]

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
            Clusters with fewer rows belong to the one over their highest pass; by default 10, or 0 with ``N``.
        noise : bool, default=False
            Clusters that are too small get the label -1 instead.
        """
        self._attribute("ids", "cluster_labels")
        count = None if N is None else _whole("N", N, 1)
        valley = None if valley is None else _number("valley", valley)
        min_size = None if min_size is None else _number("min_size", min_size)
        return self._engine.clusters(count, valley, min_size, bool(noise))

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

    def __sklearn_is_fitted__(self):
        engine = self.__dict__.get("_engine")
        return engine is not None and engine.rows_seen > 0

    def _attribute(self, name, attribute):
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no {attribute} before it is fitted")
        value = self._engine.attributes().get(name)
        if value is None:
            raise AttributeError(f"a {self._family_name()} mixture has no {attribute}")
        return value

    @property
    def component_ids_(self):
        """Ids of the components: given once, never reused."""
        return self._attribute("ids", "component_ids_")

    @property
    def counts_(self):
        """Expected number of rows (or weight) of each component."""
        return self._attribute("counts", "counts_")

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
    def n_components_(self):
        """Number of components: a result, not a parameter."""
        return len(self._attribute("ids", "n_components_"))

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
    def n_samples_seen_(self):
        """Rows learned from."""
        self._attribute("ids", "n_samples_seen_")
        return int(self._engine.rows_seen)

    @property
    def _n_features_out(self):
        return self.n_components_

    # ------------------------------------------------------------------ files

    def save(self, path):
        """Write the model file, the same as the command line's, in one step."""
        check_is_fitted(self)
        self._engine.save(os.fspath(path))

    @classmethod
    def load(cls, path):
        """Read a model file that ``save`` or the command line wrote."""
        with open(path, "rb") as file:
            data = file.read()
        return cls._from_bytes(data)

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
        made = json.loads(_core.describe(data))
        provenance, process, half_life = made["provenance"], made["process"], made["half_life"]
        discount = {"discount": _given(process["discount"])} if "discount" in process else {}
        if bool(discount) != cls._has_discount:
            fitting = "PYMixture" if discount else "DPMixture"
            raise ValueError(f"the file holds a model for {fitting}, not for {cls.__name__}; anabranch.load finds out")
        model = cls(
            alpha=_given(process["alpha"]),
            **discount,
            bound=process["bound"],
            family=made["family"],
            batch_size=provenance["batch_size"],
            bootstrap=provenance["bootstrap_rows"],
            random_state=provenance["seed"],
            half_life=int(half_life) if isinstance(half_life, float) and half_life.is_integer() else half_life,
        )
        columns = provenance["schema"]["columns"]
        model.n_features_in_ = len(columns)
        if provenance["schema"]["named"]:
            model.feature_names_in_ = np.asarray([column["name"] for column in columns], dtype=object)
        model._engine = _core.Engine.from_bytes(model._options(), data)
        return model

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

    def _threads(self):
        return effective_n_jobs(self.n_jobs)

    def _family_name(self):
        return str(self.family).split(":")[0].strip() if "+" not in str(self.family) else "product"

    def _new_engine(self):
        return _core.Engine(self._options())

    def _most_components(self):
        # An estimator that an older version has pickled has no such parameter.
        most = getattr(self, "max_components", None)
        return None if most is None else _whole("max_components", most, 1)

    def _half_life(self):
        # The same of this one.
        rows = getattr(self, "half_life", None)
        return rows if rows is None or rows == "auto" else str(_whole("half_life", rows, 1))

    def _options(self):
        """The parameters as the engine wants them."""
        options = {
            "family": str(self.family),
            "alpha": _parameter("alpha", self.alpha),
            "discount": _parameter("discount", self.discount) if hasattr(self, "discount") else None,
            "bound": _one_of("bound", self.bound, ("paper", "conditional")),
            "batch_size": _whole("batch_size", self.batch_size, 1),
            "bootstrap": None if self.bootstrap is None else _whole("bootstrap", self.bootstrap, 0),
            "polish": None if self.polish is None else _whole("polish", self.polish, 1),
            "max_components": self._most_components(),
            "half_life": self._half_life(),
            "max_new": _whole("max_new", self.max_new, 0),
            "threads": self._threads(),
            "workers": None if self.workers is None else _whole("workers", self.workers, 1),
            "schedule": _one_of("schedule", self.schedule, ("deterministic", "free")),
            "seed": self._seed(),
        }
        for name in (*_PRIORS, "resolution"):
            value = getattr(self, name)
            read = _list if name in _LISTS else _number
            options[name] = None if value is None or (name, value) == ("resolution", "auto") else read(name, value)
        return json.dumps(options)

    def _seed(self):
        if isinstance(self.random_state, numbers.Integral):
            if self.random_state < 0:
                raise ValueError(f"random_state: {self.random_state} is below 0")
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        family = self._family_name()
        tags.input_tags.sparse = family in self._sparse_families
        tags.input_tags.positive_only = family in self._count_families
        # Counts of a multinomial row share their total: where one is missing, nothing says how large that was.
        tags.input_tags.allow_nan = family != "multinomial"
        return tags


def _number(name, value):
    if not isinstance(value, numbers.Real) or not np.isfinite(value):
        raise ValueError(f"{name}: {value!r} is not a finite number")
    return float(value)


def _parameter(name, value):
    """A number, or what is learned from the stream."""
    if isinstance(value, str):
        _one_of(name, value, ("auto",))
        return {"learned": _LEARNED_FROM[name]}
    return _number(name, value)


def _given(parameter):
    """The parameter of a stored process as the estimator takes it."""
    return "auto" if isinstance(parameter, dict) else parameter


def _whole(name, value, least):
    if not isinstance(value, numbers.Integral) or value < least:
        raise ValueError(f"{name}: {value!r} is not a whole number of at least {least}")
    return int(value)


def _one_of(name, value, known):
    if value not in known:
        raise ValueError(f"{name}: {value!r} is not one of {', '.join(known)}")
    return value


def _list(name, value):
    return ",".join(repr(_number(name, v)) for v in np.atleast_1d(np.asarray(value, dtype=float)).tolist())
