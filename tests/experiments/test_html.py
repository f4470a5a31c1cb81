"""The building blocks of the page: escaped text, unique ids, the page's own colours."""

from __future__ import annotations

import pytest

from hspr.experiments.html import figure, identifier, page, records_table, section, settings_table

NASTY = "<script>alert('x')</script>&\"\u202e"
SVG = (
    '<?xml version="1.0"?>\n<!DOCTYPE svg PUBLIC "x" "http://www.w3.org/svg11.dtd">\n'
    '<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="10pt" viewBox="0 0 10 5" '
    'xmlns="http://www.w3.org/2000/svg"><defs><style type="text/css">*{x: y}</style></defs>'
    '<g id="p1" clip-path="url(#c1)" style="stroke: #1f77b4; fill: #ffffff"><use xlink:href="#m1"/>'
    "<text>a &lt; b</text></g></svg>\n"
)


def test_text_is_escaped_everywhere() -> None:
    blocks = [
        identifier(NASTY),
        section(NASTY, ""),
        settings_table(NASTY, {NASTY: ""}),
        records_table(NASTY, {"#": "number", NASTY: "word"}, [["1", ""]]),
        page(NASTY, ""),
        figure(SVG, key="a", alt=NASTY, caption=NASTY),
    ]
    for block in blocks:
        assert "<script" not in block
        assert "&lt;script&gt;" in block


def test_identifier_keeps_its_writing_direction_to_itself() -> None:
    assert identifier("a\u202eb") == "<bdi>a\u202eb</bdi>"


def test_figure_is_inline_named_and_without_addresses() -> None:
    html = figure(SVG, key="path", alt="a line", caption="read it")
    assert "http" not in html
    assert '<svg role="img" aria-labelledby="path-alt" viewBox="0 0 10 5">' in html
    assert '<title id="path-alt">a line</title>' in html
    assert 'id="path-p1"' in html
    assert "url(#path-c1)" in html
    assert 'href="#path-m1"' in html
    assert "<style" not in html
    assert "width=" not in html
    assert "stroke: var(--blue); fill: var(--paper)" in html
    assert "<text>a &lt; b</text>" in html
    assert "<figcaption>read it</figcaption>" in html


def test_records_table_names_rows_columns_and_cells() -> None:
    html = records_table("caption", {"#": "number", "Task": "id"}, [["1", "x"], ["2", "y"]])
    assert html.count('scope="col"') == 2
    assert html.count('scope="row"') == 2
    assert html.count('data-label="Task"') == 2
    with pytest.raises(ValueError, match="shorter"):
        records_table("caption", {"#": "number", "Task": "id"}, [["1"]])


def test_page_forbids_every_request() -> None:
    html = page("title", "body")
    assert html.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert "default-src 'none'" in html
    assert "<title>title</title>" in html
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in html
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
