"""Writes docs/quality.md: the table, the pictures, and how both were made."""

from __future__ import annotations

from pathlib import Path

import pictures
import tables

HEAD = """# How good the fitted mixtures are

Written by `make bench-quality` (options: `python bench/quality.py --help`). It draws the synthetic data, fits them with the program and with
scikit-learn's `BayesianGaussianMixture` on the same files, and scores both on held-out rows. The real data that no package brings come from
`make bench-quality DATA=DIR`; what is not there is left out.

"""

NOTES = """
## What the figures are

- **dLL**: mean log predictive density of the held-out rows, minus that of the mixture that made them; in nats, 0 is perfect. Where the truth is
  not known, the mean log predictive density itself. **Labels known** is what a fit scores that is told the cluster of each training row: with the true
  prior where that is given, else with the prior that makes the labelled rows most probable. A method that has to find the clusters is not expected to be
  above it.
- **ARI**: adjusted Rand index between the true and the found labels of the training rows. **Best** is that of labels by the true mixture.
- **refined** is `--passes 5`, **polished** is `--polish`: the first 100,000 rows are kept and learned from again when the input ends.
- **Components**: those that hold at least one row. **CPU-s**: processor seconds of the fit, one thread, reading included for ours and not for
  the rival.
- Our figures are means over the draws (synthetic), the splits, or, where there is a test set, the seeds. The rival's are those of the first draw (all
  splits for iris, wine, faithful, digits, letter and shuttle), so compare its dLL, not its density, with ours; on real data, the difference in brackets is over
  the draws that both fitted.
{checked}- The rival is scored in NumPy from its posterior, by the mixture of Student-t densities, because its own `score` is not a predictive density.
- Held-out rows are scored and nothing else. No setting is chosen by them.

## The data

| case | what |
|---|---|
| 2d | 100 clusters in the plane, NIW(0, 0.001, I, 4), weights uniform and normalised; 100,000 rows, 20,000 held out; `numpy.random.default_rng(draw)` |
| 20d-separated | 60 clusters, covariance IW(60, 39·I), mean N(0, Σ/0.25), weights uniform and normalised; 60,000 rows, 10,000 held out |
| 20d-overlapping | 60 clusters, covariance IW(32, 11·I), mean N(0, 0.62²·I), weights Dirichlet(1.5); 60,000 rows, 10,000 held out |
| 64d | 30 clusters, covariance IW(76, 11·I), mean N(0, 0.40²·I), weights Dirichlet(1.5); 20,000 rows, 10,000 held out |
| mnist, mnist-sorted | the 60,000 training digits in 20 principal components (pixels/255), as they come and in the order of the digit; the 10,000 test digits held out |
| glove | 100,000 word vectors in 20 principal components, 8,755 held out |
| flow, shuttle, letter, digits, wine, iris, faithful | a fifth held out, drawn by `default_rng(split)` |
| …-noise | the same with uniform noise on [0, 1) added. The columns of shuttle, letter and digits are whole numbers: a density of them has no upper bound, and whoever puts a component on a constant column wins. With the noise it has |

The rival has K = 200 and 25 iterations in the plane, K = 100 and 40 iterations on the other large data, K = 50 and 100 iterations on digits, and K = 10 and 500
iterations on the small ones, with the defaults for everything else.
"""

CHECKED = """- Our density is computed twice: by the program, and by the same NumPy function from the components and the prior that `inspect --json` prints. The bench
  fails if they differ by more than 1e-6.
"""


def write(results: list[dict], binary: Path, docs: Path) -> None:
    """The document and its pictures."""
    folder = docs / "quality"
    folder.mkdir(parents=True, exist_ok=True)
    made = [result for result in results if result["draws"][0]["bounds"] and result["case"] != "2d-true-prior"]
    found = [result for result in results if not result["draws"][0]["bounds"]]
    pictures.maps([r for r in made if r["case"] == "2d"], binary, folder / "plane.svg", 1, 5.5)
    pictures.shortfall(made, folder / "shortfall.svg")
    pictures.maps(found, binary, folder / "real.svg", 4, 2.6)
    pictures.against_components(found, folder / "components.svg")
    text = HEAD + tables.markdown(results)
    for name, caption in (
        ("shortfall", "First draw of each synthetic case: how far below the true mixture"),
        ("plane", "2-D, first draw: the true clusters (yellow) and the components found with all defaults (blue), at two standard deviations"),
        ("real", "Real data in two columns or the two leading principal directions, with the components found (at most the 400 largest)"),
        ("components", "Real data: from scikit-learn (orange) to anabranch (blue)"),
    ):
        if (folder / f"{name}.svg").exists():
            text += f"\n![{caption}](quality/{name}.svg)\n\n*{caption}.*\n"
    fits = [fit for result in results for draw in result["draws"] for fit in draw["ours"].values()]
    checked = CHECKED if all(fit["checked"] for fit in fits) else ""
    (docs / "quality.md").write_text(text + NOTES.replace("{checked}", checked))
