from types import TracebackType
from typing import Any

from . import DPMixture

__all__ = ["Worker", "pull", "status", "submit"]

def submit(
    X: Any = None, *, job: str, to: str | None = None, source: str | None = None, **options: Any
) -> dict[str, Any]: ...
def pull(
    job: str, *, to: str | None = None, wait: bool = False, finish: bool = False, **options: Any
) -> DPMixture: ...
def status(job: str, *, to: str | None = None, **options: Any) -> dict[str, Any]: ...

class Worker:
    report: dict[str, Any] | None
    def __init__(
        self,
        job: str,
        *,
        to: str | None = None,
        threads: int | None = None,
        listen: str = "127.0.0.1:0",
        wait: bool = False,
        **options: Any,
    ) -> None: ...
    def start(self) -> Worker: ...
    @property
    def running(self) -> bool: ...
    def stop(self) -> dict[str, Any]: ...
    def __enter__(self) -> Worker: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
