"""The parts of the site: tutorials as notebooks, pages for the site, links that lead somewhere, measured figures."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("website", ROOT / "docs" / "website.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


website = _script()


def test_there_are_five_tutorials() -> None:
    assert [path.stem for path in TUTORIALS] == ["ask", "audit", "publish", "train", "transformer"]


@pytest.mark.parametrize("page", TUTORIALS, ids=[path.stem for path in TUTORIALS])
def test_a_notebook_runs_what_its_page_runs(page: Path) -> None:
    """The pages run in test_examples.py; the notebook has the same code in the same order."""
    text = page.read_text(encoding="utf-8")
    made = website.notebook(text)
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])
    cells = [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"]
    written = [body.rstrip() for body in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]
    assert [cell for cell in cells if not cell.startswith("!")] == written
    commands = re.findall(r"^\$ (deniable .*|cat .*)$", text, re.MULTILINE)
    assert [cell[1:] for cell in cells if cell.startswith("!")] == commands
    prose = "".join(cell["source"] for cell in made["cells"] if cell["cell_type"] == "markdown")
    assert "<!--" not in prose
    assert "-->" not in prose


def test_words_for_the_tests_are_not_on_the_site() -> None:
    assert website.for_site("```console random\n$ x\n```\n\n```output random\n1\n```\n") == (
        "```console\n$ x\n```\n\n```text\n1\n```\n"
    )


def test_a_drawing_is_put_into_its_page() -> None:
    assert '<svg xmlns="http://www.w3.org/2000/svg"' in website.for_site("![Visits](theme/answer.svg)\n")


def test_every_lecture_note_is_in_the_navigation_after_their_index() -> None:
    nav = list(website._with_notes([{"Notes": [{"Pages": "notes/*.md"}]}, {"Home": "index.md"}]))
    pages = sorted(str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs" / "notes").glob("*.md"))
    assert nav == [
        {"Notes": ["notes/index.md", *(page for page in pages if "index" not in page)]},
        {"Home": "index.md"},
    ]


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "index.html").write_text('<p id="x">', encoding="utf-8")
    (tmp_path / "index.html").write_text(
        '<a href="a/#x">1</a><a href="a/#y">2</a><a href="b/">3</a><img src="c.png"><a href="https://example.org">5</a>',
        encoding="utf-8",
    )
    assert website.broken_links(tmp_path) == ["index.html: a/#y", "index.html: b/", "index.html: c.png"]


def test_the_figures_of_the_home_page_are_those_of_the_comparison() -> None:
    """test_comparison.py compares those with the results of the benchmarks."""
    home = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    table = home[home.index("## Measured") : home.index("</div>", home.index("## Measured"))]
    figures = set(re.findall(r"\d+\.\d+", table))
    measured = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    assert len(figures) >= 8
    assert sorted(figures - set(re.findall(r"\d+\.\d+", measured))) == []
