"""Stores the table of the quality bench and draws the pictures of docs/quality.md."""

from __future__ import annotations

from pathlib import Path

import pictures
import record
import tables


def write(results: list[dict], binary: Path, docs: Path) -> None:
    """The result and its pictures."""
    folder = docs / "quality"
    folder.mkdir(parents=True, exist_ok=True)
    made = [result for result in results if result["draws"][0]["bounds"] and result["case"] != "2d-true-prior"]
    found = [result for result in results if not result["draws"][0]["bounds"]]
    pictures.maps([r for r in made if r["case"] == "2d"], binary, folder / "plane.svg", 1, 5.5)
    pictures.shortfall(made, folder / "shortfall.svg")
    pictures.maps(found, binary, folder / "real.png", 4, 2.6)
    pictures.against_components(found, folder / "components.svg")
    unchecked = [fit for result in results for draw in result["draws"] for fit in draw["ours"].values() if not fit["checked"]]
    if unchecked:
        raise AssertionError(f"{len(unchecked)} densities were not computed a second time")
    record.write("quality", "make bench-quality DATA=DIR", results, {"table": tables.markdown(results).strip()}, ("scikit-learn", "numpy"))
