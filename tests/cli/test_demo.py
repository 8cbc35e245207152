"""The demo runs, shows its commands, and ends with a record that verifies and a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def test_the_demo_tells_its_story(run: Callable) -> None:
    ran = run("demo", "--folder", "here")
    assert ran.code == 0
    assert ran.out.count("$ deniable query") == 5
    assert ran.out.count("does not fit") == 1
    assert "with privacy" in ran.out
    assert ran.out.count("consistent with ε ≤ 0.50") == 1
    assert ran.out.count("REFUTED: ε ≤ 0.50") == 1
    assert "What is not promised" in ran.out
    assert "4 rows verified" in ran.out
    page = Path("here", "report.html").read_text(encoding="utf-8")
    assert "LogisticRegression" in page
    assert "consistent" in page
