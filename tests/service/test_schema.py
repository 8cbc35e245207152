"""Attacks by schema: requests drawn from the service's own OpenAPI document, right, nearly right and wrong.

None is answered with 5xx. `make soak` draws 100,000.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.service.app import document
from tests.service.conftest import QUESTION, Reply, Service, ask

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
LIKELY: dict[str, list[Any]] = {
    # What the schema does not know: values that get further.
    "sql": [QUESTION["sql"], "SELECT SUM(cost) AS s FROM visits", "SELECT", ""],
    "epsilon": [0.1, "1/10", -1, "1e-400", 10**400],
    "delta": [1e-9, "1e-9", 0, 1],
    "bounds": [{"cost": [0, 5]}, {"cost": "private"}, "private", {"cost": [5, 0]}],
    "keys": [{"city": ["Bern"]}, {"city": [None, 1, True]}, {"city": {}}, {"nothing": ["x"]}],
    "per_unit": ["private", {"rows": 1}, {"groups": 0}],
    "cost": [{"kind": "PureDP", "epsilon": 0.1}, {"kind": "ZCDP", "rho": 1}, {"kind": "?"}],
    "error": [5, {"n": 5}, "5", {"x": 5}],
    "weights": [{"n": 1}, {"n": 0}],
    "noise": ["laplace", "gaussian", "none"],
    "project": ["flu", ""],
    "role": ["analyst", "owner", "nobody"],
    "kind": ["analyst", "project", "table"],
    "name": ["ana", "new", "visits", "a/b", "\ud800"],
    "account": ["ana", "nobody"],
}
IDS = ["nobody", "flu", "r" + "0" * 31, "r" + "0" * 31 + ".csv", "..", "%00", "x" * 300, "ä", "a.b.c", "ana"]
SAFE = {"disable_account", "set_password", "change_password"}
"""Not sent with the id of the account that attacks: they would end the attack."""


def values(schema: dict[str, Any], name: str = "") -> st.SearchStrategy[Any]:
    """Values that fit a JSON schema of the document."""
    drawn = _typed(schema, name)
    return drawn | st.sampled_from(LIKELY[name]) if name in LIKELY else drawn


def _typed(schema: dict[str, Any], name: str) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        return values(document()["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return st.one_of([_typed(each, name) for each in schema["anyOf"]])
    match schema.get("type"):
        case "object" if "properties" in schema:
            parts = {part: values(inner, part) for part, inner in schema["properties"].items()}
            required = {part: parts.pop(part) for part in schema.get("required", [])}
            return st.fixed_dictionaries(required, optional=parts)
        case "object":
            inner = schema.get("additionalProperties")
            each = _typed(inner, "") if isinstance(inner, dict) else PLAIN
            return st.dictionaries(st.sampled_from(["city", "cost", "n"]) | st.text(max_size=5), each, max_size=3)
        case "array":
            return st.lists(_typed(schema.get("items", {}), ""), max_size=4)
        case "string":
            return st.text(max_size=12)
        case "integer":
            return st.integers(-3, 10**12)
        case "number":
            return st.floats(allow_nan=False)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
    return PLAIN


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, str, bytes, str]:
    """A method, a path, a body and a role."""
    listed = [(path, method) for path, each in document()["paths"].items() for method in each]
    often = [("/v1/plans", "post"), ("/v1/runs", "post"), ("/v1/rehearsals", "post")]
    path, method = draw(st.sampled_from(often * 4 + listed))
    operation = document()["paths"][path][method]
    id = draw(st.sampled_from(IDS[:-1] if operation["operationId"] in SAFE else IDS))
    body: Any = None
    if "requestBody" in operation:
        body = draw(values(operation["requestBody"]["content"]["application/json"]["schema"]) | PLAIN)
        if isinstance(body, dict) and draw(st.integers(0, 9)) == 0:
            body[draw(st.text(max_size=5))] = draw(PLAIN)
        if operation["operationId"] == "change_password" and isinstance(body, dict):
            body["old"] = "not it"
    raw = b"" if body is None and method != "post" else json.dumps(body).encode()
    if draw(st.integers(0, 19)) == 0:
        raw = draw(st.binary(max_size=30)) + raw[: draw(st.integers(0, len(raw)))]
    role = draw(st.sampled_from(["analyst"] * 4 + ["curator", "owner", "auditor", "public"]))
    return method.upper(), path.replace("{id}", quote(id, safe="%")), raw, role


def attack(service: Service, *, cases: int) -> dict[int, int]:
    """Send requests; how often each status came."""
    statuses: dict[int, int] = {}
    service.curator.session.ledger.open_envelope("project flu", epsilon=1, decision="x")

    @settings(
        max_examples=cases, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    @given(request=requests())
    def send(request: tuple[str, str, bytes, str]) -> None:
        method, path, raw, role = request
        shown = {} if role == "public" else {"Authorization": f"Bearer {service.tokens[role]}"}
        number = sum(statuses.values())
        reply = ask(service.app, method, path, {**shown, "Idempotency-Key": f"k{number}"}, raw)
        statuses[reply.status] = statuses.get(reply.status, 0) + 1
        assert reply.status < 500, (request, reply)
        if reply.status >= 400:
            assert reply.headers["content-type"] == "application/problem+json"
        service.clock.now += 1

    send()
    return statuses


def test_no_request_breaks_the_service(service: Service) -> None:
    statuses = attack(service, cases=150)
    assert {200, 422} <= set(statuses)
    shown = {"Authorization": f"Bearer {service.tokens['analyst']}", "Idempotency-Key": "k"}
    for raw in (b"\xff\xfe", b"[" * 60_000, b"{", b"null", b'{"sql": "\\ud800"}'):
        assert ask(service.app, "POST", "/v1/plans", shown, raw).status == 422


@pytest.mark.soak
def test_no_request_breaks_the_service_long(make: Callable[..., Service]) -> None:
    attack(make(most_waiting=10**6, most_waiting_each=10**6), cases=100_000)


BIG: dict[str, dict[str, Any]] = {
    "parentheses": {"sql": f"SELECT {'(' * 4900}1{')' * 4900} FROM visits"},
    "many terms": {"sql": "SELECT SUM(" + "+".join(["cost"] * 1900) + ") AS s FROM visits"},
    "many conditions": {"sql": "SELECT COUNT(*) AS n FROM visits WHERE " + " OR ".join(["cost = 1"] * 800)},
    "a long list": {"sql": f"SELECT COUNT(*) AS n FROM visits WHERE cost IN ({','.join(map(str, range(1900)))})"},
    "many aggregates": {"sql": "SELECT " + ", ".join(f"COUNT(*) AS c{i}" for i in range(500)) + " FROM visits"},
    "many keys": {"sql": QUESTION["sql"], "keys": {"city": [f"c{i}" for i in range(5000)]}},
    "many cases": {"sql": f"SELECT SUM(CASE {'WHEN cost = 1 THEN 1 ' * 400} ELSE 0 END) AS s FROM visits"},
    "nested queries": {"sql": "SELECT COUNT(*) AS n FROM " + "(SELECT * FROM " * 300 + "visits" + ") AS t" * 300},
    "a long text": {"sql": "SELECT COUNT(*) AS n FROM visits WHERE city = '" + "x" * 9000 + "'"},
    "too long": {"sql": "SELECT COUNT(*) AS n FROM visits" + " " * 60_000},
}


@pytest.mark.parametrize("body", BIG.values(), ids=list(BIG))
def test_a_large_body_is_planned_or_refused(service: Service, body: dict[str, Any]) -> None:
    """bench/service.py says in what time; a plan beyond its time is killed (test_runs.py)."""
    asked = {"epsilon": 0.1, "per_unit": {"groups": 1, "rows": 1}, "bounds": {"cost": [0, 5]}, **body}
    assert len(json.dumps(asked)) <= service.settings.most_body
    assert service.ask("analyst", "POST", "/v1/plans", asked).status in (200, 422)


PLANTED = re.compile(rb"zq\d{4}x")
"""A thousand values of the table, and only they, look so."""
ASKED = [
    "SELECT city, COUNT(*) AS n FROM visits GROUP BY city",
    "SELECT SUM(CAST(city AS INTEGER)) AS s FROM visits",
    "SELECT MAX(city) AS m FROM visits",
    "SELECT city FROM visits",
    "SELECT COUNT(*) AS n FROM visits WHERE city > 1",
    "SELECT COUNT(*) AS n FROM visits WHERE CAST(city AS DATE) > DATE '2020-01-01'",
    "SELECT SUM(cost / (cost - cost)) AS s FROM visits",
    "SELECT COUNT(DISTINCT city) AS n FROM visits",
    "SELECT AVG(cost) AS a FROM visits WHERE city LIKE '%zq%'",
    "SELECT * FROM visits ORDER BY city LIMIT 5",
    "SELECT COUNT(*) AS n FROM read_csv('visits.csv')",
    "SELECT COUNT(*) AS n FROM visits WHERE error(city)",
]


def test_a_thousand_planted_values_are_nowhere(
    make: Callable[..., Service], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    rows = "".join(f"{i},zq{i:04}x,{i % 50}\n" for i in range(1000))
    (tmp_path / "visits.csv").write_text("patient_id,city,cost\n" + rows)
    service = make()
    replies: list[Reply] = []
    for number, sql in enumerate(ASKED):
        for path in ("/v1/plans", "/v1/rehearsals", "/v1/runs"):
            body = {"sql": sql, "epsilon": 0.01, "bounds": {"cost": [0, 50]}, "per_unit": {"groups": 1, "rows": 1}}
            replies.append(service.ask("analyst", "POST", path, body, Idempotency_Key=f"k{number}"))
    service.clock.now += 5
    for path in ("/v1/runs", "/v1/releases", "/v1/tables", "/v1/budget"):
        replies.append(service.ask("analyst", "GET", path))
    for path in ("/metrics", "/v1/ledger", "/v1/ledger/export", "/v1/head", "/v1/approvals"):
        replies.append(service.ask("owner", "GET", path))
    assert {reply.status for reply in replies} >= {200, 202, 422}
    heads = (tmp_path / "heads.log").read_bytes()
    for text in (heads, *(reply.body for reply in replies), *(r.getMessage().encode() for r in caplog.records)):
        assert not PLANTED.search(text)
