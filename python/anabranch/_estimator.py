"""What every estimator shares: learning from a stream, the engine and its parameters, fitted attributes, files."""

import difflib
import itertools
import json
import numbers
import os

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _core, _input
from ._progress import Watch

# Options of the engine that may change while a model is learned; a seed that was drawn is not asked for again.
_FREE = ("passes", "seed", "threads")

# The class for each model that a file can hold.
_CLASSES = {"dp": "DPMixture", "py": "PYMixture", "hdp": "HDPTopics", "bp": "LatentFeatures"}

# What a parameter that is to be learned starts from, as on the command line.
_LEARNED_FROM = {"alpha": 5.0, "discount": 0.5}


class StreamingEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of everything that learns from a stream; see the class that you construct for parameters and attributes.

    A class says which ``_engine_class`` learns, its own parameters (``_own_options``), and what rows are (``_rows``).
    """

    # ------------------------------------------------------------------ learning

    def _fit(self, X, sample_weight=None, **more):
        before = {name: self.__dict__.get(name) for name in ("_engine", "_begun")}
        self._begin()
        try:
            self._learn(X, sample_weight, reset=True, **more, **self._fit_options())
            self._engine.refresh()
        except KeyboardInterrupt:
            raise
        except BaseException:
            self.__dict__.update(before)
            self._drop_empty()
            raise
        return self

    def _partial_fit(self, X, sample_weight=None, **more):
        first = "_engine" not in self.__dict__
        if first:
            self._begin()
        else:
            self._check_unchanged()
        try:
            self._learn(X, sample_weight, reset=first, **more)
        except KeyboardInterrupt:
            raise
        except BaseException:
            if first and self._engine.rows_seen == 0:
                del self._engine, self._begun
            raise
        return self

    def _fit_options(self):
        """What ``fit`` does otherwise than ``partial_fit``."""
        return {}

    def _begin(self):
        options = self._options()
        self._engine = self._engine_class(json.dumps(options))
        self._begun = self._lasting(options)

    def _drop_empty(self):
        for name in ("_engine", "_begun"):
            if self.__dict__.get(name) is None:
                self.__dict__.pop(name, None)

    def _lasting(self, options):
        """The parameters that cannot change while a model is learned."""
        lasting = {name: value for name, value in options.items() if name not in _FREE}
        if isinstance(self.random_state, numbers.Integral):
            lasting["random_state"] = int(self.random_state)
        return lasting

    def _check_unchanged(self):
        # An estimator that an older version has pickled does not say how it was begun.
        begun = self.__dict__.get("_begun")
        if begun is None:
            return
        options = self._options()
        now = self._lasting(options)
        for name, was in begun.items():
            if now.get(name) != was:
                raise ValueError(
                    f"{name}: this model was begun with {_shown(was)}, and the parameter is now {_shown(now.get(name))}; "
                    "it cannot change while a model is learned: set it back, or call fit to begin anew"
                )
        self._engine.set_threads(options["threads"])

    def _learn(self, X, sample_weight, reset, **options):
        if _input.is_stream(X):
            self._no_weights(sample_weight, "a stream, which yields (X, sample_weight) pairs")
            return self._learn_stream(X, reset, **options)
        return self._learn_rows(X, sample_weight, reset, **options)

    def _first_of(self, blocks):
        """The first of these and all of them; refused when there is none."""
        first = next(blocks, None)
        if first is None:
            raise ValueError("the stream has no rows")
        return first, itertools.chain([first], blocks)

    def _watch(self, total):
        return Watch(self.verbose, self.callback, total)

    @staticmethod
    def _no_weights(sample_weight, what):
        if sample_weight is not None:
            raise ValueError(f"sample_weight does not go with {what}")

    # ------------------------------------------------------------------ attributes

    def __sklearn_is_fitted__(self):
        engine = self.__dict__.get("_engine")
        return engine is not None and engine.rows_seen > 0

    def _check_fitted(self):
        # What scikit-learn looks at besides costs more than the answer for a row.
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)

    def _attribute(self, name, attribute):
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no {attribute} before it is fitted")
        value = self._engine.attributes().get(name)
        if value is None:
            raise AttributeError(f"{self._kind()} has no {attribute}")
        return value

    def _kind(self):
        return f"this {type(self).__name__}"

    @property
    def component_ids_(self):
        """Ids of the components: given once, never reused."""
        return self._attribute("ids", "component_ids_")

    @property
    def counts_(self):
        """Expected number of rows (or weight) of each component."""
        return self._attribute("counts", "counts_")

    @property
    def n_components_(self):
        """Number of components: a result, not a parameter."""
        return len(self._attribute("ids", "n_components_"))

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

    def _go_on(self, data):
        """Goes on from the bytes of a model file."""
        options = self._options()
        self._engine = self._engine_class.from_bytes(json.dumps(options), data)
        self._begun = self._lasting(options)
        return self

    # ------------------------------------------------------------------ parameters

    @classmethod
    def _made(cls, data, *models):
        """What the bytes of a model file say about how it was made; refused where it is another model."""
        made = json.loads(_core.describe(data))
        if made["model"] not in models:
            raise ValueError(
                f"the file holds a model for {_CLASSES[made['model']]}, not for {cls.__name__}; anabranch.load finds out"
            )
        return made

    def _with_columns(self, schema):
        """The columns as a model file names them."""
        self.n_features_in_ = len(schema["columns"])
        if schema["named"]:
            self.feature_names_in_ = np.asarray([column["name"] for column in schema["columns"]], dtype=object)
        return self

    def _threads(self):
        return effective_n_jobs(self.n_jobs)

    def _options(self):
        """The parameters as the engine wants them."""
        return {
            "bound": _one_of("bound", self.bound, ("paper", "conditional")),
            "batch_size": _whole("batch_size", self.batch_size, 1),
            "bootstrap": None if self.bootstrap is None else _whole("bootstrap", self.bootstrap, 0),
            "max_new": _whole("max_new", self.max_new, 0),
            "threads": self._threads(),
            "workers": None if self.workers is None else _whole("workers", self.workers, 1),
            "schedule": _one_of("schedule", self.schedule, ("deterministic", "free")),
            "seed": self._seed(),
            **self._own_options(),
        }

    def _seed(self):
        if isinstance(self.random_state, numbers.Integral):
            if self.random_state < 0:
                raise ValueError(f"random_state: {self.random_state} is below 0")
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31))


class CourseEstimator(StreamingEstimator):
    """Base class of topics and features, which go through the same course of a run."""

    def fit(self, X, y=None):
        """Learn from ``X``, forgetting what was learned before.

        Parameters
        ----------
        X : as the class says, or an iterator of such blocks
            An iterator is read once and piece by piece: it may be larger than memory.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C, with a model of the rows that were read so far.
        """
        return self._fit(X)

    def partial_fit(self, X, y=None):
        """Learn from more rows.

        In the deterministic schedule, the default, it does not matter how rows are cut into calls: any number of calls
        gives the same model as one ``fit`` on all rows. Looking changes nothing of what will be learned.

        Parameters
        ----------
        X, y
            As in ``fit``.

        Returns
        -------
        self
        """
        return self._partial_fit(X)

    def _fit_options(self):
        return {"passes": self.passes}

    def _learn_stream(self, X, reset, passes=1):
        if passes > 1:
            raise ValueError(f"passes: {passes} passes need rows that can be read again, and a stream is read once")
        _, blocks = self._first_of(_input.blocks(X))
        for block in blocks:
            if len(block) if isinstance(block, (list, tuple)) else block.shape[0]:
                self._learn_rows(block, None, reset)
                reset = False

    def _learn_rows(self, X, sample_weight, reset, passes=1):
        X = self._rows(X, reset=reset)
        lent = _input.lend(X)
        self._engine.check(lent, self._names())
        with self._watch(passes * X.shape[0]) as watch:
            self._engine.learn(lent, self._names(), passes, watch.receiver)

    def _names(self):
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def _validated(self, X, reset, **options):
        """Rows that the engine can read, with columns checked against those of the fit."""
        plain, table = _input.plain(X)
        # The engine says which cell is not finite.
        options = dict(dtype=[np.float64, np.float32], ensure_all_finite=False, **options)
        if table is None:
            return validate_data(self, X, reset=reset, **options)
        validate_data(self, table, reset=reset, skip_check_array=True)
        return check_array(plain, estimator=self, input_name="X", **options)

    def _asked(self, X):
        """The engine and what it is asked about."""
        self._check_fitted()
        return self._engine, _input.lend(self._rows(X, reset=False))

    def _by_component(self, ask, X):
        """What the engine answers when it is asked about each row and component."""
        engine, rows = self._asked(X)
        values, width = ask(engine, rows, self._threads())
        if width == 0:
            # Nobody has looked at the rows.
            engine.check(rows)
        n_rows = len(rows[2]) - 1 if isinstance(rows, tuple) else len(rows)
        return values.reshape(n_rows, width)


def _shown(value):
    """A parameter of the engine as the user gave it."""
    return repr(_given(value))


def _number(name, value):
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real) or not np.isfinite(value):
        raise ValueError(f"{name}: {value!r} is not a finite number")
    return float(value)


def _optional(name, value):
    return None if value is None else _number(name, value)


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
    whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
    if not whole or value < least:
        raise ValueError(f"{name}: {value!r} is not a whole number of at least {least}")
    return int(value)


def _one_of(name, value, known):
    if not isinstance(value, str) or value not in known:
        close = difflib.get_close_matches(str(value), known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{name}: {value!r} is not one of {', '.join(known)}{hint}")
    return value


def _list(name, value):
    return ",".join(repr(_number(name, v)) for v in np.atleast_1d(np.asarray(value, dtype=float)).tolist())
