"""The pages: HTML over `Curator`, for browsers.

Every page comes from the table in `roles`, and is for those who may do the same over the JSON interface. A form carries
the token of its session. Pages read without a script; the script shows a price while somebody types, and the answer at
its deadline. A page knows of a run what `jobs.view` tells, which is a function of the clock alone until the deadline.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from deniable import __version__
from deniable.errors import AccessDenied, DeniableError, InvalidArgument, MissingExtra, NotThere
from deniable.explaining import explain
from deniable.guarantees import Guarantee
from deniable.ledger.records import Head
from deniable.query import Release
from deniable.service import forms, roles
from deniable.service.access import Member
from deniable.service.app import Answer, ServiceCall, cookie_header, cookie_of, make_endpoint
from deniable.service.curator import Curator, problem_of
from deniable.service.jobs import DONE
from deniable.service.policy import CostPolicy, RunCost
from deniable.service.problems import to_problem
from deniable.service.rendering import PAGE_HEADERS, assets, describe_answer, moment, page
from deniable.service.requests import PlanRequest, read_number

try:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute, Route
except ModuleNotFoundError as error:
    raise MissingExtra(error.name or "starlette", "serve") from error

MENU = {
    "tables_page": "Tables", "ask_page": "Ask", "runs_page": "Answers", "releases_page": "Published",
    "budget_page": "Budget", "approvals_page": "Approvals", "ledger_page": "Ledger", "accounts_page": "Accounts",
    "tokens_page": "You",
}  # fmt: skip
"""Pages that the menu names, by their function."""

FIRST = {roles.OWNER: "/budget", roles.CURATOR: "/approvals", roles.ANALYST: "/tables", roles.AUDITOR: "/ledger"}
"""Where somebody is after logging in."""

MOST_CHARGES = 50
"""Charges on one page of the ledger."""

OTHER_PRICE = "Nothing was run: the question or its plan is not the one whose price was shown. This is its price now."

PageAnswer = tuple[int, Response]


def page_routes(curator: Curator) -> list[BaseRoute]:
    """The routes of all pages, for `make_app`."""
    return [
        Route(
            each.path,
            make_endpoint(
                curator, each, globals()[each.name], form=_form_field, refuse=refuse_page, headers=PAGE_HEADERS
            ),
            methods=[each.method],
        )
        for each in roles.PAGES
    ]


def _form_field(request: Request, body: bytes) -> str | None:
    return forms.read_fields(body).get("form")


def _frame(curator: Curator, member: Member | None, path: str) -> dict[str, Any]:
    """What every page shows: the service, who looks, and the pages that they may open."""
    role = roles.PUBLIC if member is None else member.role
    menu = [
        {"path": each.path, "words": MENU[each.name], "here": path == each.path or path.startswith(f"{each.path}/")}
        for each in roles.PAGES
        if each.name in MENU and role != roles.PUBLIC and roles.permits(each, role)
    ]
    name, form = ("", None) if member is None else (member.name, member.form)
    return {
        "service": curator.settings.title, "name": name, "role": role, "form": form or "", "menu": menu,
        "may": {each.name for each in roles.PAGES if roles.permits(each, role)}, "problem": None, "notice": None,
    }  # fmt: skip


def _page(call: ServiceCall, template: str, *, status: int = 200, **facts: Any) -> PageAnswer:
    path = call.request.url.path
    frame = _frame(call.curator, call.member, "/ask" if template == "ask.html" else path)
    return status, page(template, status=status, **{**frame, **facts})


def _to(path: str) -> PageAnswer:
    """Go on to another page of the service."""
    return 303, Response(status_code=303, headers={"Location": path})


def refuse_page(curator: Curator, request: Request, member: Member | None, refusal: DeniableError) -> Response:
    """A refusal as a page. Who is not logged in is asked to."""
    public = member is None or member.role == roles.PUBLIC
    if isinstance(refusal, AccessDenied) and public and request.method == "GET":
        return _to("/login")[1]
    problem = _problem(curator, refusal)
    status = 401 if isinstance(refusal, AccessDenied) and public else problem["status"]
    response = page("refused.html", status=status, **{**_frame(curator, member, ""), "problem": problem})
    if "seconds" in problem:
        response.headers["Retry-After"] = str(max(1, round(problem["seconds"])))
    return response


def _problem(curator: Curator, refusal: DeniableError) -> dict[str, Any]:
    return to_problem(refusal, hidden=curator.settings.places)


def _fields(call: ServiceCall) -> forms.Fields:
    return forms.read_fields(call.body)


def _number(fields: forms.Fields, name: str) -> Any:
    return read_number(name, fields.get(name, "").strip() or None)


# for everybody


def home_page(call: ServiceCall) -> Answer:
    curator = call.curator
    return _page(
        call, "home.html", promise=curator.promise(), explanation=explain(curator.session.ledger.budget),
        releases=[each for each in curator.releases(call.member) if each["title"] is not None],
    )  # fmt: skip


def asset(call: ServiceCall) -> Answer:
    for each in assets().values():
        if each.address == call.request.url.path:
            call.headers["Cache-Control"] = "public, max-age=31536000, immutable"
            return 200, Response(each.content, media_type=each.type)
    raise NotThere("there is no such file")


def release_page(call: ServiceCall) -> Answer:
    """A release that everybody may read; also one's own, for its link."""
    release = call.curator.answer(call.member, call.id)
    titles = (each["title"] for each in call.curator.releases(call.member) if each["id"] == call.id)
    title = next(titles, None) or release.title
    return _page(
        call, "release.html", id=call.id, title=title, answer=describe_answer(release),
        explanation=explain(release.cost), promise=call.curator.promise(), cite=_cite(call, release, title),
    )  # fmt: skip


def _cite(call: ServiceCall, release: Release, title: str) -> str:
    now = moment(call.curator.clock())[:10]
    return (
        f"{call.curator.settings.title}: {title}. Release {call.id}, read on {now}. {release.cost}; intervals cover"
        f" {release.covers}. Made with deniable {__version__}."
    )


def log_in_page(call: ServiceCall) -> Answer:
    if call.member.role != roles.PUBLIC:
        return _to(FIRST[call.member.role])
    return _page(call, "login.html", given="")


def log_in_form(call: ServiceCall) -> Answer:
    curator, fields = call.curator, _fields(call)
    name, secret, now = fields.get("name", ""), fields.get("password", ""), curator.clock()
    try:
        if token := fields.get("token", "").strip():
            cookie, member = curator.access.log_in_with_token(token, now=now)
        else:
            cookie, member = curator.access.log_in(name, secret, now=now)
    except DeniableError as refusal:
        problem = _problem(curator, refusal)
        if "seconds" in problem:
            call.headers["Retry-After"] = str(max(1, round(problem["seconds"])))
        status = 401 if isinstance(refusal, AccessDenied) else problem["status"]
        return _page(call, "login.html", status=status, given=name, problem=problem)
    if (earlier := cookie_of(curator, call.request)) is not None:
        curator.access.log_out(earlier)
    call.headers["Set-Cookie"] = cookie_header(curator, cookie)
    return _to(FIRST[member.role])


def log_out_form(call: ServiceCall) -> Answer:
    if (cookie := cookie_of(call.curator, call.request)) is not None:
        call.curator.access.log_out(cookie)
    call.headers["Set-Cookie"] = cookie_header(call.curator, "")
    call.headers["Clear-Site-Data"] = '"cache", "storage"'
    return _to("/login")


# asking


def tables_page(call: ServiceCall) -> Answer:
    curator = call.curator
    budget = curator.budget(call.member)
    return _page(
        call, "tables.html", tables=curator.tables(), promise=curator.promise(), budget=budget,
        unit=curator.session.ledger.budget.unit.noun,
    )  # fmt: skip


def ask_page(call: ServiceCall) -> Answer:
    query = call.request.query_params
    fields: forms.Fields = {"goal": "error"}
    tables, facts = call.curator.tables(), dict[str, Any]()
    if "run" in query and call.member.role == roles.ANALYST:
        request = call.curator.question(call.member, query["run"])
        fields = forms.to_fields(request)
        if missing := forms.unstated(request, tables):
            facts["notice"] = f"This form has no place for what the question says of {', '.join(missing)}."
    else:
        names = [table["name"] for table in tables if not table["public"]]
        name = query["table"] if query.get("table") in names else next(iter(names), "")
        fields["sql"] = f"SELECT COUNT(*) AS n\nFROM {name}" if name else ""
    return _ask(call, fields, **facts)


def _ask(call: ServiceCall, fields: forms.Fields, *, status: int = 200, **facts: Any) -> PageAnswer:
    settings = call.curator.settings
    projects = [each["name"] for each in call.curator.projects(call.member)]
    frame = {
        "fields": {"nonce": secrets.token_urlsafe(16), **fields}, "tables": call.curator.tables(),
        "projects": projects, "deadline": settings.deadline,
        "plan": None, "rehearsal": None, "waits": False,
    }  # fmt: skip
    return _page(call, "ask.html", status=status, **{**frame, **facts})


def _question(call: ServiceCall, fields: forms.Fields) -> PlanRequest:
    return forms.read_question(fields, call.curator.tables())


def _asking(call: ServiceCall, answer: Callable[[forms.Fields, PlanRequest], PageAnswer]) -> PageAnswer:
    """The page of a form with a question; what refuses the question is said beside it, and the form is kept."""
    fields = _fields(call)
    try:
        return answer(fields, _question(call, fields))
    except DeniableError as refusal:
        problem = _problem(call.curator, refusal)
        if "seconds" in problem:
            call.headers["Retry-After"] = str(max(1, round(problem["seconds"])))
        return _ask(call, fields, status=problem["status"], problem=problem)


def _priced(call: ServiceCall, fields: forms.Fields, plan: dict[str, Any], **facts: Any) -> PageAnswer:
    policy = CostPolicy(call.curator.settings, call.curator.session.ledger.budget)
    waits = policy.needs_approval(RunCost.of(Guarantee.from_dict(plan["cost"])))
    return _ask(call, fields, plan=plan, waits=waits, **facts)


def plan_form(call: ServiceCall) -> Answer:
    def answer(fields: forms.Fields, request: PlanRequest) -> PageAnswer:
        return _priced(call, fields, call.curator.plan(call.member, request.text))

    return _asking(call, answer)


def rehearse_form(call: ServiceCall) -> Answer:
    def answer(fields: forms.Fields, request: PlanRequest) -> PageAnswer:
        plan = call.curator.plan(call.member, request.text)
        release = Release.from_dict(call.curator.rehearse(call.member, request.text))
        return _priced(call, fields, plan, rehearsal=describe_answer(release))

    return _asking(call, answer)


def submit_form(call: ServiceCall) -> Answer:
    """Run a question for the price that its form showed. A form that is sent twice is one run."""

    def answer(fields: forms.Fields, request: PlanRequest) -> PageAnswer:
        key = forms.run_key(fields.get("nonce", ""), request)
        run = call.curator.run_by_key(call.member, key)
        if run is None:
            plan = call.curator.plan(call.member, request.text)
            if plan["plan"] != fields.get("plan"):
                return _priced(call, fields, plan, notice=OTHER_PRICE)
            run = call.curator.submit(call.member, request.text, key)
        return _to(f"/runs/{quote(run.id)}")

    return _asking(call, answer)


def runs_page(call: ServiceCall) -> Answer:
    return _page(call, "runs.html", runs=call.curator.runs(call.member))


def run_page(call: ServiceCall) -> Answer:
    curator, member = call.curator, call.member
    run, question = curator.run(member, call.id), curator.question(member, call.id)
    facts: dict[str, Any] = {"run": run, "sql": question.sql, "answer": None, "cite": "", "seconds": 0.0}
    if run.state == DONE and run.release is not None:
        release = curator.answer(member, run.release)
        facts |= {"answer": describe_answer(release), "cite": _cite(call, release, release.title)}
    elif run.state == "running":
        facts["seconds"] = max(0.0, run.ready - curator.clock())
    elif run.state != "waiting" and (refusal := problem_of(run)) is not None:
        facts["problem"] = _problem(curator, refusal)
    return _page(call, "run.html", **facts)


# releases and budgets


def releases_page(call: ServiceCall, **facts: Any) -> Answer:
    published = [each for each in call.curator.releases(call.member) if each["title"] is not None]
    return _page(call, "releases.html", releases=published, **facts)


def publish_form(call: ServiceCall) -> Answer:
    fields = _fields(call)
    call.curator.publish(fields.get("id", "").strip(), fields.get("title", ""))
    return _to("/releases")


def budget_page(call: ServiceCall) -> Answer:
    curator = call.curator
    tables = [table["name"] for table in curator.tables() if not table["public"]]
    return _page(
        call, "budget.html", budget=curator.budget(call.member), promise=curator.promise(), tables=tables,
        projects=curator.projects(call.member),
    )  # fmt: skip


def envelope_form(call: ServiceCall) -> Answer:
    fields = _fields(call)
    call.curator.set_envelope(
        call.member, fields.get("kind", ""), fields.get("name", "").strip(), decision=fields.get("decision", ""),
        epsilon=_number(fields, "epsilon"), delta=_number(fields, "delta"),
    )  # fmt: skip
    return _to("/budget")


def grant_form(call: ServiceCall) -> Answer:
    fields = _fields(call)
    granted = fields.get("granted") == "yes"
    call.curator.set_grant(call.member, fields.get("project", ""), fields.get("account", ""), granted=granted)
    return _to("/budget")


def approvals_page(call: ServiceCall) -> Answer:
    return _page(call, "approvals.html", waiting=call.curator.approvals())


def decide_form(call: ServiceCall) -> Answer:
    fields = _fields(call)
    if fields.get("decision") not in ("approve", "deny"):
        raise InvalidArgument("decision", fields.get("decision", "")[:80], "approve or deny")
    call.curator.decide(
        call.member, call.id, approve=fields["decision"] == "approve", plan=fields.get("plan", ""),
        reason=fields.get("reason", ""),
    )  # fmt: skip
    return _to("/approvals")


# the record


def ledger_page(call: ServiceCall) -> Answer:
    query, ledger = call.request.query_params, call.curator.session.ledger
    before = query.get("before", "")
    last = int(before) if before.isascii() and before.isdigit() and len(before) < 16 else None
    newest = ledger.charges(last=MOST_CHARGES + 1) if last is None else ledger.charges()
    charges = [charge for charge in newest if last is None or charge.seq < last]
    rows = []
    for charge in reversed(charges[-MOST_CHARGES:]):
        cost = ledger.cost_of(charge)
        rows.append({"charge": charge, "cost": "–" if cost is None else cost.figures})
    verdict = None
    if "head" in query:
        try:
            text = query["head"].strip()
            ledger.verify(Head.parse(text) if text else None)
            verdict = {"fine": True, "words": "The chain is whole" + (", and this head is in it." if text else ".")}
        except DeniableError as refusal:
            verdict = {"fine": False, "words": _problem(call.curator, refusal)["detail"]}
    return _page(
        call, "ledger.html", rows=rows, older=len(charges) > len(rows), head=call.curator.head(),
        decisions=call.curator.store.approvals(MOST_CHARGES) if last is None else [],
        verdict=verdict, given=query.get("head", ""), first=last is None,
    )  # fmt: skip


# accounts and tokens


def accounts_page(call: ServiceCall) -> Answer:
    may = [role for role in roles.ROLES if roles.may_appoint(call.member.role, role)]
    return _page(call, "accounts.html", accounts=call.curator.accounts(), appoint=may)


def account_form(call: ServiceCall) -> Answer:
    fields = _fields(call)
    call.curator.add_account(
        call.member, fields.get("name", "").strip(), fields.get("role", ""), password=fields.get("password") or None,
        epsilon=_number(fields, "epsilon"), delta=_number(fields, "delta"),
    )  # fmt: skip
    return _to("/accounts")


def end_account_form(call: ServiceCall) -> Answer:
    call.curator.disable_account(call.member, call.id)
    return _to("/accounts")


def set_password_form(call: ServiceCall) -> Answer:
    fields = _fields(call)
    call.curator.set_password(call.member, fields.get("account", ""), fields.get("password", ""))
    return _to("/accounts")


def tokens_page(call: ServiceCall) -> Answer:
    now = call.curator.clock()
    tokens = [each for each in call.curator.tokens(call.member) if not each["revoked"] and each["expires"] > now]
    account = call.curator.store.account(call.member.name)
    return _page(call, "tokens.html", tokens=tokens, has_password=account is not None and account.password is not None)


def change_password_form(call: ServiceCall) -> Answer:
    """A new password of one's own, by the old one, or by a token where there was none."""
    access, fields, now, member = call.curator.access, _fields(call), call.curator.clock(), call.member
    if fields.get("new", "") != fields.get("again", ""):
        raise InvalidArgument("password", "…", "the same twice")
    if token := fields.get("token", "").strip():
        holder = access.by_token(token, now=now)
        if holder.name != member.name:
            raise AccessDenied("the token is another account's")
        member = holder
    opened = access.change_password(member, fields.get("old"), fields.get("new", ""), now=now)
    call.headers["Set-Cookie"] = cookie_header(call.curator, "" if opened is None else opened[0])
    return _to("/login" if opened is None else "/tokens")


def token_form(call: ServiceCall) -> Answer:
    """A new token; this page is the only one that ever shows it."""
    fields = _fields(call)
    account = fields.get("account") or None
    token = call.curator.add_token(
        call.member, label=fields.get("label", ""), days=forms.read_days(fields.get("days", "")), account=account
    )
    return _page(call, "token.html", status=201, token=token["token"], account=account or call.member.name)


def revoke_form(call: ServiceCall) -> Answer:
    call.curator.revoke_token(call.member, call.id)
    return _to("/tokens")
