"""The mixtures as estimators: Dirichlet process and Pitman–Yor process."""

from ._base import StreamingMixture


class DPMixture(StreamingMixture):
    """A mixture with as many components as the rows ask for, learned from a stream in one pass.

    The number of components is a result, ``n_components_``, not a parameter. There is no learning rate.

    Parameters
    ----------
    alpha : float or "auto", default=5.0
        Concentration of the Dirichlet process: larger expects more components. ``"auto"`` learns it from the stream.
    family : str, default="gaussian"
        What a component is: ``gaussian`` (full covariance), ``diagonal``, ``spherical``, ``bernoulli``,
        ``categorical`` (codes 0, 1, 2, ...), ``poisson``, ``multinomial``, or several joined by ``+`` with their columns,
        such as ``"gaussian:height,weight+poisson:visits"``; one part may leave its columns out and takes all others
        (``"gaussian+poisson:visits"``). Columns without names are numbered from 1.
    prior_mean, prior_scale : float or array, optional
        Expected mean of a component, and diagonal of its scatter matrix, in the units of the data.
    prior_kappa, prior_dof : float, optional
        Rows that the prior mean counts for, and degrees of freedom of the covariance. When none of the four is given,
        the prior is estimated from the first minibatch.
    resolution : "auto", float or array, default="auto"
        Width of the interval that a rounded value stands for, for all columns or for each; 0 takes values as exact.
        ``"auto"`` finds it: integers, for example, count as intervals of width 1.
    batch_size : int, default=256
        Rows of a minibatch.
    bootstrap : int, optional
        Rows of the first minibatch, which is learned alone; by default 20000. All rows, when there are fewer.
    polish : int, optional
        First rows that are kept and learned from again, until the model settles, when the model is looked at after a fit:
        a better model for more time. By default the rows of the first minibatch are looked at again once.
    max_new : int, default=50
        Components that a minibatch after the first may open.
    max_components : int, optional
        Components at most: whenever there are more, the two that are closest are merged.
    half_life : int or str, optional
        Rows of the stream after which a row counts half: what has changed is forgotten. The first minibatch is then by default
        no longer than that (but 1000), others no longer than an eighth of it (but 32). A time such as ``"30s"``, ``"5m"``,
        ``"1h"`` or ``"7d"``: then ``times`` of ``fit`` and ``partial_fit`` say when rows were. ``"auto"`` forgets, component by
        component, what the newest rows speak against.
    missing_informative : bool or list of columns, default=False
        Whether it is learned that values (NaN) are missing, as a column of zeros and ones for each column or for those that are
        named: components may differ by it, and densities count it.
    workers : int, optional
        Minibatches in flight, each with the posterior it started from; by default at most 64 and fewer at first, and
        as many as threads with ``schedule="free"``.
    schedule : {"deterministic", "free"}, default="deterministic"
        Deterministic: ``random_state`` and ``workers`` fix the result, whatever ``n_jobs`` is. Free: each minibatch joins as soon as it can.
    bound : {"paper", "conditional"}, default="paper"
        Bound on the process that identifies components.
    random_state : int, RandomState or None
        Seed; an int is the ``--seed`` of the command line.
    n_jobs : int, optional
        Threads; None means 1, -1 all cores.
    verbose : int, default=0
        1 shows a progress bar.
    callback : callable, optional
        Called with an :class:`anabranch.Event` after each minibatch. Raise ``StopIteration`` in it to end the fit there.
    labels : {"components", "clusters"}, default="components"
        What ``predict`` and ``fit_predict`` return: components, or clusters of any shape, as ``predict_clusters``.

    Attributes
    ----------
    n_components_ : int
    n_clusters_ : int
    cluster_tree_ : dict
        How components join to clusters.
    alpha_ : float
        The concentration, as given or learned.
    component_ids_ : array of shape (n_components_,)
    weights_, counts_ : arrays of shape (n_components_,)
    n_components_between_ : tuple
        Between how many components the rows cannot tell.
    means_ : array of shape (n_components_, n_features)
    missing_ : array of shape (n_components_, n_features)
        With ``missing_informative``, how often values are missing.
    covariances_ : array
        Of shape (n_components_, n_features, n_features), (n_components_, n_features) for ``diagonal`` and
        (n_components_,) for ``spherical``.
    n_samples_seen_, n_features_in_ : int
    feature_names_in_ : array
        When the rows had names.

    Examples
    --------
    >>> import numpy as np
    >>> from anabranch import DPMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(m, 1, (500, 2)) for m in (-8, 0, 8)])
    >>> model = DPMixture(random_state=0).fit(X)
    >>> model.n_components_
    3
    >>> model.weights_.round(2).tolist()
    [0.33, 0.33, 0.33]
    >>> len(set(model.predict([[-8, -8], [0, 0], [8, 8]]).tolist()))
    3

    A stream, in any pieces, gives the same model:

    >>> stream = DPMixture(random_state=0)
    >>> for piece in np.array_split(X, 7):
    ...     stream = stream.partial_fit(piece)
    >>> bool((stream.means_ == model.means_).all())
    True
    """

    _sparse_families = frozenset({"bernoulli", "poisson", "multinomial"})
    _count_families = frozenset({"bernoulli", "categorical", "poisson", "multinomial"})

    def __init__(
        self,
        alpha=5.0,
        *,
        family="gaussian",
        prior_mean=None,
        prior_kappa=None,
        prior_scale=None,
        prior_dof=None,
        resolution="auto",
        batch_size=256,
        bootstrap=None,
        polish=None,
        max_new=50,
        max_components=None,
        half_life=None,
        missing_informative=False,
        workers=None,
        schedule="deterministic",
        bound="paper",
        random_state=None,
        n_jobs=None,
        verbose=0,
        callback=None,
        labels="components",
    ):
        self.alpha = alpha
        self.family = family
        self.prior_mean = prior_mean
        self.prior_kappa = prior_kappa
        self.prior_scale = prior_scale
        self.prior_dof = prior_dof
        self.resolution = resolution
        self.batch_size = batch_size
        self.bootstrap = bootstrap
        self.polish = polish
        self.max_new = max_new
        self.max_components = max_components
        self.half_life = half_life
        self.missing_informative = missing_informative
        self.workers = workers
        self.schedule = schedule
        self.bound = bound
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback
        self.labels = labels


class PYMixture(DPMixture):
    """A mixture whose clusters differ widely in size: a few large ones and ever more small ones.

    The sizes of the clusters of a Pitman–Yor process fall like a power of their rank, and their number grows like a power
    of the number of rows. With ``discount=0`` it is a :class:`DPMixture`, to the last digit. Everything but the two
    parameters below is as there.

    Parameters
    ----------
    alpha : float or "auto", default=5.0
        Concentration of the process, above ``-discount``. ``"auto"`` learns it from the stream.
    discount : float or "auto", default=0.5
        From 0 to below 1: the larger, the more small clusters. ``"auto"`` learns it from the stream.

    Attributes
    ----------
    discount_ : float
        The discount, as given or learned. The others are those of :class:`DPMixture`.

    Examples
    --------
    >>> import numpy as np
    >>> from anabranch import PYMixture
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(m, 1, (n, 2)) for m, n in ((-30, 900), (-10, 300), (10, 100), (30, 30))])
    >>> model = PYMixture(discount=0.5, random_state=0).fit(X)
    >>> model.n_components_, model.discount_
    (4, 0.5)
    """

    _has_discount = True

    def __init__(
        self,
        alpha=5.0,
        discount=0.5,
        *,
        family="gaussian",
        prior_mean=None,
        prior_kappa=None,
        prior_scale=None,
        prior_dof=None,
        resolution="auto",
        batch_size=256,
        bootstrap=None,
        polish=None,
        max_new=50,
        max_components=None,
        half_life=None,
        missing_informative=False,
        workers=None,
        schedule="deterministic",
        bound="paper",
        random_state=None,
        n_jobs=None,
        verbose=0,
        callback=None,
        labels="components",
    ):
        super().__init__(
            alpha,
            family=family,
            prior_mean=prior_mean,
            prior_kappa=prior_kappa,
            prior_scale=prior_scale,
            prior_dof=prior_dof,
            resolution=resolution,
            batch_size=batch_size,
            bootstrap=bootstrap,
            polish=polish,
            max_new=max_new,
            max_components=max_components,
            half_life=half_life,
            missing_informative=missing_informative,
            workers=workers,
            schedule=schedule,
            bound=bound,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            callback=callback,
            labels=labels,
        )
        self.discount = discount

    @property
    def discount_(self):
        """Discount of the process: as given, or as learned."""
        return self._attribute("discount", "discount_")
