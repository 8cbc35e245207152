"""The pages: who may open which, what a form must carry, what is never on a page, and what a hostile text becomes."""

from __future__ import annotations

import html
import random
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from deniable.service import forms, roles
from deniable.service.app import make_app
from deniable.service.pages import page_routes
from deniable.service.rendering import assets
from deniable.service.requests import PlanRequest, UnitLimits
from tests.service.conftest import QUESTION, Reply, Service, ask

FIELDS = {
    "sql": "SELECT city, COUNT(*) AS n FROM visits GROUP BY city", "goal": "epsilon", "epsilon": "0.1",
    "keys": "city: Bern, Basel", "groups": "1", "rows": "2", "nonce": "one",
}  # fmt: skip
FORMS: dict[str, dict[str, str]] = {
    "log_in_form": {"name": "x", "password": "y"}, "plan_form": FIELDS, "rehearse_form": FIELDS, "submit_form": FIELDS,
    "publish_form": {"id": "x", "title": "x"}, "decide_form": {"decision": "deny", "plan": "", "reason": "x"},
    "envelope_form": {"kind": "project", "name": "flu", "epsilon": "0.1", "decision": "x"},
    "grant_form": {"project": "x", "account": "ana", "granted": "yes"},
    "set_password_form": {"account": "nobody", "password": "correct horse"},
    "change_password_form": {"old": "x", "new": "correct horse", "again": "correct horse"},
    "account_form": {"name": "new", "role": "analyst"}, "token_form": {"label": "x"},
}  # fmt: skip
EVERYBODY = {"home_page", "asset", "log_in_page", "log_in_form", "release_page"}
ALL = EVERYBODY | {"log_out_form", "tables_page", "releases_page", "budget_page", "tokens_page", "token_form",
                   "revoke_form", "change_password_form"}  # fmt: skip
STEWARD = ALL | {"ask_page", "plan_form", "rehearse_form", "publish_form", "envelope_form", "approvals_page",
                 "decide_form", "ledger_page", "accounts_page", "account_form", "end_account_form", "grant_form",
                 "set_password_form"}  # fmt: skip
MAY = {
    # Written down a second time on purpose: the pages of each role.
    "owner": STEWARD, "curator": STEWARD, "auditor": ALL | {"ledger_page"}, "public": EVERYBODY,
    "analyst": ALL | {"ask_page", "plan_form", "rehearse_form", "submit_form", "runs_page", "run_page"},
}  # fmt: skip


class Visitor:
    """A browser without a window: it keeps a cookie and sends forms."""

    def __init__(self, service: Service, role: str | None) -> None:
        self.service = service
        self.app = make_app(service.curator, pages=page_routes(service.curator))
        self.cookie, self.form = "", ""
        if role is not None:
            reply = self.send("/login", token=service.tokens[role])
            assert (reply.status, reply.headers["location"][0]) == (303, "/")
            self.cookie = reply.headers["set-cookie"].partition(";")[0]
            self.form = re.search(r'name="form" value="([^"]+)"', self.open("/tables").body.decode())[1]

    def open(self, path: str) -> Reply:
        return ask(self.app, "GET", path, {"Cookie": self.cookie} if self.cookie else {})

    def send(self, path: str, headers: dict[str, str] | None = None, **fields: str) -> Reply:
        own = {"Origin": "https://dp.test", "Sec-Fetch-Site": "same-origin"} if headers is None else headers
        shown = {**own, **({"Cookie": self.cookie} if self.cookie else {})}
        return ask(self.app, "POST", path, shown, urlencode({"form": self.form, **fields}).encode())

    def price(self, **changes: str) -> str:
        """The digest of the plan that a page shows a price for."""
        text = self.send("/ask", **{**FIELDS, **changes}).body.decode()
        return re.search(r'name="plan" value="(\w+)"', text)[1]

    def run(self, **changes: str) -> str:
        """The path of a new run."""
        fields = {**FIELDS, **changes}
        reply = self.send("/runs", plan=self.price(**changes), **fields)
        assert reply.status == 303, reply.body
        return reply.headers["location"]


@pytest.fixture
def visit(service: Service) -> Callable[[str | None], Visitor]:
    return lambda role: Visitor(service, role)


@pytest.mark.parametrize("role", MAY)
def test_every_page_for_every_role(service: Service, role: str) -> None:
    visitor = Visitor(service, None if role == "public" else role)
    routes = {(route.path, method) for route in visitor.app.routes for method in route.methods - {"HEAD"}}
    assert routes == {(each.path, each.method) for each in (*roles.ENDPOINTS, *roles.PAGES)}
    for each in sorted(roles.PAGES, key=lambda each: each.name == "log_out_form"):  # it ends the walk
        path = each.path.replace("{id}", "nobody")
        reply = visitor.open(path) if each.method == "GET" else visitor.send(path, **FORMS.get(each.name, {}))
        to_log_in = reply.status == 303 and reply.headers["location"] == "/login" and each.name != "log_out_form"
        own = each.name in ("log_in_form", "change_password_form")  # they refuse what they are given
        denied = to_log_in or (reply.status in (401, 403) and not (own and each.name in MAY[role]))
        assert denied is (each.name not in MAY[role]), (each, reply)
        assert reply.status < 500
        assert "set-cookie" not in reply.headers or each.name == "log_out_form"
        assert reply.headers["cache-control"] == "no-store" or each.name == "asset"
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "same-origin"
        if reply.status not in (303,) and each.name != "asset":
            assert reply.headers["content-type"] == "text/html; charset=utf-8"
            text = reply.body.decode()
            assert not re.search(r"\sstyle=|<style|\son\w+=|<script(?! src=\"/assets/)", text)
            named = set(re.findall(r'<li><a href="(/\w+)"', text))
            assert named <= {page.path for page in roles.PAGES if page.name in MAY[role]}


WRONG: list[dict[str, str]] = [
    {}, {"Origin": "https://evil.test"}, {"Origin": "null"},
    {"Origin": "https://dp.test", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://dp.test", "Sec-Fetch-Site": "same-site"},
]  # fmt: skip


def test_every_form_needs_its_token_and_its_own_site(service: Service) -> None:
    before = service.curator.accounts()
    for role in ("owner", "analyst"):
        visitor = Visitor(service, role)
        for each in roles.PAGES:
            if each.method == "GET" or each.name == "log_in_form" or each.name not in MAY[role]:
                continue
            path, fields = each.path.replace("{id}", "nobody"), FORMS.get(each.name, {})
            for headers in WRONG:
                assert visitor.send(path, headers, **fields).status == 403, (each, headers)
            for form in ("", visitor.form[:-1], "x" * 43):
                assert visitor.send(path, **{**fields, "form": form}).status == 403, each
        assert visitor.open("/tables").status == 200  # nobody was logged out
    assert service.curator.accounts() == before
    assert service.charges == 0
    outsider = Visitor(service, None)
    for headers in WRONG[1:]:
        reply = outsider.send("/login", headers, token=service.tokens["analyst"])
        assert "set-cookie" not in reply.headers


def test_from_price_to_answer_and_nothing_before_the_deadline(service: Service, visit: Any) -> None:
    ana = visit("analyst")
    priced = ana.send("/ask", **FIELDS).body.decode()
    assert "Run for ε = 0.1" in priced
    assert "± " in priced
    made_up = ana.send("/rehearsal", **FIELDS).body.decode()
    assert "<svg" in made_up
    assert "not real" in made_up
    assert service.charges == 0
    where = ana.run()
    assert service.charges == 1
    stored = service.curator.store.run(where.rpartition("/")[2])
    assert service.curator.store.answer(stored.id) is not None  # computed already, which nobody may see
    assert ana.send("/runs", plan="old", **FIELDS).headers["location"] == where  # sent twice: one run
    early, listed = ana.open(where).body, ana.open("/runs").body
    for path in (where, "/runs", "/releases", "/budget", f"/p/{stored.id}", "/"):
        text = ana.open(path).body.decode()
        assert "<svg" not in text
        assert ">answered<" not in text
    service.curator.store.ask("UPDATE service_runs SET state = 'failed' WHERE id = ?", stored.id)
    assert ana.open(where).body == early  # whether it failed, neither
    assert ana.open("/runs").body == listed
    service.curator.store.ask("UPDATE service_runs SET state = 'done' WHERE id = ?", stored.id)
    service.clock.now += 4
    late = ana.open(where).body.decode()
    assert "<svg" in late
    assert "Bern" in late
    assert f"/v1/releases/{stored.id}.csv" in late
    assert "Made with deniable" in late
    assert service.charges == 1
    assert ana.open(f"/ask?run={stored.id}").body.decode().count("city: Bern, Basel") == 2  # beside the hint
    other = visit("other")
    for path in (where, f"/p/{stored.id}", f"/ask?run={stored.id}"):
        assert other.open(path).status == 404


def test_before_its_deadline_nobody_reads_an_answer_from_the_store(
    service: Service, visit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row with a large answer takes longer to read, and whoever looks would see when it was computed."""
    ana, owner = visit("analyst"), visit("owner")
    id, store, ask_store = ana.run().rpartition("/")[2], service.curator.store, service.curator.store.ask
    answer, rows = store.answer(id), list[Any]()

    def ask_and_note(statement: str, *values: object) -> list[tuple[Any, ...]]:
        rows.extend(answers := ask_store(statement, *values))
        return answers

    monkeypatch.setattr(store, "ask", ask_and_note)
    for visitor in (ana, owner):
        for each in (*roles.PAGES, *roles.ENDPOINTS):
            if each.method == "GET":
                visitor.open(each.path.replace("{id}", id))
    ana.run(nonce="two", epsilon="0.2")  # it looks at other runs
    cells = {cell for row in rows for cell in row}
    assert id in cells
    assert answer is not None
    assert answer not in cells
    service.clock.now += 5
    ana.open(f"/runs/{id}")
    assert answer in [cell for row in rows for cell in row]


def test_late_answers_are_counted_at_the_times_of_answers(service: Service, visit: Any) -> None:
    where, owner = visit("analyst").run(), visit("owner")
    id, start = where.rpartition("/")[2], service.clock.now

    def late(after: float) -> str:
        service.clock.now = start + after
        return re.search(r"(\d+) of 1 came", owner.open("/budget").body.decode())[1]

    store = service.curator.store
    store.ask("UPDATE service_runs SET state = 'charged', finished = NULL WHERE id = ?", id)
    before = [late(3.9), late(4.0), late(5.0)]
    store.ask("UPDATE service_runs SET state = 'done', finished = ? WHERE id = ?", start + 5, id)
    assert [*before, late(5.0), late(8.0)] == ["0", "1", "1", "1", "1"]
    store.ask("UPDATE service_runs SET finished = ? WHERE id = ?", start + 1, id)
    assert [late(2.0), late(4.0), late(8.0)] == ["0", "0", "0"]


def test_a_large_answer_has_a_small_page(service: Service, visit: Any) -> None:
    ana = visit("analyst")
    outputs = ", ".join(f"COUNT(*) AS n{number}" for number in range(12))
    keys = "city: " + ", ".join(f"city {number}" for number in range(900))
    text = ana.send(
        "/rehearsal", **{**FIELDS, "sql": f"SELECT city, {outputs} FROM visits GROUP BY city", "keys": keys}
    )
    assert "6 more outputs are in the table" in text.body.decode()
    assert "more rows are in the files" in text.body.decode()
    assert len(text.body) < 350_000


def test_a_price_that_is_not_the_questions_buys_nothing(service: Service, visit: Any) -> None:
    ana = visit("analyst")
    plan = ana.price()
    for fields in ({"epsilon": "0.5"}, {"sql": "SELECT COUNT(*) AS n FROM visits", "keys": ""}):
        reply = ana.send("/runs", **{**FIELDS, **fields, "plan": plan})
        assert reply.status == 200
        assert "Nothing was run" in reply.body.decode()
    assert ana.send("/runs", **FIELDS).status == 200
    assert service.charges == 0


def test_what_is_refused_keeps_the_form(service: Service, visit: Any) -> None:
    ana = visit("analyst")
    wrong = [{"sql": "SELECT <b>"}, {"keys": "city"}, {"bounds": "cost: 1"}, {"rows": "many"}, {"epsilon": "5"},
             {"epsilon": "1/0"}, {"epsilon": ""}, {"goal": "error", "error": "x"}, {"sql": "x" * 10_001}]  # fmt: skip
    for change in wrong:
        for path in ("/ask", "/rehearsal", "/runs"):
            reply = ana.send(path, **{**FIELDS, **change})
            if path == "/runs" or change != {"epsilon": "5"}:
                assert reply.status in (402, 422) or "Nothing was run" in reply.body.decode(), (path, change, reply)
            text = reply.body.decode()
            for name, value in change.items():
                assert html.escape(value) in text, name
    assert service.charges == 0


def test_hostile_texts_become_text(service: Service, visit: Any) -> None:
    evil = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
    owner, ana = visit("owner"), visit("analyst")
    sql = f"SELECT COUNT(*) AS n FROM visits WHERE city = '{evil.replace(chr(39), '')}' -- {evil}\u202e\x1b"
    owner.send("/accounts", name=f"eva {evil}".replace("/", "|"), role="auditor")
    owner.send("/tokens", label=evil)
    owner.send("/envelopes", kind="project", name=evil, epsilon="0.1", decision=evil)
    where = ana.run(sql=sql, keys="", groups="", rows="")
    service.clock.now += 5
    owner.send("/publications", id=where.rpartition("/")[2], title=evil)
    listed = ("/", "/accounts", "/tokens", "/budget", "/ledger", "/releases", "/approvals")
    pages = [owner.open(path) for path in listed]
    pages += [ana.open(path) for path in ("/runs", where, f"/ask?run={where.rpartition('/')[2]}")]
    pages += [
        ana.send("/ask", **dict.fromkeys((*FIELDS, "bounds", "error", "error_of", "project", "diagnose"), evil)),
        owner.open("/ledger?" + urlencode({"head": evil})),
        visit(None).send("/login", name=evil, password="x"),
        visit(None).open(f"/p/{where.rpartition('/')[2]}"),
        owner.send("/approvals/" + "x", decision=evil, reason=evil, plan=evil),
    ]  # fmt: skip
    for reply in pages:
        text = reply.body.decode()
        assert "<script>" not in text
        assert "<img" not in text
        assert "onerror=alert(1)>" not in text
    assert sum(html.escape("<script>alert(1)") in reply.body.decode() for reply in pages) >= 8
    text = ana.open(where).body.decode()
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_approvals_by_forms(make: Callable[..., Service]) -> None:
    service = make(approval_above=0.05)
    ana, cora = Visitor(service, "analyst"), Visitor(service, "curator")
    assert "Ask for approval of" in ana.send("/ask", **FIELDS).body.decode()
    where = ana.run()
    assert "must approve" in ana.open(where).body.decode()
    text = cora.open("/approvals").body.decode()
    path, plan = re.search(r'action="(/approvals/\w+)"', text)[1], re.search(r'name="plan" value="(\w+)"', text)[1]
    assert cora.send(path, plan=plan, reason="", decision="approve").status == 422
    assert cora.send(path, plan="other", reason="fine", decision="approve").status == 422
    assert service.charges == 0
    assert cora.send(path, plan=plan, reason="fine", decision="approve").headers["location"] == "/approvals"
    assert service.charges == 1
    service.clock.now += 5
    assert "<svg" in ana.open(where).body.decode()
    second = ana.run(epsilon="0.2")
    text = cora.open("/approvals").body.decode()
    path, plan = re.search(r'action="(/approvals/\w+)"', text)[1], re.search(r'name="plan" value="(\w+)"', text)[1]
    cora.send(path, plan=plan, reason="too much", decision="deny")
    assert "too much" in ana.open(second).body.decode()
    record = Visitor(service, "auditor").open("/ledger").body.decode()
    for words in ("<td>cora</td><td>approve</td>", "<td>cora</td><td>deny</td>", "<td>too much</td>"):
        assert words in record
    assert service.charges == 1


def test_a_token_is_shown_once_and_ends_its_sessions(service: Service, visit: Any) -> None:
    ana = visit("analyst")
    shown = ana.send("/tokens", label="laptop", days="2")
    token = re.search(r"dn_\w{16}_[\w-]{43}", shown.body.decode())[0]
    assert token not in ana.open("/tokens").body.decode()
    service.tokens["laptop"] = token
    service.clock.now += 1.99 * 86_400
    laptop = Visitor(service, "laptop")
    service.clock.now += 0.02 * 86_400
    assert laptop.open("/tables").status == 303  # with its token
    id = service.tokens["analyst"].split("_")[1]
    ana, other = visit("analyst"), visit("other")
    assert other.send(f"/tokens/{id}/revoke").status == 404
    assert ana.send(f"/tokens/{id}/revoke").status == 303
    assert ana.open("/tables").status == 303  # the token that opened this session
    assert visit(None).send("/login", token=token).status == 401
    assert visit(None).send("/login", token="dn_x").status == 401


def test_passwords_and_logging_out(service: Service, visit: Any) -> None:
    visit("owner").send("/accounts", name="eva", role="auditor", password="correct horse battery")
    nobody = visit(None)
    for name, password in (("eva", "wrong"), ("nobody", "wrong")):
        reply = nobody.send("/login", name=name, password=password)
        assert reply.status == 401
        assert "the name or the password is wrong" in reply.body.decode()
        assert password not in reply.body.decode().replace("is wrong", "")
    reply = nobody.send("/login", name="eva", password="correct horse battery")
    assert reply.headers["location"] == "/ledger"
    for word in ("__Host-deniable=", "Secure", "HttpOnly", "SameSite=Lax"):
        assert word in reply.headers["set-cookie"]
    nobody.cookie = reply.headers["set-cookie"].partition(";")[0]
    nobody.form = re.search(r'name="form" value="([^"]+)"', nobody.open("/ledger").body.decode())[1]
    assert nobody.open("/login").headers["location"] == "/ledger"
    assert nobody.open("/login?next=https://evil.test").headers["location"] == "/ledger"
    assert nobody.send("/logout").headers["location"] == "/login"
    assert nobody.open("/ledger").headers["location"] == "/login"
    for _ in range(5):
        last = nobody.send("/login", name="zoe", password="wrong")
    assert last.status in (401, 429)
    assert nobody.send("/login", name="zoe", password="wrong").status == 429


def test_passwords_are_set_and_changed(service: Service, visit: Any) -> None:
    first, second, third = "correct horse battery", "incorrect horse battery", "no horse at all"
    ana, owner = visit("analyst"), visit("owner")
    token = service.tokens["analyst"]
    assert ana.send("/password", new=first, again=first).status == 403  # a session of a token is no token
    assert ana.send("/password", token=service.tokens["other"], new=first, again=first).status == 403
    assert ana.send("/password", token=token, new=first, again=second).status == 422
    assert ana.send("/password", token=token, new=first, again=first).headers["location"] == "/login"
    assert ana.open("/tables").status == 303
    logged_in = ana.send("/login", name="ana", password=first)
    ana.cookie = logged_in.headers["set-cookie"].partition(";")[0]
    ana.form = re.search(r'name="form" value="([^"]+)"', ana.open("/tokens").body.decode())[1]
    assert ana.send("/password", old="wrong", new=second, again=second).status == 403
    changed = ana.send("/password", old=first, new=second, again=second)
    assert changed.headers["location"] == "/tokens"
    ana.cookie = changed.headers["set-cookie"].partition(";")[0]
    assert ana.open("/tokens").status == 200
    assert owner.send("/passwords", account="ana", password=third).status == 303
    assert ana.open("/tokens").status == 303
    assert visit(None).send("/login", name="ana", password=third).status == 303
    assert owner.send("/passwords", account="ota", password=third).status == 403


def test_projects_are_granted(service: Service, visit: Any) -> None:
    owner, ana = visit("owner"), visit("analyst")
    owner.send("/envelopes", kind="project", name="flu & cold", epsilon="0.5", decision="grant 12")
    assert "flu &amp; cold" not in ana.open("/ask").body.decode()
    assert ana.send("/ask", **FIELDS, project="flu & cold").status == 422
    assert owner.send("/grants", project="flu & cold", account="ana", granted="yes").status == 303
    assert '<option value="flu &amp; cold">' in ana.open("/ask").body.decode()
    assert ana.send("/ask", **FIELDS, project="flu & cold").status == 200
    assert owner.send("/grants", project="flu & cold", account="ana", granted="no").status == 303
    assert ana.send("/ask", **FIELDS, project="flu & cold").status == 422


def test_a_published_release_has_a_page_for_everybody(service: Service, visit: Any) -> None:
    where = visit("analyst").run()
    id = where.rpartition("/")[2]
    cora, nobody = visit("curator"), visit(None)
    assert cora.send("/publications", id=id, title="Visits by city").status == 404  # not shown yet
    service.clock.now += 5
    assert nobody.open(f"/p/{id}").status == 404
    assert cora.send("/publications", id=id, title="Visits by city").status == 303
    text = nobody.open(f"/p/{id}").body.decode()
    assert "<h1>Visits by city</h1>" in text
    assert "<svg" in text
    assert "<script" not in text
    assert "SELECT" not in text  # nobody is told the SQL
    assert "left" not in re.sub(r"left out|leave", "", text)  # nor what anybody has left
    assert "Visits by city" in nobody.open("/").body.decode()


def test_files_of_pages_are_named_by_what_is_in_them(visit: Any) -> None:
    nobody = visit(None)
    size = 0
    for asset in assets().values():
        reply = nobody.open(asset.address)
        assert (reply.status, reply.body) == (200, asset.content)
        assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
        size += len(reply.body)
    assert size < 30_000
    for path in ("/assets/pages.css", "/assets/..%2fpages.py", "/assets/../roles.py"):
        assert nobody.open(path).status == 404


def test_no_form_breaks_a_page(service: Service, visit: Any) -> None:
    draw = random.Random(1)
    hostile = ["", "\x00", "<img src=x>", "../..", "1e400", "nan", "1/0", "9" * 50, "²", " 5 ", "city: a,,b", ":",
               "cost: 1, 0", "SELECT * FROM visits", 'SELECT COUNT(*) AS "<img src=x>" FROM visits',
               "\r\nSet-Cookie: x=y", "//evil.test", "{{ 7 * 7 }}", "yes", "ana", "private"]  # fmt: skip
    names = {name for fields in FORMS.values() for name in fields} | {
        "error",
        "bounds",
        "project",
        "diagnose",
        "days",
        "account",
    }
    ana, owner = visit("analyst"), visit("owner")
    for visitor, role in ((ana, "analyst"), (owner, "owner")):
        for each in [page for page in roles.PAGES if page.name in MAY[role] and page.name != "log_out_form"] * 2:
            path = each.path.replace("{id}", quote(draw.choice(hostile), safe="") or "x")
            fields = {
                **FORMS.get(each.name, {}),
                **{name: draw.choice(hostile) for name in draw.sample(sorted(names), 5)},
            }
            reply = (
                visitor.open(f"{path}?{urlencode(fields)}") if each.method == "GET" else visitor.send(path, **fields)
            )
            assert reply.status < 500, (each, fields)
            assert "<img" not in reply.body.decode()
            assert re.fullmatch(r"|/\w+|/runs/\w+", reply.headers.get("location", "")), reply


def test_forms_read_what_they_wrote() -> None:
    tables = [{"columns": [{"name": "city", "kind": "text"}, {"name": "age", "kind": "integer"}]}]
    request = PlanRequest(
        sql="SELECT 1\n\tx", error={"n": "50"}, group_size=10, bounds={"cost": ["0", "1e3"], "age": "private"},
        keys={"city": ["Bern", "Biel, Bienne", 'a "b"', "8000"], "age": [1, 2.5]}, per_unit=UnitLimits(groups=2),
        confidence="0.9", diagnose="0.05", project="flu",
    )  # fmt: skip
    fields = forms.to_fields(request)
    assert forms.unstated(request, tables) == []
    request.noise, request.per_unit, request.error = "gaussian", UnitLimits(total=3), {"n": "1", "m": "2"}
    assert forms.unstated(request, tables) == ["error", "per_unit", "noise"]
    request.noise, request.per_unit, request.error = None, UnitLimits(groups=2), {"n": "50"}
    body = urlencode({name: value.replace("\n", "\r\n") for name, value in fields.items()}).encode()
    assert forms.read_question(forms.read_fields(body), tables) == request
    for wrong in (b"\xff", b"a&b", b"a=%ff", b"&".join([b"a=1"] * 41)):
        with pytest.raises(forms.InvalidArgument):
            forms.read_fields(wrong)


def test_no_text_breaks_a_page(service: Service) -> None:
    analyst, curator = Visitor(service, "analyst"), Visitor(service, "curator")
    for head in ("²:" + "0" * 64, "1" * 5000 + ":" + "0" * 64, "٣:" + "0" * 64):
        assert "not a ledger" in curator.open(f"/ledger?head={quote(head)}").body.decode()
    for changes in ({"keys": "city: Bern\rBasel"}, {"keys": 'city: "Be\rrn'}, {"epsilon": "1e400"}, {"epsilon": "\0"}):
        assert analyst.send("/ask", **{**FIELDS, **changes}).status in (200, 422), changes
    assert 'name="nonce" value=""' not in analyst.send("/ask", sql=FIELDS["sql"]).body.decode()  # a form without one
    key = {**QUESTION, "keys": {"city": ["a\rb"]}}
    id = service.ask("analyst", "POST", "/v1/runs", key, Idempotency_Key="k").value["id"]
    assert analyst.open(f"/ask?run={id}").status in (200, 422)
