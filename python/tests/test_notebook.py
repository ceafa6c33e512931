"""The notebooks in examples/ run and are as short as they say."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", ["clusters.ipynb", "topics.ipynb"])
def test_from_data_to_picture_in_under_twenty_lines(monkeypatch, name):
    # The kernel chooses how pictures are shown.
    monkeypatch.delenv("MPLBACKEND", raising=False)
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    lines = [line for cell in code for line in cell.source.splitlines() if line.strip()]
    assert len(lines) < 20
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    kinds = {kind for cell in code for output in cell.outputs for kind in output.get("data", {})}
    assert "image/png" in kinds
