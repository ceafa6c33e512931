"""Draws what scripts/bench-stream and scripts/bench-threads measured.

    python bench/curves.py target/bench-stream/stream.csv docs/performance/stream.svg
    python bench/curves.py target/bench-threads/threads.csv docs/performance/threads.svg

A third word stores the curve of a stream in fifths as bench/results/WORD.json, a fourth the command that it says it is from.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import record
from pictures import GREY, OURS, RIVAL, plt, save


def read(path: Path) -> dict[str, list[float]]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def stream(data: dict[str, list[float]]) -> plt.Figure:
    """Rows a second, processor time and memory, million by million."""
    figure, (speed, cpu, memory) = plt.subplots(3, 1, figsize=(5, 4.6), sharex=True)
    millions = [rows / 1e6 for rows in data["rows"]]
    speed.plot(millions, [rate / 1e6 for rate in data["rows_per_second"]], color=OURS)
    speed.set(ylabel="million rows / s", ylim=(0, None))
    cpu.plot(millions, data["cpu_seconds"], color=GREY)
    cpu.set(ylabel="CPU-s / million", ylim=(0, None))
    memory.plot(millions, [held / 1e6 for held in data["rss_bytes"]], color=RIVAL)
    memory.set(xlabel="million rows", ylabel="memory, MB", ylim=(0, None))
    return figure


def threads(data: dict[str, list[float]]) -> plt.Figure:
    """Speed-up by threads, with and without the first minibatch."""
    figure, axes = plt.subplots(figsize=(3.4, 3))
    count = data["threads"]
    axes.plot(count, count, color=GREY, linestyle="--", linewidth=0.8, label="linear")
    axes.plot(count, data["speed_up_of_stream"], color=OURS, marker="o", label="the stream")
    axes.plot(count, data["speed_up"], color=RIVAL, marker="o", label="with the first minibatch")
    axes.set(xlabel="threads", ylabel="speed-up", xlim=(0, None), ylim=(0, None))
    axes.legend(frameon=False)
    return figure


def fifths(data: dict[str, list[float]]) -> tuple[list[list[float]], str]:
    """Processor time for a million rows and the most memory held in each fifth of a stream, and a table of them."""
    n = len(data["rows"])
    rows, lines = [], ["| rows, million | CPU seconds for a million | most memory held, MB |", "|---|--:|--:|"]
    for fifth in range(5):
        part = slice(fifth * n // 5, (fifth + 1) * n // 5)
        end, cpu, held = data["rows"][part][-1] / 1e6, data["cpu_seconds"][part], max(data["rss_bytes"][part]) / 1e6
        rows.append([end, sum(cpu) / len(cpu), held])
        lines.append(f"| up to {end:.0f} | {rows[-1][1]:.2f} | {held:.1f} |")
    return rows, "\n".join(lines)


def main(source: str, target: str, name: str | None = None, command: str = "scripts/bench-stream") -> None:
    data = read(Path(source))
    figure = threads(data) if "threads" in data else stream(data)
    for axes in figure.axes:
        axes.grid(alpha=0.3)
    figure.tight_layout()
    save(figure, Path(target))
    if name:
        rows, table = fifths(data)
        record.write(name, command, rows, {"table": table}, notes="shared with other work")


if __name__ == "__main__":
    main(*sys.argv[1:])
