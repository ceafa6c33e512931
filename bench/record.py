"""The one place where figures are kept: `bench/results/NAME.json`, from which `scripts/figures` fills the documents.

A result says what was run, by which build, where and when, the measured `rows`, and the `texts` that documents show of them.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"


def machine() -> str:
    """Processor and number of cores."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text()) if info.exists() else []
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def build() -> dict:
    """Version and commit of the code that is measured."""
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return {"version": version, "commit": commit}


def write(name: str, command: str, rows: list, texts: dict[str, str], packages: tuple[str, ...] = (), notes: str = "") -> Path:
    """Stores a result, and fills the documents with it."""
    result = {
        "name": name,
        "command": command,
        "date": datetime.date.today().isoformat(),
        "build": build(),
        "machine": machine() + (f"; {notes}" if notes else ""),
        "packages": {package: importlib.metadata.version(package) for package in packages},
        "texts": texts,
        "rows": rows,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    subprocess.run([ROOT / "scripts" / "figures"], check=True)
    return path


def number(value: float, digits: int) -> str:
    """With a true minus sign."""
    return f"{value:.{digits}f}".replace("-", "−")


def spread(values: list[float], digits: int) -> str:
    """Mean and standard deviation over trials; the mean alone of one trial, a dash of none."""
    values = [value for value in values if value is not None]
    if not values:
        return "–"
    mean = sum(values) / len(values)
    if len(values) == 1:
        return number(mean, digits)
    deviation = (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    return f"{number(mean, digits)} ± {number(deviation, digits)}"


def span(values: list[int]) -> str:
    """From the least to the most."""
    least, most = min(values), max(values)
    return f"{least}" if least == most else f"{least} – {most}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines).replace("| --- ", "|---").replace("--- |", "---|")
