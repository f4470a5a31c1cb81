"""Building blocks of a self-contained HTML page: text is escaped, nothing is fetched."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape

# Matplotlib's colours become the page's, so that pictures follow its light and dark scheme.
_COLOURS = {
    "#000000": "currentColor",
    "#ffffff": "var(--paper)",
    "#1f77b4": "var(--blue)",
    "#ff7f0e": "var(--orange)",
    "#2ca02c": "var(--green)",
    "#d62728": "var(--red)",
    "#7f7f7f": "var(--grey)",
}

_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c2128; --soft: #57606a;
  --line: #d0d7de; --shade: #f3f5f7; --good: #1a7f37; --bad: #b42318; --blue: #1f6fb4;
  --orange: #c55a00; --green: #1a7f37; --red: #c4281c; --grey: #7f858c; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171c; --ink: #e4e8ed; --soft: #a3acb8;
  --line: #39414c; --shade: #1e232b; --good: #5fd07f; --bad: #ff8f85; --blue: #6bb1f2;
  --orange: #f5a154; --green: #5fd07f; --red: #ff8f85; --grey: #8b939d; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 66rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.4rem 0 .6rem; padding-top: .6rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .4rem; }
p, li { max-width: 44rem; }
p { margin: .5rem 0; }
.lead, caption, figcaption { color: var(--soft); }
.figures { display: grid; gap: .8rem; margin: 1.2rem 0; padding: 0; list-style: none;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 11rem), 1fr)); }
.figures > div { background: var(--shade); border-radius: .5rem; padding: .7rem .9rem; }
.figures dt { color: var(--soft); font-size: .875rem; }
.figures dd { margin: 0; font-size: 1.5rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.figures dd small { display: block; font-size: .8125rem; color: var(--soft); line-height: 1.4; }
.notice { border-left: .3rem solid var(--good); background: var(--shade); padding: .6rem .9rem;
  border-radius: 0 .5rem .5rem 0; max-width: none; }
.notice.warning { border-color: var(--bad); }
.pair { display: grid; gap: 0 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); align-items: start; }
figure { margin: 1rem 0; min-width: 0; }
figure svg { display: block; width: 100%; max-width: 36rem; height: auto; color: var(--ink); }
figure svg text { fill: currentColor; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figcaption, caption { font-size: .875rem; text-align: left; }
figcaption { max-width: 36rem; margin-top: .3rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { padding-bottom: .4rem; }
th, td { padding: .3rem .75rem .3rem 0; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; font-size: .875rem; vertical-align: bottom; }
tbody th { font-weight: 400; }
.number { text-align: right; white-space: nowrap; }
.word { white-space: nowrap; }
.id { overflow-wrap: anywhere; min-width: 11rem; font-size: .875rem;
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.settings { width: 100%; max-width: 36rem; }
.settings th { color: var(--soft); padding-right: 1.5rem; }
.settings td { overflow-wrap: anywhere; }
code { white-space: nowrap; }
.good { color: var(--good); }
.bad { color: var(--bad); }
@media (max-width: 40rem) { .stack thead { position: absolute; clip-path: inset(50%); }
  .stack tr { display: grid; grid-template-columns: 2.2rem 1fr 1fr; gap: 0 .6rem;
    padding: .5rem 0; border-bottom: 1px solid var(--line); }
  .stack th, .stack td { border: 0; padding: 0; text-align: left; min-width: 0; }
  .stack .id { grid-column: 2 / 4; }
  .stack td:nth-child(n+3)::before { content: attr(data-label) ": "; color: var(--soft);
    font-size: .8125rem; }
  .stack td:nth-child(odd) { grid-column: 2; }
  .stack td:last-child { grid-column: 2 / 4; } }
@media print { :root { --paper: #fff; --ink: #000; --soft: #444; --line: #bbb; --shade: #fff;
    --good: #1a7f37; --bad: #b42318; --blue: #1f6fb4; --orange: #c55a00; --green: #1a7f37;
    --red: #c4281c; --grey: #7f858c; color-scheme: light; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  .figures > div { border: 1px solid var(--line); }
  .scroll { overflow: visible; }
  .pair { grid-template-columns: 1fr 1fr; }
  h2, h3 { break-after: avoid; }
  figure, tr, .figures > div, .notice { break-inside: avoid; }
  thead { display: table-header-group; } }
""".strip()

# Nothing but the page's own styles and data may be loaded, whatever an id holds.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, body: str) -> str:
    """Return a whole page.

    Parameters
    ----------
    title : str
        Plain text.
    body : str
        HTML.

    Returns
    -------
    str
    """
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="HSPR">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{_STYLE}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def identifier(text: str) -> str:
    """Return an id that somebody else chose, escaped, with its writing direction kept to itself.

    Parameters
    ----------
    text : str
        Plain text.

    Returns
    -------
    str
        HTML.
    """
    return f"<bdi>{escape(text)}</bdi>"


def section(title: str, body: str) -> str:
    """Return a section with its heading.

    Parameters
    ----------
    title : str
        Plain text.
    body : str
        HTML.

    Returns
    -------
    str
        HTML.
    """
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


def settings_table(caption: str, rows: Mapping[str, str]) -> str:
    """Return names and values as a table with row headers.

    Parameters
    ----------
    caption : str
        Plain text.
    rows : mapping of str to str
        Name, as plain text, to value, as HTML.

    Returns
    -------
    str
        HTML.
    """
    lines = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{value}</td></tr>'
        for name, value in rows.items()
    )
    return (
        f'<div class="scroll"><table class="settings"><caption>{escape(caption)}</caption>\n'
        f"<tbody>\n{lines}\n</tbody></table></div>"
    )


def records_table(
    caption: str, columns: Mapping[str, str], records: Sequence[Sequence[str]]
) -> str:
    """Return records as a table whose first column numbers them; it stacks on narrow screens.

    Parameters
    ----------
    caption : str
        Plain text.
    columns : mapping of str to str
        Heading, as plain text, to the class of its cells: "number", "word" or "id".
    records : sequence of sequence of str
        Cells, as HTML.

    Returns
    -------
    str
        HTML.
    """
    head = "".join(
        f'<th scope="col" role="columnheader" class="{kind}">{escape(name)}</th>'
        for name, kind in columns.items()
    )
    body = []
    for first, *cells in records:
        row = [f'<th scope="row" role="rowheader" class="number">{first}</th>']
        for (name, kind), cell in zip(list(columns.items())[1:], cells, strict=True):
            row.append(f'<td role="cell" class="{kind}" data-label="{escape(name)}">{cell}</td>')
        body.append(f"<tr role='row'>{''.join(row)}</tr>")
    lines = "\n".join(body)
    # Stacked rows are no table to a browser any more: the roles say that they are.
    return (
        f'<div class="scroll"><table class="stack" role="table">\n'
        f"<caption>{escape(caption)}</caption>\n"
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead>\n<tbody role="rowgroup">\n'
        f"{lines}\n</tbody></table></div>"
    )


def figure(svg: str, *, key: str, alt: str, caption: str) -> str:
    """Return a picture with its text alternative and caption.

    Parameters
    ----------
    svg : str
        A document of `svg_text`.
    key : str
        Letters that make the picture's ids unique in the page.
    alt : str
        What the picture shows, as plain text.
    caption : str
        How to read it, as plain text.

    Returns
    -------
    str
        HTML.
    """
    picture = svg[svg.index("<svg") :].strip()
    picture = re.sub(r"<style.*?</style>", "", picture, count=1, flags=re.DOTALL)
    tag, rest = picture.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', tag)
    rest = re.sub(r'\bid="', f'id="{key}-', rest)
    rest = re.sub(r'href="#', f'href="#{key}-', rest)
    rest = re.sub(r"url\(#", f"url(#{key}-", rest)
    for colour, name in _COLOURS.items():
        rest = rest.replace(colour, name)
    head = f'<svg role="img" aria-labelledby="{key}-alt" {box.group() if box else ""}>'
    title = f'<title id="{key}-alt">{escape(alt)}</title>'
    return f"<figure>{head}{title}{rest}\n<figcaption>{escape(caption)}</figcaption></figure>"
