"""The card of a model: what was promised, by which plan, and which row of which ledger paid for it.

Markdown with the heading that the Hugging Face Hub reads. All of it is public.

>>> from deniable.deep import Plan
>>> plan = Plan(size=1000, batch=100, steps=10, clip=1.0, noise_multiplier=1)
>>> card = model_card(Progress(10, plan), name="Prices").splitlines()
>>> card[:4], card[5]
(['---', 'library_name: "pytorch"', 'tags:', '- differential-privacy'], '')
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from deniable._escapes import escape_markdown, fence
from deniable.deep.progress import Progress
from deniable.errors import InvalidArgument


def model_card(
    progress: Progress, *, name: str, about: str = "", license: str | None = None, library: str = "pytorch"
) -> str:
    """The card of a privately trained model, as Markdown in the form of the Hugging Face Hub.

    Args:
        progress: Where its run stands: `trainer.progress`.
        name: What the model is called.
        about: A sentence on what it is for.
        license: The license of the weights, as the Hub writes it: "apache-2.0".
        library: The library that loads it, as the Hub writes it: "pytorch" or "transformers".
    """
    for word, value in (("name", name), ("about", about), ("license", license or ""), ("library", library)):
        if not isinstance(value, str):
            raise InvalidArgument(word, value, "text")
    return "\n".join([*_heading(license, library), f"# {escape_markdown(name)}", "", *_body(progress, about)]) + "\n"


def _heading(license: str | None, library: str) -> Iterator[str]:
    yield "---"
    yield f"library_name: {json.dumps(library)}"
    if license is not None:
        yield f"license: {json.dumps(license)}"
    yield from ("tags:", "- differential-privacy", "---", "")


def _body(progress: Progress, about: str) -> Iterator[str]:
    if about:
        yield from (escape_markdown(about), "")
    plan, told = progress.plan, progress.plan.describe()
    yield from ("## Privacy", "", escape_markdown(str(told.guarantee)), "")
    if not progress.secure:
        yield "**The noise came from a seeded generator. Whoever knows the seed can take it away:"
        yield from ("this model is for tests.**", "")
    yield from ("| of the run | |", "|---|---|")
    taken = f"{progress.step} of {progress.steps}; the promise is that of all of them"
    for pair in (*told.facts, ("taken", taken), ("ledger", _row(progress))):
        yield "| " + " | ".join(escape_markdown(each).replace("|", "\\|") for each in pair) + " |"
    yield from ("", "The promise is about the training data of this run. It does not cover weights that the run began")
    yield "with, a vocabulary or settings that were chosen by looking at the same data, or scores computed on them."
    yield from ("", "## The plan", "", *fence(json.dumps(plan.to_dict(), indent=1), "json"))


def _row(progress: Progress) -> str:
    row = progress.charge
    return "charged to none" if row is None else f"run {progress.run}, row {row.seq}, {row.hash}"
