"""The README's example prints what the README says."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_example_prints_what_it_says(capsys):
    match = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", README.read_text(), re.DOTALL)
    assert match is not None
    code, expected = match.groups()
    exec(compile(code, str(README), "exec"), {})
    assert capsys.readouterr().out == expected


def test_links_lead_to_files():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text()):
        assert (README.parent / target).exists(), target
