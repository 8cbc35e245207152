"""The runner of the documentation's examples finds a page that lies."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("examples", Path(__file__).with_name("test_examples.py"))
examples = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
sys.modules["examples"] = examples
spec.loader.exec_module(examples)  # type: ignore[union-attr]

TRUE = {
    "python": "```python\nx = 1\n```\n\nprose\n\n```python\nprint(x + 1)\n```\n```output\n2\n```\n",
    "wildcard": "```python\nprint('from 3 to 9')\n```\n```output\nfrom ... to 9\n```\n",
    "random": "```python\nprint('─' * 9, 'cost:  -12.5,\\n 1')\n```\n```output random\n── cost: 7,\n100\n```\n",
    "console": "```console\n$ echo one\none\n$ echo \\\n    two\ntwo\n$ true\n```\n",
    "fails": "```console fails\n$ echo no >&2; exit 3\nno\n```\n",
    "one folder": "```python\nimport os\nos.mkdir('seen')\n```\n```console\n$ ls -d s*\nseen\n```\n",
    "prose": "```sh\nexit 1\n```\n```json\n{\n```\n",
    "hidden set-up": "<!--\n```python\ny = 5\n```\n-->\n```python\nprint(y)\n```\n```output\n5\n```\n",
}
FALSE = {
    "python": "```python\nprint(2)\n```\n```output\n3\n```\n",
    "a number where none was": "```python\nprint('cost: much')\n```\n```output random\ncost: 7\n```\n",
    "a second line": "```python\nprint('a\\nb')\n```\n```output\na\n```\n",
    "console": "```console\n$ echo one\ntwo\n```\n",
    "a failure not announced": "```console\n$ false\n```\n",
    "a success announced as failure": "```console fails\n$ true\n```\n",
    "output of nothing": "```output\n3\n```\n",
}


@pytest.mark.parametrize("text", TRUE.values(), ids=TRUE.keys())
def test_a_true_page_passes(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    examples.test_page(tmp_path / "page.md", tmp_path, monkeypatch)


@pytest.mark.parametrize("text", FALSE.values(), ids=FALSE.keys())
def test_a_false_page_fails(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    with pytest.raises(AssertionError):
        examples.test_page(tmp_path / "page.md", tmp_path, monkeypatch)


def test_a_traceback_names_the_line_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nx = 1\n1 / 0\n```\n", encoding="utf-8")
    with pytest.raises(ZeroDivisionError) as caught:
        examples.test_page(page, tmp_path, monkeypatch)
    assert caught.traceback[-1].lineno + 1 == 5
