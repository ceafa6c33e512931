"""Streaming, distributed Bayesian nonparametric clustering: ``partial_fit``, no fixed number of clusters, no learning rate.

>>> import numpy as np
>>> import anabranch
>>> X = np.random.default_rng(0).normal(size=(1000, 2)) + [[0, 0], [9, 9]] * 500
>>> model = anabranch.DPMixture(random_state=0).fit(X)
>>> model.n_components_
2

The four steps of the method, for engines of your own: a snapshot goes to a worker, what it learns comes back.

>>> snapshot = model.snapshot()
>>> increment = anabranch.infer(snapshot, X[:100] + 0.1, batch=1000)
>>> model.absorb(increment), model.absorb(increment)
(True, False)
>>> model.n_samples_seen_
1100
"""

from importlib.metadata import version as _version

from ._features import LatentFeatures
from ._mixture import DPMixture, PYMixture
from ._progress import Event
from ._steps import infer, load
from ._topics import HDPTopics

__all__ = ["DPMixture", "Event", "HDPTopics", "LatentFeatures", "PYMixture", "infer", "load"]
__version__ = _version("anabranch")
