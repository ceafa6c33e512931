"""Prepares the data of `anabranch experiment planes`: a line for each flight, and the flights themselves.

    python bench/planes.py POSITIONS.csv OUT

POSITIONS.csv has the columns flight, longitude, latitude (degrees), each flight's positions in the order of time. The Python
package `traffic` has such flights in `traffic.data.samples` (`switzerland` is one day over Switzerland). Writes OUT/train.npy and
OUT/test.npy, a row for each flight: direction (two numbers of length 1, the way it flew) and signed offset of the line that fits
it best, in degrees of latitude around the centre of all positions; and OUT/tracks.csv with the flights of train.npy.
"""

import csv
import sys
from pathlib import Path

import numpy as np

HELD_OUT = 0.1
SHORTEST = 10


def main(positions: str, out: str) -> None:
    flights: dict[str, list[tuple[float, float]]] = {}
    with open(positions, newline="") as file:
        for row in csv.DictReader(file):
            flights.setdefault(row["flight"], []).append((float(row["longitude"]), float(row["latitude"])))
    tracks = [np.array(track) for track in flights.values() if len(track) >= SHORTEST]
    centre = np.concatenate(tracks).mean(axis=0)
    scale = np.array([np.cos(np.radians(centre[1])), 1.0])
    rows = np.array([line((track - centre) * scale) for track in tracks])
    order = np.random.default_rng(0).permutation(len(rows))
    test, train = np.split(order, [round(HELD_OUT * len(rows))])
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "train.npy", rows[train].astype("f4"))
    np.save(folder / "test.npy", rows[test].astype("f4"))
    with open(folder / "tracks.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["flight", "longitude", "latitude"])
        for number, ix in enumerate(train):
            writer.writerows([number, f"{x:.5f}", f"{y:.5f}"] for x, y in tracks[ix][::3])


def line(track: np.ndarray) -> list[float]:
    """Direction and offset of the line with the least sum of squared distances."""
    mean = track.mean(axis=0)
    direction = np.linalg.svd(track - mean, full_matrices=False)[2][0]
    if direction @ (track[-1] - track[0]) < 0:
        direction = -direction
    normal = np.array([-direction[1], direction[0]])
    return [*direction, normal @ mean]


if __name__ == "__main__":
    main(*sys.argv[1:])
