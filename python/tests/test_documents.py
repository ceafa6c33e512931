"""The Python that README.md of the repository shows: a line that is an expression with a comment behind it has that value."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def blocks():
    text = (ROOT / "README.md").read_text()
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("block", blocks())
def test_a_block_does_what_it_says(block):
    names, checked = {}, 0
    for statement in ast.parse(block).body:
        source = ast.get_source_segment(block, statement)
        comment = block.splitlines()[statement.end_lineno - 1].partition("#")[2].strip()
        if isinstance(statement, ast.Expr) and comment:
            assert repr(eval(source, names)) == comment
            checked += 1
        else:
            exec(source, names)
    assert checked


def test_there_are_blocks():
    assert blocks()
