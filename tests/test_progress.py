"""Progress: a bar on a terminal, a line in a notebook, nothing elsewhere."""

from __future__ import annotations

import contextlib
import io
import re
import sys

import pytest

import deniable as dn
from deniable import _progress as progress
from deniable.auditing import auditor


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


def test_a_notebook_sees_a_line_with_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    assert list(progress.tracker("fit", progress=True)(range(3))) == [0, 1, 2]
    assert screen.getvalue().startswith("\rfit: 0 of 3 ")
    assert "\rfit: 2 of 3, about 0 s left" in screen.getvalue()
    assert screen.getvalue().endswith("\rfit: 3 of 3   \n")


def test_nothing_is_drawn_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress.bar() as update:
        update("train", 1, 2)
    assert screen.getvalue() == ""


def test_a_line_waits_is_written_over_and_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress.line() as update:
        update("audit", 1, 9)
    assert screen.getvalue() == ""  # two seconds have not passed
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with contextlib.suppress(KeyboardInterrupt), progress.line(after=0) as update:
        update("audit", 1, 9)
        raise KeyboardInterrupt
    assert screen.getvalue().startswith("\raudit: 1 of 9, about")
    assert screen.getvalue().endswith(" \r")


def test_an_audit_shows_its_runs_and_the_line_is_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(auditor, "line", lambda: progress.line(after=0))
    count = dn.mechanisms.count(epsilon=1)
    report = dn.audit(count, neighbours=([1], [1, 1]), runs=400, seed=0, replay=False)
    assert report.verdict == "consistent"
    assert re.search(r"\raudit, evidence [-.\d]+, runs: \d+ of 400", screen.getvalue())


def test_a_process_without_a_kernel_is_no_notebook() -> None:
    assert not progress.in_notebook()
