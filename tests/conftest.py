"""What holds for every test: reproducible hypothesis runs, and skips that cannot hide.

A test may skip only because something is missing from the machine, and then its reason is the line that installs it:

    pytest.skip("needs Java; run: apt-get install default-jre-headless")

In CI (`CI=true`) everything is installed by `.ci/run`, so a skip there is a failure, unless its reason contains an
entry of `ALLOWED_IN_CI`. Anywhere, a skip without an install line is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.postgres import Server

# One thread each: the workers of pytest have a core each, and threads that wait for one another only heat it.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
# Tests start many processes: what the first of them compiles is kept for the others.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

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


@pytest.fixture(scope="session")
def postgres() -> Generator[Server]:
    """A PostgreSQL server, one for each worker of pytest; `postgres.database()` is a new database of it."""
    from tests.postgres import running

    with running() as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Generator[Any]:
    """A local Spark. Tests that use it are of one group, so that one worker of pytest starts Java, once:

    pytestmark = pytest.mark.xdist_group("spark")
    """
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs Java; run: apt-get install default-jre-headless")
    sql = pytest.importorskip("pyspark.sql", reason="needs pyspark; run: pip install 'deniable[spark]'")
    builder = sql.SparkSession.builder.master("local[1]").appName("tests")
    for setting, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        # Small tables: time goes into plans and compilation, not into rows.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "America/New_York",  # a session's own zone must not matter
    }.items():
        builder = builder.config(setting, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a worker: Debian's chromium, driven by playwright."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("a browser is missing; install it: apt-get install chromium")
    with sync_playwright() as driver:
        found = driver.chromium.launch(
            executable_path=path,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
        )
        yield found
        found.close()
