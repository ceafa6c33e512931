from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import DPMixture, Event, HDPTopics, LatentFeatures

class Recorder:
    events: list[Event]
    def __init__(self) -> None: ...
    def __call__(self, event: Event) -> None: ...

def clusters(
    model: DPMixture,
    X: Any = None,
    *,
    columns: tuple[int, int] = (0, 1),
    ax: Any = None,
    min_weight: float = 0.0,
    seed: int = 0,
) -> Any: ...
def responsibilities(model: DPMixture, X: Any, *, ax: Any = None, max_rows: int = 200) -> Any: ...
def growth(events: Recorder | Iterable[Event], *, ax: Any = None) -> Any: ...
def topic_words(
    model: DPMixture | HDPTopics,
    vocabulary: Sequence[str] | None = None,
    *,
    n_words: int = 8,
    n_topics: int = 6,
    ax: Any = None,
) -> NDArray[np.object_]: ...
def features(
    model: LatentFeatures, shape: tuple[int, int] | None = None, *, n_features: int = 10, ax: Any = None
) -> NDArray[np.object_]: ...
