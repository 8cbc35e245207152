"""The examples of docs/query.md and docs/accuracy.md, asked of a service: only the line that opens the session changes.

The ledger that a page creates is the curator's. What a page prints is compared with what it shows, as tests/docs does.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import deniable as dn
from deniable.errors import DeniableError, InvalidArgument
from deniable.service.app import make_app
from deniable.service.client import RemoteSession
from deniable.service.curator import Curator
from deniable.service.settings import ServiceSettings
from tests.docs.test_examples import ROOT, blocks, run_python
from tests.service.conftest import AtOnce, Service, ask

CANNOT = {
    # A survey that charges as it goes: it has no plan whose digest could be approved, stored or asked again.
    "session.describe(",
}
OPENS = re.compile(r"^session = dn\.Session\(", re.MULTILINE)


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Any]:
    """Takes the arguments of `dn.Session`; gives what `dn.connect` gives."""
    curators: list[Curator] = []

    def open_session(tables: Any, *, ledger: str, public: Mapping[str, str] | None = None) -> RemoteSession:
        if not isinstance(tables, Mapping):
            tables = {Path(tables).stem: str(folder / tables)}
        places = {}
        for name, table in tables.items():
            places[name] = table if isinstance(table, str) else str(folder / f"{name}.parquet")
            if not isinstance(table, str):
                table.to_parquet(places[name])
        settings = ServiceSettings.of(
            folder, {"ledger": ledger, "tables": places, "public": public or {}, "planning_seconds": 0, "deadline": 0}
        )
        curator = Curator(settings)
        curator.jobs._pool.shutdown()
        curator.jobs._pool = AtOnce()  # type: ignore[assignment]
        curators.append(curator)
        curator.access.add_account("ana", "analyst", password=None, now=time.time())
        token = curator.access.add_token("ana", label="", days=None, now=time.time())[1]
        app = make_app(curator)
        return RemoteSession(lambda *request: ask(app, *request), token)

    yield open_session
    for curator in curators:
        curator.close()


@pytest.mark.parametrize("page", ["query.md", "accuracy.md"])
def test_a_page_asked_of_a_service(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed, asked = None, 0
    left_out: set[str] = set()
    with opened(tmp_path) as connect:
        namespace: dict[str, object] = {"__name__": "__main__", "connect": connect}
        for block in blocks((ROOT / "docs" / page).read_text(encoding="utf-8")):
            cannot = {word for word in CANNOT if word in block.body and block.language == "python"}
            if block.language == "python" and cannot:
                left_out, printed = left_out | cannot, None
            elif block.language == "python":
                body = OPENS.sub("session = connect(", block.body)
                asked += "session." in body or "plan.run" in body
                printed = run_python(type(block)(block.language, block.words, body, block.line), ROOT / page, namespace)
            elif block.language == "output" and printed is not None:
                complaint = block.expect(printed, block.body)
                assert complaint is None, complaint
    assert asked >= 3
    assert left_out == (CANNOT if page == "accuracy.md" else set())


SUM = "SELECT SUM(cost) AS s FROM visits"
WRONG: list[tuple[Any, dict[str, Any]]] = [
    *((SUM, changes) for changes in (
        {"epsilon": -1}, {"epsilon": None}, {"epsilon": 0}, {"bounds": {"cost": (5, 0)}}, {"bounds": {"cost": (0,)}},
        {"bounds": {"x": (0, 1)}}, {"bounds": "y"}, {"bounds": {"cost": "x"}}, {"keys": {"city": ["a"]}},
        {"keys": {"x": [1]}}, {"per_unit": "x"}, {"confidence": 2}, {"delta": 1e-9}, {"delta": -1}, {"noise": "x"},
        {"cover": 2}, {"diagnose": 5}, {"weights": {"x": 1}}, {"weights": {"s": 0}}, {"error": 5},
        {"epsilon": None, "error": -5}, {"epsilon": None, "error": {"x": 5}}, {"cost": dn.ZCDP(0.1)},
        {"epsilon": None, "cost": dn.GDP(1)}, {"epsilon": None, "cost": dn.ApproxDP(1, 0.1, unit="x")},
    )),
    *((sql, {}) for sql in (
        "SELECT SUM(cost) FROM visits", "SELECT", "SELECT * FROM visits", "SELECT SUM(nothing) AS s FROM visits",
        "SELECT SUM(cost) AS s FROM elsewhere", "DROP TABLE visits", "SELECT\n  SUMM(cost) AS s\nFROM visits",
    )),
]  # fmt: skip


def outcome(session: Any, sql: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    """What a plan says: itself, or its error with all that an error carries."""
    try:
        return "fine", str(session.plan(sql, **options))
    except DeniableError as refusal:
        carried = ("name", "expected", "remedy", "line", "column", "requested", "remaining", "largest")
        return type(refusal), str(refusal), *(str(getattr(refusal, name, "")) for name in carried)


def test_errors_are_those_of_a_session(service: Service) -> None:
    here, there = service.curator.session.as_("ana"), service.client("analyst")
    usual = {"epsilon": 0.1, "bounds": {"cost": (0, 5)}, "per_unit": dn.AtMost(groups=1, rows=1)}
    for sql, changes in WRONG:
        options = {**usual, **changes}
        assert outcome(there, sql, options) == outcome(here, sql, options), (sql, changes)


@pytest.mark.parametrize("name", ["sql", "per_unit", "keys", "bounds", "weights"])
def test_a_value_of_the_wrong_kind_is_named(service: Service, name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name} must be") as refused:
        service.client("analyst").call("POST", "/v1/plans", {"sql": SUM, name: 5})
    assert refused.value.name == name
