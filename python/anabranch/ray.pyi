from typing import Any

from . import DPMixture

def fit(
    data: Any,
    model: DPMixture | None = None,
    *,
    batch_size: int = 2048,
    in_flight: int | None = None,
    max_retries: int = 3,
    task_options: dict[str, Any] | None = None,
) -> DPMixture: ...
