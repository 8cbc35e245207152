"""The demo runs, shows its commands, and ends with a record that verifies."""

from __future__ import annotations

from collections.abc import Callable


def test_the_demo_tells_its_story(run: Callable) -> None:
    ran = run("demo", "--folder", "here")
    assert ran.code == 0
    assert ran.out.count("$ deniable query") == 5
    assert ran.out.count("does not fit") == 1
    assert "remaining  ε = 0" in ran.out
    assert "3 rows verified" in ran.out
