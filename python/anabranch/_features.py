"""Features that add up: the beta process as an estimator."""

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from . import _core, _input
from ._estimator import CourseEstimator, _given, _optional, _parameter, _whole


class LatentFeatures(CourseEstimator):
    """Rows that are sums of features, each row of its own choice, with as many features as the rows ask for.

    A row has each feature or does not have it; it is the sum of those it has, and noise. The number of features is a result,
    ``n_components_``, not a parameter.

    Parameters
    ----------
    alpha : float or "auto", default=5.0
        Mass of the beta process: how many features the first row is expected to have. ``"auto"`` learns it from the stream.
    noise, feature_scale : float, optional
        Standard deviation of the noise, and of the cells of a feature, in the units of the data. Both are learned unless both
        are given.
    batch_size : int, default=256
        Rows of a minibatch.
    bootstrap : int, optional
        Rows of the first minibatch, which is learned alone; by default 2000. All rows, when there are fewer.
    max_new : int, default=50
        Features that a minibatch after the first may open.
    passes : int, default=1
        How often ``fit`` reads the rows, which it has to have in memory for more than one pass; ``partial_fit`` reads its own
        once.
    workers, schedule, bound
        As in :class:`DPMixture`.
    random_state : int, RandomState or None
        Seed; an int is the ``--seed`` of the command line. It alone fixes the result, whatever ``n_jobs`` is.
    n_jobs : int, optional
        Threads; None means 1, -1 all cores.
    verbose : int, default=0
        1 shows a progress bar.
    callback : callable, optional
        Called with an :class:`anabranch.Event` after each minibatch. Raise ``StopIteration`` in it to end the fit there.

    Attributes
    ----------
    n_components_ : int
        Number of features.
    components_ : array of shape (n_components_, n_features)
        The features.
    component_ids_ : array of shape (n_components_,)
    counts_ : array of shape (n_components_,)
        Expected number of rows that have each feature.
    explained_ : array of shape (n_components_,)
        Sum of squares that each feature brings to the rows: its share of the rows times the square of its cells.
    noise_, feature_scale_, alpha_ : float
        As given or learned.
    n_samples_seen_, n_features_in_ : int
    feature_names_in_ : array
        When the rows had names.

    Examples
    --------
    >>> import numpy as np
    >>> from anabranch import LatentFeatures
    >>> rng = np.random.default_rng(0)
    >>> features = np.array([[4, 4, 0, 0, 0, 0], [0, 0, 4, 4, 0, 0], [0, 0, 0, 0, 4, 4.0]])
    >>> X = rng.integers(2, size=(500, 3)) @ features + rng.normal(scale=0.3, size=(500, 6))
    >>> model = LatentFeatures(random_state=0).fit(X)
    >>> model.n_components_
    3
    >>> Z = model.transform(X)
    >>> bool(np.abs(model.inverse_transform(Z) - X).mean() < 0.4)
    True
    """

    _engine_class = _core.Features

    def __init__(
        self,
        alpha=5.0,
        *,
        noise=None,
        feature_scale=None,
        batch_size=256,
        bootstrap=None,
        max_new=50,
        passes=1,
        workers=None,
        schedule="deterministic",
        bound="paper",
        random_state=None,
        n_jobs=None,
        verbose=0,
        callback=None,
    ):
        self.alpha = alpha
        self.noise = noise
        self.feature_scale = feature_scale
        self.batch_size = batch_size
        self.bootstrap = bootstrap
        self.max_new = max_new
        self.passes = passes
        self.workers = workers
        self.schedule = schedule
        self.bound = bound
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    # ------------------------------------------------------------------ rows and features

    def transform(self, X):
        """The probability that each row has each feature, in the order of ``component_ids_``; as ``anabranch predict --proba``."""
        return self._by_component(_core.Features.probabilities, X)

    def inverse_transform(self, X):
        """Rows from their features: ``X @ components_``.

        Parameters
        ----------
        X : array of shape (n_samples, n_components_)
            Which features each row has: zeros and ones, or probabilities as ``transform`` gives them.

        Returns
        -------
        rows : array of shape (n_samples, n_features)
            Without noise.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=[np.float64, np.float32], input_name="X")
        components = self.components_
        if X.shape[1] != len(components):
            raise ValueError(f"X: it has {X.shape[1]} columns, the model has {len(components)} features")
        return X @ components

    def score_samples(self, X):
        """Lower bound of the log density of each row, as ``anabranch predict --score``; low ones are anomalies."""
        engine, rows = self._asked(X)
        return engine.log_density(rows, self._threads())

    def score(self, X, y=None):
        """Mean lower bound of the log density of the rows."""
        return float(np.mean(self.score_samples(X)))

    # ------------------------------------------------------------------ attributes

    @property
    def components_(self):
        """The features, shape (n_components_, n_features)."""
        return self._attribute("components", "components_")

    @property
    def explained_(self):
        """Sum of squares that each feature brings to the rows that were learned from."""
        return self.counts_ * (self.components_**2).sum(axis=1)

    @property
    def noise_(self):
        """Standard deviation of the noise: as given, or as learned."""
        return self._attribute("noise", "noise_")

    @property
    def feature_scale_(self):
        """Standard deviation of the cells of a feature: as given, or as learned."""
        return self._attribute("feature_scale", "feature_scale_")

    @property
    def alpha_(self):
        """Mass of the process: as given, or as learned."""
        return self._attribute("alpha", "alpha_")

    # ------------------------------------------------------------------ rows

    def _rows(self, X, reset):
        _input.refuse_path(X, "LatentFeatures takes rows, and `anabranch fit --model bp` reads files")
        return self._validated(X, reset)

    # ------------------------------------------------------------------ files and parameters

    @classmethod
    def _from_bytes(cls, data):
        made = cls._made(data, "bp")
        provenance, process, family = made["provenance"], made["process"], made["family"]
        given = provenance.get("prior_given", False)
        model = cls(
            alpha=_given(process["alpha"]),
            noise=family["noise"] ** 0.5 if given else None,
            feature_scale=family["scale"] ** 0.5 if given else None,
            bound=process["bound"],
            batch_size=provenance["batch_size"],
            bootstrap=provenance["bootstrap_rows"],
            random_state=provenance["seed"],
        )
        return model._with_columns(provenance["schema"])._go_on(data)

    def _own_options(self):
        return {
            "alpha": _parameter("alpha", self.alpha),
            "noise": _optional("noise", self.noise),
            "feature_scale": _optional("feature_scale", self.feature_scale),
            "passes": _whole("passes", self.passes, 1),
        }
