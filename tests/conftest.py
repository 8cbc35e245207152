"""What holds for every test: reproducible hypothesis runs, and skips that cannot hide.

A test may skip only because something is missing from the machine, and then its reason is the line that installs it:

    pytest.skip("needs Java; run: apt-get install default-jre-headless")

In CI (`CI=true`) everything is installed by `.ci/run`, so a skip there is a failure, unless its reason contains an
entry of `ALLOWED_IN_CI`. Anywhere, a skip without an install line is a failure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator

import hypothesis
import pytest

ALLOWED_IN_CI: tuple[str, ...] = ()
"""Parts of the reasons that may skip in CI: hardware that a CI machine does not have."""

INSTALL_LINE = re.compile(r"\b(apt-get install|pip install|make) \S")

hypothesis.settings.register_profile("test", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("soak", deadline=None, max_examples=2000, print_blob=True)


def pytest_configure(config: pytest.Config) -> None:
    """`make soak` explores; every other run repeats itself exactly."""
    hypothesis.settings.load_profile("soak" if config.option.markexpr == "soak" else "test")


def unexpected(reason: str) -> str | None:
    """Why a skip with this reason is a failure; None when it may stand."""
    if os.environ.get("CI") == "true":
        if any(allowed in reason for allowed in ALLOWED_IN_CI):
            return None
        return f"skipped in CI, where everything is installed: {reason}"
    if INSTALL_LINE.search(reason):
        return None
    return f"skipped without the line that installs what is missing: {reason}"


def _judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn an unexpected skip into a failure, in place. An expected failure (strict) is not a skip."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    complaint = unexpected(reason.removeprefix("Skipped: "))
    if complaint:
        report.outcome = "failed"
        report.longrepr = complaint


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _judge(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _judge(report)
    return report
