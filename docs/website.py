"""Build the site under site/: `make docs`.

The site is made by Zensical (mkdocs.yml is its configuration) from pages that this script gathers under build/:

- the pages of docs/, whose code blocks lose the words that are for the tests (`console random`);
- the tutorials, each with the notebook that is made from it;
- the lecture notes: every page in docs/notes/ has its place in the navigation;
- the API reference (docs/reference.py) and the changelog.

A link that leads nowhere, a picture that is missing or a public name without an entry fails the build.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

DOCS = Path(__file__).parent
ROOT = DOCS.parent
BUILD, SITE = ROOT / "build", ROOT / "site"
NOTES = "notes/*.md"
"""What stands in the navigation for all lecture notes."""

WORDS = re.compile(r"^( *```[a-z]+) [a-z ]+$", re.MULTILINE)
DRAWING = re.compile(r"^!\[[^\]]*\]\((theme/[\w.-]+\.svg)\)$", re.MULTILINE)
FENCE = re.compile(r"^```(?P<language>[a-z]+)[a-z ]*\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)


def pages() -> dict[str, str]:
    """The Markdown of every page of the site, by its path."""
    import reference

    texts = {str(path.relative_to(DOCS)): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
    for path in texts:
        if path.startswith("tutorials/"):
            texts[path] = _with_download(path, texts[path])
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return {path: for_site(text) for path, text in texts.items()} | {"changelog.md": changelog} | reference.pages()


def for_site(text: str) -> str:
    """A page with fences that the site understands, and with its drawings inside, where they follow dark mode."""
    text = WORDS.sub(r"\1", text).replace("\n```output\n", "\n```text\n")
    return DRAWING.sub(lambda found: (DOCS / found[1]).read_text(encoding="utf-8").strip(), text)


def notebook(text: str) -> dict[str, Any]:
    """A page as a Jupyter notebook: its code in cells, with the output that the page shows; its prose between them.

    >>> made = notebook("# Ask\\n\\n```python\\nprint(1)\\n```\\n\\n```output\\n1\\n```\\n\\nThen stop.\\n")
    >>> [(cell["cell_type"], cell["source"]) for cell in made["cells"]]
    [('markdown', '# Ask'), ('code', 'print(1)'), ('markdown', 'Then stop.')]
    >>> made["cells"][1]["outputs"][0]["text"]
    '1\\n'
    """
    cells: list[dict[str, Any]] = []

    def prose(words: str) -> None:
        words = re.sub(r"<!--.*?-->|^<!--|^-->", "", words, flags=re.MULTILINE | re.DOTALL).strip()
        if words:
            cells.append({"cell_type": "markdown", "source": words})

    def code(source: str) -> None:
        cells.append({"cell_type": "code", "source": source.rstrip(), "outputs": [], "execution_count": None})

    end = 0
    for found in FENCE.finditer(text):
        language, body = found["language"], found["body"]
        if language not in ("python", "console", "output"):
            continue
        prose(text[end : found.start()])
        end = found.end()
        if language == "python":
            code(body)
        elif language == "output":
            cells[-1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": body}]
        else:
            for command in re.findall(r"^\$ ((?:.*\\\n)*.*)$", body, re.MULTILINE):
                code("!" + command)
    prose(text[end:])
    for number, cell in enumerate(cells):
        cell |= {"id": f"cell-{number}", "metadata": {}}
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _with_download(path: str, text: str) -> str:
    """A tutorial with a link to its notebook under its title."""
    title, _, rest = text.partition("\n")
    return f"{title}\n\n[Download this page as a notebook]({Path(path).stem}.ipynb){{ .notebook }}\n{rest}"


def configuration() -> dict[str, Any]:
    """What Zensical reads: mkdocs.yml with the lecture notes that there are, and with the places under build/."""
    import yaml

    settings: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    settings["nav"] = list(_with_notes(settings["nav"]))
    settings |= {"docs_dir": "docs", "site_dir": "site"}
    settings["theme"]["custom_dir"] = str(DOCS / "theme")
    python = next(each["mkdocstrings"] for each in settings["plugins"] if "mkdocstrings" in each)["handlers"]["python"]
    python["paths"] = [str(ROOT / path) for path in python["paths"]]
    python["options"]["extensions"] = [str(ROOT / path) for path in python["options"]["extensions"]]
    return settings


def _with_notes(nav: list[Any]) -> Iterator[Any]:
    for entry in nav:
        (name, place), *_ = entry.items()
        if isinstance(place, list):
            if inner := list(_with_notes(place)):
                yield {name: inner}
        elif place == NOTES:
            found = sorted(DOCS.glob(NOTES), key=lambda path: (path.stem != "index", path.name))
            yield from (str(path.relative_to(DOCS)) for path in found)
        else:
            yield entry


def gather() -> Path:
    """Write everything that the site is made of; gives the configuration file."""
    import yaml

    shutil.rmtree(BUILD / "docs", ignore_errors=True)
    for path, text in pages().items():
        place = BUILD / "docs" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    for path in sorted((DOCS / "tutorials").glob("*.md")):
        made = json.dumps(notebook(path.read_text(encoding="utf-8")), ensure_ascii=False, indent=1)
        (BUILD / "docs" / "tutorials" / f"{path.stem}.ipynb").write_text(made + "\n", encoding="utf-8")
    for path in [each for ending in ("png", "svg") for each in DOCS.rglob(f"*.{ending}")]:
        if "theme" not in path.parts:
            place = BUILD / "docs" / path.relative_to(DOCS)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    from deniable.explaining.svg import dark_rules

    (BUILD / "docs" / "pictures.css").write_text(dark_rules('[data-md-color-scheme="slate"]') + "\n", encoding="utf-8")
    file = BUILD / "mkdocs.yml"
    file.write_text(yaml.safe_dump(configuration(), allow_unicode=True, sort_keys=False), encoding="utf-8")
    return file


class _Anchors(HTMLParser):
    """The ids of a page, and what it links to and loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if name in ("href", "src") and value:
                self.links.add(value)


def broken_links(site: Path) -> list[str]:
    """Every link of the written site that leads nowhere inside it, and everything that it would load from elsewhere."""
    read = {path: _Anchors(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    wrong = []
    for page, anchors in read.items():
        if page.name == "404.html":  # its links begin at the root, wherever that is
            continue
        for link in sorted(anchors.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            fragment = unquote(parts.fragment)
            if not target.exists() or (fragment and target in read and fragment not in read[target].ids):
                wrong.append(f"{page.relative_to(site)}: {link}")
    return wrong


def main() -> int:
    """Build, then check what was written."""
    import reference

    file = gather()
    shutil.rmtree(SITE, ignore_errors=True)
    done = subprocess.run([Path(sys.executable).with_name("zensical"), "build", "--strict", "-f", file], check=False)
    if done.returncode:
        return done.returncode
    shutil.move(BUILD / "site", SITE)
    wrong = [f"leads nowhere: {link}" for link in broken_links(SITE)] + reference.missing(SITE)
    for line in wrong:
        sys.stderr.write(line + "\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
