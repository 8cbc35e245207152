"""The shell of a page: styles for light, dark, print and phone; a policy that lets it load nothing; small pieces.

A page needs no network, no script and no font.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deniable._escapes import escape_html
from deniable.explaining.figures import Figure
from deniable.explaining.svg import dark_rules, render

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

STYLE = (
    """
:root { color-scheme: light dark; --ink: #1b1b1f; --soft: #4a4e59; --ground: #fff; --line: #d5d7de; --card: #eef3fa;
  --alarm: #fbe9e2; --link: #0b4f96; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececf1; --soft: #b9bdc9; --ground: #16171b; --line: #3a3d47; --card: #1f2a3a; --alarm: #432418;
    --link: #8fc0f5; }
}
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--ground); margin: 0 auto;
  padding: 1.5rem; max-width: 52rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .4rem; border-top: 1px solid var(--line); padding-top: 1.2rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; }
p, li, dd { margin: .4rem 0; overflow-wrap: anywhere; }
.lead { font-size: 1.15rem; }
.promise { font-size: 1.1rem; font-weight: 600; background: var(--card); padding: .8rem 1rem; border-radius: .4rem; }
.refuted { background: var(--alarm); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line); }
td.event { font-family: ui-monospace, monospace; font-size: .8rem; min-width: 14rem; overflow-wrap: anywhere; }
td.short { white-space: nowrap; }
td.purpose { min-width: 9rem; overflow-wrap: anywhere; }
td.by { min-width: 8rem; }
figure { margin: 1rem 0; padding: .5rem; text-align: center; border-radius: .4rem; }
details { margin: 1rem 0; border: 1px solid var(--line); border-radius: .4rem; padding: .2rem 1rem; }
details details { padding: 0 .6rem; margin: .3rem 0; }
summary { cursor: pointer; padding: .5rem 0; font-weight: 600; }
details details summary { font-weight: 400; padding: .2rem 0; }
summary:focus-visible, a:focus-visible, .wide:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
code { font-family: ui-monospace, monospace; font-size: .85rem; overflow-wrap: anywhere; }
dt { font-weight: 600; margin-top: .8rem; }
dd { margin-left: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem; margin: 1rem 0; }
.tile { border: 1px solid var(--line); border-radius: .4rem; padding: .7rem 1rem; }
.tile strong { display: block; font-size: 1.3rem; overflow-wrap: anywhere; }
.tile span { color: var(--soft); font-size: .875rem; }
.bar { height: .8rem; border-radius: .4rem; background: var(--line); overflow: hidden; margin-top: 1rem; }
.bar div { height: 100%; background: var(--link); print-color-adjust: exact; }
footer { margin-top: 3rem; color: var(--soft); font-size: .875rem; }
@media print {
  body { max-width: none; padding: 0; }
  details::details-content { content-visibility: visible; display: block; }
  figure, tr { break-inside: avoid; }
}
@media screen and (prefers-color-scheme: dark) {
"""
    + dark_rules("figure")
    + "\n}\n"
)


def page(title: str, *, language: str, main: Iterable[str], footer: str) -> str:
    """A whole page: `main` are pieces of HTML, the other arguments are text."""
    lang, name = escape_html(language), escape_html(title)
    body = "\n".join(piece for piece in main if piece)
    return (
        f'<!doctype html>\n<html lang="{lang}"><head><meta charset="utf-8"><title>{name}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<style>{STYLE}</style></head>\n<body>\n<main>\n<h1>{name}</h1>\n{body}\n</main>\n"
        f"<footer><p>{escape_html(footer)}</p></footer>\n</body></html>\n"
    )


def heading(words: str) -> str:
    """The heading of a section."""
    return f"<h2>{escape_html(words)}</h2>"


def paragraph(words: str, *, kind: str = "") -> str:
    """One paragraph."""
    return f"<p{f' class={kind!r}' if kind else ''}>{escape_html(words)}</p>"


def bullets(lines: Iterable[str]) -> str:
    """A list; nothing if there is none."""
    items = "".join(f"<li>{escape_html(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def fold(summary: str, pieces: Iterable[str]) -> str:
    """A part that opens when it is asked for, by mouse or keyboard, without a script."""
    inner = "\n".join(piece for piece in pieces if piece)
    return f"<details><summary>{escape_html(summary)}</summary>\n{inner}\n</details>" if inner else ""


def facts_table(facts: Iterable[tuple[str, str]], *, label: str) -> str:
    """Names and what they are, one per row."""
    rows = "".join(
        f'<tr><th scope="row">{escape_html(name)}</th><td>{escape_html(text)}</td></tr>' for name, text in facts
    )
    return f'<div class="wide" tabindex="0" role="region" aria-label="{escape_html(label)}"><table>{rows}</table></div>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, kinds: Sequence[str], label: str) -> str:
    """A table with a head; `kinds` are the classes of its columns."""
    names = "".join(f'<th scope="col">{escape_html(name)}</th>' for name in head)
    lines = "".join(
        "<tr>"
        + "".join(f'<td class="{kind}">{escape_html(cell)}</td>' for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{escape_html(label)}">'
        f"<table><thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table></div>"
    )


def questions(pairs: Iterable[tuple[str, str]]) -> str:
    """Questions and their answers."""
    items = "".join(f"<dt>{escape_html(asked)}</dt><dd>{escape_html(answer)}</dd>" for asked, answer in pairs)
    return f"<dl>{items}</dl>" if items else ""


def picture(figure: Figure) -> str:
    """A figure as inline SVG."""
    return f"<figure>{render(figure)}</figure>"
