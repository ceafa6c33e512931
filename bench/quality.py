"""Measures how good the fitted mixtures are, next to scikit-learn's variational mixture on the same files.

`make bench-quality` runs everything and stores bench/results/quality.json, which docs/quality.md shows. While tuning:

    python bench/quality.py --case 20d-overlapping --no-rival --binary target/release/anabranch

Held-out rows are only scored. Nothing is chosen by them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import ours
import rival
import score
import tables
from cases import SYNTHETIC, Data, synthetic
from real import REAL, real

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "quality"
TRUE_PRIOR = ["--prior-mean", "0", "--prior-kappa", "0.001", "--prior-scale", "1", "--prior-dof", "4"]
REFINED = ["--passes", "5"]
POLISHED = ["--polish"]


def rival_settings(components: int, iterations: int, **prior: object) -> dict:
    """What scikit-learn is given; the rest are its defaults."""
    return {"n_components": components, "max_iter": iterations, **prior}


RIVAL_TRUE_PRIOR = {
    "mean_prior": [0.0, 0.0],
    "mean_precision_prior": 1e-3,
    "degrees_of_freedom_prior": 4.0,
    "covariance_prior": [[1.0, 0.0], [0.0, 1.0]],
}


def workers(number: int) -> list[str]:
    """A fixed number of logical workers, with a schedule that the seed decides."""
    return ["--schedule", "deterministic", "--workers", str(number)]


# Name of a case: the data, the number of draws, the rival's settings, and the variants of our flags.
CASES = {
    "2d-true-prior": ("2d", 10, rival_settings(200, 25, **RIVAL_TRUE_PRIOR), {f"W={w}": TRUE_PRIOR + workers(w) for w in (1, 8, 64)}),
    "2d": ("2d", 3, rival_settings(200, 25), {"defaults": [], "refined": REFINED, "polished": POLISHED}),
    "20d-separated": ("20d-separated", 3, rival_settings(100, 40), {"defaults": [], "refined": REFINED, "polished": POLISHED}),
    "20d-overlapping": ("20d-overlapping", 3, rival_settings(100, 40), {"W=1": workers(1), "W=16": workers(16), "refined": REFINED, "polished": POLISHED}),
    "64d": ("64d", 3, rival_settings(100, 40), {"defaults": [], "polished": POLISHED}),
    "mnist": ("mnist", 3, rival_settings(100, 40), {**{f"W={w}": workers(w) for w in (1, 8, 32)}, "refined": REFINED, "polished": POLISHED}),
    "mnist-sorted": ("mnist-sorted", 3, rival_settings(100, 40), {"defaults": [], "refined": REFINED, "polished": POLISHED}),
    **{name: (name, case.draws, rival_settings(case.components, case.iterations), {"defaults": [], "polished": POLISHED}) for name, case in REAL.items() if "mnist" not in name},
}
# Of the synthetic cases, the rival fits the first draw only: a fit takes minutes.
RIVAL_DRAWS = {"2d-true-prior": 1, "2d": 1, "20d-separated": 1, "20d-overlapping": 1, "64d": 1, "mnist": 1, "mnist-sorted": 0, "glove": 1, "flow": 1}


def load(name: str, draw: int, source: Path | None) -> Data | None:
    """The files of one draw."""
    if name in SYNTHETIC:
        return synthetic(name, draw, WORK / "data")
    return real(name, 0 if REAL[name].test else draw, WORK / "data", source)


def bounds(name: str, data: Data, case: str) -> dict:
    """What the truth scores, and what a fit that knows the labels would."""
    if not data.truth:
        return {}
    kept = data.folder / f"bounds-{case}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    truth = score.mean_density(score.normal_mixture(data.test, **data.truth))
    best = score.normal_mixture(data.train, **data.truth).argmax(axis=1)
    made = SYNTHETIC[name]
    prior = None
    if case == "2d-true-prior":
        prior = score.Prior(np.zeros(2), made.kappa, made.degrees, made.scale * np.eye(2))
    known = score.known_labels(data.train, data.train_labels, data.test, prior)
    result = {"truth": truth, "ceiling": known, "best_agreement": score.agreement(data.train_labels, best)}
    kept.write_text(json.dumps(result))
    return result


def run(case: str, options: argparse.Namespace) -> dict | None:
    """All measurements of one case."""
    name, draws, settings, variants = CASES[case]
    draws = min(draws, options.draws or draws)
    result = {"case": case, "draws": [], "failures": {}}
    for draw in range(draws):
        data = load(name, draw, options.data)
        if data is None:
            print(f"{case}: the data are not there (--data DIR)", file=sys.stderr)
            return None
        entry = {"draw": draw, "folder": str(data.folder), "rows": list(data.train.shape), "bounds": bounds(name, data, case), "ours": {}}
        for variant, flags in variants.items():
            model = WORK / "models" / f"{case}-{draw}-{variant.replace('=', '')}.anabranch"
            try:
                entry["ours"][variant] = ours.measure(options.binary, data, draw, flags, model)
            except ours.Missing as missing:
                result["failures"][variant] = str(missing)
        if settings and options.rival and draw < RIVAL_DRAWS.get(case, draws):
            entry["rival"] = rival.measure(name, draw, data, settings, WORK / "rival", options.fresh)
        result["draws"].append(entry)
        for variant, figures in entry["ours"].items():
            print(tables.line(case, draw, variant, figures, entry["bounds"], entry.get("rival")), file=sys.stderr, flush=True)
    return result


def main() -> None:
    """Reads the options, measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=CASES, help="measure this case only; may be repeated")
    parser.add_argument("--data", type=Path, help="folder with the .npy files of the real data that no package brings")
    parser.add_argument("--binary", type=Path, help="the program, instead of building it")
    parser.add_argument("--draws", type=int, help="at most this many draws or splits of each case")
    parser.add_argument("--quick", action="store_true", help="one draw of each case, and no rival")
    parser.add_argument("--no-rival", dest="rival", action="store_false", help="do not run scikit-learn")
    parser.add_argument("--fresh", action="store_true", help="run scikit-learn again instead of taking its results from target/quality/rival")
    parser.add_argument("--write", action="store_true", help="store bench/results/quality.json and draw the pictures of docs/quality.md")
    options = parser.parse_args()
    if options.quick:
        options.draws, options.rival = 1, False
    if options.binary is None:
        subprocess.run(["cargo", "build", "--release", "--locked", "--bin", "anabranch"], cwd=ROOT, check=True)
        options.binary = ROOT / "target" / "release" / "anabranch"
    results = [result for case in options.case or CASES if (result := run(case, options))]
    WORK.mkdir(parents=True, exist_ok=True)
    (WORK / "results.json").write_text(json.dumps(results, indent=1))
    print(tables.markdown(results))
    if options.write:
        import document

        document.write(results, options.binary, ROOT / "docs")


if __name__ == "__main__":
    main()
