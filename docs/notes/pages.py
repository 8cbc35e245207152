"""The pages under docs/notes: one per lecture, and an index with every erratum.

    python -m docs.notes.pages

writes them again. A test compares them with what this module makes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from docs.notes.items import DIFFERS, Item, Lecture, Verdict
from docs.notes.lecture_000 import LECTURE as LECTURE_000
from docs.notes.lecture_001 import LECTURE as LECTURE_001
from docs.notes.lecture_002 import LECTURE as LECTURE_002
from docs.notes.lecture_003 import LECTURE as LECTURE_003
from docs.notes.lecture_004 import LECTURE as LECTURE_004

FOLDER = Path(__file__).parent
LECTURES = (LECTURE_000, LECTURE_001, LECTURE_002, LECTURE_003, LECTURE_004)
SIGNS = {"faithful": "faithful", "differs": "**differs**", "partial": "*partial*", "left out": "*left out*"}
WORDS = {"differs": "Erratum", "partial": "What is missing", "left out": "Left out, because"}


@cache
def pages() -> dict[str, str]:
    """Every file of the folder that is generated, by name."""
    texts = {f"{lecture.number}.md": "\n".join(_page(lecture)) for lecture in LECTURES}
    texts["index.md"] = "\n".join(_index())
    for lecture in LECTURES:
        for number, item in enumerate(lecture.items(), 1):
            if item.picture is not None:
                texts[_picture_name(lecture, number)] = item.picture().rstrip("\n") + "\n"
    return texts


def anchor(number: int, item: Item) -> str:
    """The name of an item on its page: the lecture's own number where it has one."""
    numbered = re.match(
        r"((definition|lemma|theorem|proposition|corollary|remark|footnote) [\d.]+|\(\d+\))", item.place, re.I
    )
    return re.sub(r"[^a-z0-9]+", "-", numbered[0].lower()).strip("-") if numbered else f"item-{number}"


def count_verdicts() -> Counter[Verdict]:
    """How many items have each verdict."""
    return Counter(item.verdict for lecture in LECTURES for item in lecture.items())


def _page(lecture: Lecture) -> Iterator[str]:
    yield f"# {lecture.number}: {lecture.title}"
    yield ""
    yield lecture.about
    yield ""
    yield "Numbers under *ours* are computed when this page is built. Code is under `deniable.`, tests under `tests/`."
    yield ""
    yield "| | in the lecture | about | verdict |"
    yield "|---|---|---|---|"
    for number, item in enumerate(lecture.items(), 1):
        link = f"#{anchor(number, item)}"
        yield f"| [{number}]({link}) | [{item.place}]({link}) | {item.title} | {SIGNS[item.verdict.value]} |"
    number = 0
    for section in lecture.sections:
        yield ""
        yield f"## {section.heading}"
        for item in section.items:
            number += 1
            yield ""
            yield from _entry(lecture, number, item)
    yield ""


def _entry(lecture: Lecture, number: int, item: Item) -> Iterator[str]:
    yield f'### <a id="{anchor(number, item)}"></a>{number}. {item.place}: {item.title}'
    yield ""
    yield item.says
    yield ""
    if item.picture is not None:
        yield f"![{item.title}]({_picture_name(lecture, number)})"
        yield ""
    if item.printed:
        yield f"* Printed: {item.printed}"
    if item.ours is not None:
        yield f"* Ours: {item.ours()}"
    sign = SIGNS[item.verdict.value]
    yield f"* Verdict: {sign}. {WORDS[item.verdict.value]}: {item.note}" if item.note else f"* Verdict: {sign}."
    if item.code:
        yield f"* Code `{item.code}`, test `{item.test}`"


def _picture_name(lecture: Lecture, number: int) -> str:
    return f"{lecture.number}-{number}.svg"


def _index() -> Iterator[str]:
    counts = count_verdicts()
    yield "# The lecture notes, item by item"
    yield ""
    yield (
        "deniable grew out of five lecture notes. Each page below takes one of them in its own order: what it says, "
        "the number it prints, the number the code gives, the erratum if there is one, the function and the test. Find "
        "a statement by its number in the table at the top of its lecture's page."
    )
    yield ""
    yield "| lecture | items | " + " | ".join(verdict.value for verdict in Verdict) + " |"
    yield "|---|---|" + "---|" * len(Verdict)
    for lecture in LECTURES:
        own = Counter(item.verdict for item in lecture.items())
        cells = " | ".join(str(own[verdict]) for verdict in Verdict)
        yield f"| [{lecture.number}: {lecture.title}]({lecture.number}.md) | {sum(own.values())} | {cells} |"
    yield f"| all | {sum(counts.values())} | " + " | ".join(str(counts[verdict]) for verdict in Verdict) + " |"
    yield ""
    yield (
        "*Faithful*: the code does what the lecture says. *Differs*: the lecture is wrong, and the code does what is "
        "right. *Partial* and *left out* have their reason beside them."
    )
    yield ""
    yield "## All errata"
    for lecture in LECTURES:
        yield ""
        yield f"### {lecture.number}"
        yield ""
        yield "| where | printed | right |"
        yield "|---|---|---|"
        for number, item in enumerate(lecture.items(), 1):
            if item.verdict is DIFFERS:
                place = f"[{item.place}: {item.title}]({lecture.number}.md#{anchor(number, item)})"
                yield f"| {place} | {item.printed} | {item.note} |"
    yield ""


def write_pages() -> None:
    """Write every page, and remove pictures that no item has any more."""
    for old in FOLDER.glob("*.svg"):
        if old.name not in pages():
            old.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages()
