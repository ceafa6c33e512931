from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, DensityMixin, TransformerMixin

__all__ = ["DPMixture", "Event", "HDPTopics", "LatentFeatures", "PYMixture", "infer", "load"]
__version__: str

class Event(NamedTuple):
    batch: int
    rows: int
    version: int
    components: int
    mass: float
    matchings: int
    conflicts: int
    created: int
    changes: tuple[dict[str, Any], ...]

class _StreamingEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    def transform(self, X: Any) -> NDArray[np.float64]: ...
    def score_samples(self, X: Any) -> NDArray[np.float64]: ...
    def score(self, X: Any, y: object = None) -> float: ...
    @property
    def component_ids_(self) -> NDArray[np.int64]: ...
    @property
    def counts_(self) -> NDArray[np.float64]: ...
    @property
    def n_components_(self) -> int: ...
    @property
    def n_samples_seen_(self) -> int: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self: ...

class _StreamingMixture(DensityMixin, _StreamingEstimator):
    def fit(
        self, X: Any, y: object = None, sample_weight: ArrayLike | None = None, times: ArrayLike | str | None = None
    ) -> Self: ...
    def partial_fit(
        self, X: Any, y: object = None, sample_weight: ArrayLike | None = None, times: ArrayLike | str | None = None
    ) -> Self: ...
    def fit_predict(
        self, X: Any, y: object = None, sample_weight: ArrayLike | None = None, times: ArrayLike | str | None = None
    ) -> NDArray[np.int64]: ...
    def predict(self, X: Any) -> NDArray[np.int64]: ...
    def predict_clusters(
        self,
        X: Any,
        N: int | None = None,
        *,
        valley: float | None = None,
        min_size: float | None = None,
        noise: bool = False,
    ) -> NDArray[np.int64]: ...
    def cluster_labels(
        self,
        N: int | None = None,
        *,
        valley: float | None = None,
        min_size: float | None = None,
        noise: bool = False,
    ) -> NDArray[np.int64]: ...
    def predict_proba(self, X: Any) -> NDArray[np.float64]: ...
    def sample(self, n_samples: int = 1) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...
    @property
    def alpha_(self) -> float: ...
    @property
    def weights_(self) -> NDArray[np.float64]: ...
    @property
    def means_(self) -> NDArray[np.float64]: ...
    @property
    def missing_(self) -> NDArray[np.float64]: ...
    @property
    def covariances_(self) -> NDArray[np.float64]: ...
    @property
    def probabilities_(self) -> list[NDArray[np.float64]]: ...
    @property
    def n_clusters_(self) -> int: ...
    @property
    def forgotten_(self) -> float: ...
    @property
    def cluster_tree_(self) -> dict[str, Any]: ...
    def snapshot(self) -> bytes: ...
    def absorb(self, increment: bytes) -> bool: ...

class DPMixture(_StreamingMixture):
    def __init__(
        self,
        alpha: float | Literal["auto"] = 5.0,
        *,
        family: str = "gaussian",
        prior_mean: ArrayLike | None = None,
        prior_kappa: float | None = None,
        prior_scale: ArrayLike | None = None,
        prior_dof: float | None = None,
        resolution: str | float | ArrayLike = "auto",
        batch_size: int = 256,
        bootstrap: int | None = None,
        polish: int | None = None,
        max_new: int = 50,
        max_components: int | None = None,
        half_life: int | str | None = None,
        missing_informative: bool | Sequence[str | int] = False,
        workers: int | None = None,
        schedule: Literal["deterministic", "free"] = "deterministic",
        bound: Literal["paper", "conditional"] = "paper",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], object] | None = None,
        labels: Literal["components", "clusters"] = "components",
    ) -> None: ...

class PYMixture(DPMixture):
    def __init__(
        self,
        alpha: float | Literal["auto"] = 5.0,
        discount: float | Literal["auto"] = 0.5,
        *,
        family: str = "gaussian",
        prior_mean: ArrayLike | None = None,
        prior_kappa: float | None = None,
        prior_scale: ArrayLike | None = None,
        prior_dof: float | None = None,
        resolution: str | float | ArrayLike = "auto",
        batch_size: int = 256,
        bootstrap: int | None = None,
        polish: int | None = None,
        max_new: int = 50,
        max_components: int | None = None,
        half_life: int | str | None = None,
        missing_informative: bool | Sequence[str | int] = False,
        workers: int | None = None,
        schedule: Literal["deterministic", "free"] = "deterministic",
        bound: Literal["paper", "conditional"] = "paper",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], object] | None = None,
        labels: Literal["components", "clusters"] = "components",
    ) -> None: ...
    @property
    def discount_(self) -> float: ...

class _CourseEstimator(_StreamingEstimator):
    def fit(self, X: Any, y: object = None) -> Self: ...
    def partial_fit(self, X: Any, y: object = None) -> Self: ...
    @property
    def components_(self) -> NDArray[np.float64]: ...

class HDPTopics(_CourseEstimator):
    def __init__(
        self,
        gamma: float | None = None,
        alpha0: float | None = None,
        eta: float | None = None,
        *,
        vocabulary: Sequence[str] | None = None,
        batch_size: int = 256,
        bootstrap: int | None = None,
        max_new: int = 50,
        passes: int = 1,
        workers: int | None = None,
        schedule: Literal["deterministic", "free"] = "deterministic",
        bound: Literal["paper", "conditional"] = "paper",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], object] | None = None,
    ) -> None: ...
    def perplexity(self, X: Any) -> float: ...
    def top_words(self, n_words: int = 10) -> list[list[str]]: ...
    def subject_words(self, n_words: int = 8) -> list[list[str]]: ...
    @property
    def subjects_(self) -> NDArray[np.int64]: ...
    @property
    def weights_(self) -> NDArray[np.float64]: ...
    @property
    def vocabulary_(self) -> NDArray[np.object_]: ...
    @property
    def gamma_(self) -> float: ...
    @property
    def alpha0_(self) -> float: ...
    @property
    def eta_(self) -> float: ...

class LatentFeatures(_CourseEstimator):
    def __init__(
        self,
        alpha: float | Literal["auto"] = 5.0,
        *,
        noise: float | None = None,
        feature_scale: float | None = None,
        batch_size: int = 256,
        bootstrap: int | None = None,
        max_new: int = 50,
        passes: int = 1,
        workers: int | None = None,
        schedule: Literal["deterministic", "free"] = "deterministic",
        bound: Literal["paper", "conditional"] = "paper",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Event], object] | None = None,
    ) -> None: ...
    def inverse_transform(self, X: ArrayLike) -> NDArray[np.float64]: ...
    @property
    def explained_(self) -> NDArray[np.float64]: ...
    @property
    def noise_(self) -> float: ...
    @property
    def feature_scale_(self) -> float: ...
    @property
    def alpha_(self) -> float: ...

def infer(
    snapshot: bytes,
    X: Any,
    sample_weight: ArrayLike | None = None,
    *,
    batch: int | None = None,
    max_new: int = 50,
) -> bytes: ...
def load(path: str | PathLike[str]) -> Any: ...
