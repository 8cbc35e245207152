"""Progress: a bar on a terminal that was asked for, nothing elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from deniable.learning import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_silence_unless_asked_for_and_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress.tracker("fit", progress=True) is progress.silent  # pytest's stderr is no terminal
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert progress.tracker("fit", progress=False) is progress.silent


def test_a_terminal_sees_every_step_and_the_label(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert list(progress.tracker("LinearSVC, sgd", progress=True)(range(4))) == [0, 1, 2, 3]
    assert "LinearSVC, sgd" in screen.getvalue()
