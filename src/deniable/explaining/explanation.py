"""The answer of `explain`: sections of plain sentences, the odds behind them, printed or shown in a notebook."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from deniable._escapes import escape_html, printable
from deniable.explaining.labels import ENGLISH_LABELS, Labels
from deniable.explaining.odds import Odds

_WIDTH = 100


@dataclass(frozen=True)
class Section:
    """A heading and its sentences."""

    heading: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """What was explained, in sections; `odds` is what an icon array draws."""

    title: str
    sections: tuple[Section, ...]
    odds: Odds
    labels: Labels = ENGLISH_LABELS
    """The words of its picture."""

    def __repr__(self) -> str:
        return str(self)  # what a shell shows

    def __str__(self) -> str:
        blocks = [printable(self.title)]
        for section in self.sections:
            sentences = map(printable, section.sentences)
            lines = [textwrap.fill(s, _WIDTH, initial_indent="  ", subsequent_indent="  ") for s in sentences]
            blocks.append("\n".join([printable(section.heading), *lines]))
        return "\n\n".join(blocks)

    def to_plain(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            "title": self.title,
            "sections": [{"heading": s.heading, "sentences": list(s.sentences)} for s in self.sections],
            "odds": self.odds._asdict(),
        }

    def to_html(self) -> str:
        """The sections as HTML, without styles: a page or a notebook brings its own."""
        parts = []
        for section in self.sections:
            parts.append(f"<h3>{escape_html(section.heading)}</h3>")
            parts.extend(f"<p>{escape_html(sentence)}</p>" for sentence in section.sentences)
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        from deniable.explaining.icons import icon_array
        from deniable.explaining.svg import render

        return (
            f"<h2>{escape_html(self.title)}</h2>\n{self.to_html()}\n{render(icon_array(self.odds, labels=self.labels))}"
        )
