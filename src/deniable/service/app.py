"""HTTP over `Curator`: who asks, what they may, how much they may send; then one call, and its value as JSON.

Every route comes from the table in `roles`, and is refused to every role that its line does not name. A browser's
session may write only with the token of its forms, from the service's own pages. Logs have the route, the role, the
status and the size of the duration; no SQL, no value, no token.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any

from deniable.errors import AccessDenied, DeniableError, InvalidArgument, MissingExtra, NotThere, ServiceBusy
from deniable.service import requests, roles
from deniable.service.access import Member, is_form_token
from deniable.service.curator import Curator, problem_of
from deniable.service.jobs import DONE, RunView
from deniable.service.problems import TYPE, to_problem
from deniable.service.roles import Endpoint

try:
    import msgspec
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute, Route
except ModuleNotFoundError as error:
    raise MissingExtra(error.name or "starlette", "serve") from error

LOG = logging.getLogger("deniable.service")
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "Strict-Transport-Security": "max-age=31536000",
}
BODY_SECONDS = 30.0
"""In which a body must have come: a connection that never ends one holds a place of others."""
BUCKETS = (0.01, 0.1, 1.0, 10.0)
"""Seconds: durations are told by the first that is not exceeded."""
OIDC = "-oidc"
"""The end of the name of the cookie that keeps what belongs to a log-in at an OpenID provider."""
_QUICK = frozenset({"health", "me", "release", "run"})
"""Endpoints that read one row: they are answered without a thread."""


class LogIn(msgspec.Struct, forbid_unknown_fields=True):
    """A name and a password."""

    name: str
    password: str


class NewAccount(msgspec.Struct, forbid_unknown_fields=True):
    """An account to make."""

    name: str
    role: str
    password: str | None = None
    epsilon: requests.Numeral | None = None
    delta: requests.Numeral | None = None


class NewPassword(msgspec.Struct, forbid_unknown_fields=True):
    """A password, and the old one where it is one's own."""

    new: str
    old: str | None = None


class NewIdentity(msgspec.Struct, forbid_unknown_fields=True):
    """By which subject of the OpenID provider an account logs in; null for none."""

    subject: str | None


class Grant(msgspec.Struct, forbid_unknown_fields=True):
    """Whether an analyst may name a project."""

    account: str
    granted: bool


class NewEnvelope(msgspec.Struct, forbid_unknown_fields=True):
    """A budget to open or raise, and who decided it."""

    kind: str
    name: str
    epsilon: requests.Numeral
    decision: str
    delta: requests.Numeral | None = None


class NewToken(msgspec.Struct, forbid_unknown_fields=True):
    """A token to make; for another account by who appoints."""

    label: str = ""
    days: float | None = None
    account: str | None = None


class Decision(msgspec.Struct, forbid_unknown_fields=True):
    """What a second person decides about the plan of this digest."""

    approve: bool
    plan: str
    reason: str


class Title(msgspec.Struct, forbid_unknown_fields=True):
    """The title of a published release."""

    title: str


BODIES: dict[str, Any] = {
    "plan": requests.PlanRequest, "rehearse": requests.PlanRequest, "submit": requests.PlanRequest,
    "log_in": LogIn, "add_account": NewAccount, "set_envelope": NewEnvelope, "add_token": NewToken,
    "decide": Decision, "publish": Title, "change_password": NewPassword, "set_password": NewPassword,
    "set_grant": Grant, "set_identity": NewIdentity,
}  # fmt: skip


class ServiceCall:
    """One request: who asks, what came, and the curator that answers."""

    def __init__(self, curator: Curator, request: Request, member: Member, body: bytes) -> None:
        self.curator, self.request, self.member, self.body = curator, request, member, body
        self.headers: dict[str, str] = {}
        """What the answer carries beside the usual ones."""

    @property
    def id(self) -> str:
        """The id in the path."""
        return str(self.request.path_params.get("id", ""))

    def decode(self, kind: Any) -> Any:
        """The body as a value of a kind."""
        return requests.decode(self.body, kind)


Answer = tuple[int, Any]
"""A status, and a value for JSON, or a response."""


def health(call: ServiceCall) -> Answer:
    return 200, {"status": "ok"}


def openapi(call: ServiceCall) -> Answer:
    return 200, document()


def log_in(call: ServiceCall) -> Answer:
    given: LogIn = call.decode(LogIn)
    curator = call.curator
    cookie, member = curator.access.log_in(given.name, given.password, now=curator.clock())
    if (earlier := cookie_of(curator, call.request)) is not None:
        curator.access.log_out(earlier)
    call.headers["Set-Cookie"] = cookie_header(curator, cookie)
    return 200, {"name": member.name, "role": member.role, "form": member.form}


def log_out(call: ServiceCall) -> Answer:
    if (cookie := cookie_of(call.curator, call.request)) is not None:
        call.curator.access.log_out(cookie)
    call.headers["Set-Cookie"] = cookie_header(call.curator, "")
    return 204, None


def start_oidc(call: ServiceCall) -> Answer:
    start = call.curator.provider.start()
    call.headers["Set-Cookie"] = cookie_header(call.curator, start.kept, suffix=OIDC, seconds=600)
    return 303, Response(status_code=303, headers={"Location": start.address})


def finish_oidc(call: ServiceCall) -> Answer:
    curator = call.curator
    kept = call.request.cookies.get(cookie_name(curator, OIDC))
    subject = curator.provider.finish(kept, dict(call.request.query_params))
    cookie, _ = curator.access.log_in_as(curator.settings.oidc["issuer"], subject, now=curator.clock())
    if (earlier := cookie_of(curator, call.request)) is not None:
        curator.access.log_out(earlier)
    response = Response(status_code=303, headers={"Location": "/"})
    response.headers.append("Set-Cookie", cookie_header(curator, "", suffix=OIDC))
    response.headers.append("Set-Cookie", cookie_header(curator, cookie))
    return 303, response


def me(call: ServiceCall) -> Answer:
    return 200, {"name": call.member.name, "role": call.member.role, "form": call.member.form}


def change_password(call: ServiceCall) -> Answer:
    given: NewPassword = call.decode(NewPassword)
    curator = call.curator
    opened = curator.access.change_password(call.member, given.old, given.new, now=curator.clock())
    if opened is None:
        return 200, {"form": None}
    cookie, member = opened
    call.headers["Set-Cookie"] = cookie_header(curator, cookie)
    return 200, {"form": member.form}


def tables(call: ServiceCall) -> Answer:
    return 200, call.curator.tables()


def plan(call: ServiceCall) -> Answer:
    return 200, call.curator.plan(call.member, call.body)


def rehearse(call: ServiceCall) -> Answer:
    return 200, call.curator.rehearse(call.member, call.body)


def submit(call: ServiceCall) -> Answer:
    key = call.request.headers.get("idempotency-key")
    if key is None:
        raise InvalidArgument("Idempotency-Key", None, "given: a word that names this run, new for every run")
    told = call.curator.submit(call.member, call.body, key)
    call.headers["Location"] = f"/v1/runs/{told.id}"
    return 202, _run(call, told)


def runs(call: ServiceCall) -> Answer:
    return 200, call.curator.runs(call.member)


def run(call: ServiceCall) -> Answer:
    return 200, _run(call, call.curator.run(call.member, call.id))


def _run(call: ServiceCall, told: RunView) -> dict[str, Any]:
    refusal = problem_of(told)
    if told.state not in (DONE, "failed", "refused", "denied"):
        call.headers["Retry-After"] = str(max(1, round(told.ready - call.curator.clock())))
    seconds = max(0.0, told.ready - call.curator.clock())  # for clients whose clock is another
    return {**told._asdict(), "seconds": seconds, "problem": None if refusal is None else to_problem(refusal)}


def releases(call: ServiceCall) -> Answer:
    return 200, call.curator.releases(call.member)


def release(call: ServiceCall) -> Answer:
    id, _, form = call.id.partition(".")
    text = call.curator.answer_text(call.member, id)
    if form == "csv":
        return 200, Response(call.curator.answer_csv(call.member, id), media_type="text/csv; charset=utf-8")
    if form not in ("", "json"):
        raise NotThere("there is no such form of a release: csv or json")
    return 200, Response(text, media_type="application/json")


def publish(call: ServiceCall) -> Answer:
    call.curator.publish(call.id, call.decode(Title).title)
    return 204, None


def budget(call: ServiceCall) -> Answer:
    return 200, call.curator.budget(call.member)


def approvals(call: ServiceCall) -> Answer:
    return 200, call.curator.approvals()


def decide(call: ServiceCall) -> Answer:
    given: Decision = call.decode(Decision)
    told = call.curator.decide(call.member, call.id, approve=given.approve, plan=given.plan, reason=given.reason)
    return 200, _run(call, told)


def ledger(call: ServiceCall) -> Answer:
    return 200, call.curator.charges()


def export(call: ServiceCall) -> Answer:
    text = "".join(f"{line}\n" for line in call.curator.export())
    return 200, Response(text, media_type="application/jsonl")


def head(call: ServiceCall) -> Answer:
    return 200, call.curator.head()


def accounts(call: ServiceCall) -> Answer:
    return 200, call.curator.accounts()


def add_account(call: ServiceCall) -> Answer:
    given: NewAccount = call.decode(NewAccount)
    call.curator.add_account(
        call.member, given.name, given.role, password=given.password,
        epsilon=requests.read_number("epsilon", given.epsilon), delta=requests.read_number("delta", given.delta),
    )  # fmt: skip
    return 201, {"name": given.name, "role": given.role}


def disable_account(call: ServiceCall) -> Answer:
    call.curator.disable_account(call.member, call.id)
    return 204, None


def set_identity(call: ServiceCall) -> Answer:
    call.curator.set_identity(call.member, call.id, call.decode(NewIdentity).subject)
    return 204, None


def set_password(call: ServiceCall) -> Answer:
    given: NewPassword = call.decode(NewPassword)
    if given.old is not None:
        raise InvalidArgument("old", "…", "left out: it is not yours")
    call.curator.set_password(call.member, call.id, given.new)
    return 204, None


def projects(call: ServiceCall) -> Answer:
    return 200, call.curator.projects(call.member)


def set_grant(call: ServiceCall) -> Answer:
    given: Grant = call.decode(Grant)
    call.curator.set_grant(call.member, call.id, given.account, granted=given.granted)
    return 204, None


def set_envelope(call: ServiceCall) -> Answer:
    given: NewEnvelope = call.decode(NewEnvelope)
    call.curator.set_envelope(
        call.member, given.kind, given.name, decision=given.decision,
        epsilon=requests.read_number("epsilon", given.epsilon), delta=requests.read_number("delta", given.delta),
    )  # fmt: skip
    return 204, None


def tokens(call: ServiceCall) -> Answer:
    return 200, call.curator.tokens(call.member)


def add_token(call: ServiceCall) -> Answer:
    given: NewToken = call.decode(NewToken)
    made = call.curator.add_token(call.member, label=given.label, days=given.days, account=given.account)
    return 201, made


def revoke_token(call: ServiceCall) -> Answer:
    call.curator.revoke_token(call.member, call.id)
    return 204, None


def metrics(call: ServiceCall) -> Answer:
    counts: Counter[tuple[str, int, str]] = call.request.app.state.counts
    lines = [
        f'deniable_requests_total{{route="{route}",status="{status}",seconds="{bucket}"}} {count}'
        for (route, status, bucket), count in sorted(counts.items())
    ]
    lines.append(f"deniable_heads_unwritten_total {call.curator.jobs.unwritten_heads}")
    return 200, Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


# who asks


def cookie_name(curator: Curator, suffix: str = "") -> str:
    """The name of the session's cookie; with the prefix browsers keep it to this host, this path and TLS."""
    return f"{'__Host-' if curator.settings.secure_cookies else ''}deniable{suffix}"


def cookie_header(curator: Curator, cookie: str, *, suffix: str = "", seconds: int | None = None) -> str:
    """The header that sets the session's cookie, or ends it where it is empty."""
    secure = "; Secure" if curator.settings.secure_cookies else ""
    ends = "; Max-Age=0" if not cookie else "" if seconds is None else f"; Max-Age={seconds}"
    return f"{cookie_name(curator, suffix)}={cookie}; Path=/; HttpOnly; SameSite=Lax{secure}{ends}"


def cookie_of(curator: Curator, request: Request) -> str | None:
    """The session's cookie that a request carries."""
    return request.cookies.get(cookie_name(curator))


def member_of(curator: Curator, request: Request, endpoint: Endpoint) -> Member:
    """Who sends a request: by a bearer token, by a session's cookie, or the public. Who logs in says so in the body; a
    session that has ended is nobody's, and what everybody may read can be read with its cookie."""
    shown = request.headers.get("authorization")
    if shown is not None:
        scheme, _, text = shown.partition(" ")
        if scheme.lower() != "bearer":
            raise AccessDenied("the Authorization must be a bearer token")
        return curator.access.by_token(text.strip(), now=curator.clock())
    cookie, public = cookie_of(curator, request), Member("", roles.PUBLIC)
    if not cookie or endpoint.name in ("log_in", "log_in_form"):
        return public
    try:
        return curator.access.by_cookie(cookie, now=curator.clock())
    except AccessDenied:
        if roles.permits(endpoint, roles.PUBLIC):
            return public
        raise


def check_origin(curator: Curator, request: Request) -> None:
    """Refuse what another site's page makes a browser send. A program sends neither header, and has no cookie."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = {f"{request.url.scheme}://{request.headers.get('host', '')}", *curator.settings.origins}
    if (site is not None and site != "same-origin") or (origin is not None and origin not in own):
        raise AccessDenied("this request comes from another site")


def check_write(curator: Curator, request: Request, member: Member, form: str | None) -> None:
    """Refuse a write by a browser's session that no page of the service has sent."""
    check_origin(curator, request)
    if member.form is None:
        return
    if request.headers.get("sec-fetch-site") is None and request.headers.get("origin") is None:
        raise AccessDenied("this request says not where it comes from")
    if not is_form_token(member, form):
        raise AccessDenied("the form is not of this session; load the page again")


async def read_body(request: Request, most: int) -> bytes:
    """The body of a request; refused as soon as it is too long, or takes too long."""
    stated = request.headers.get("content-length", "0")
    if not (stated.isascii() and stated.isdigit()) or len(stated) > 18 or int(stated) > most:
        raise InvalidArgument("body", "…", f"of at most {most:,} bytes")
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise InvalidArgument("body", "…", f"of at most {most:,} bytes")
    except TimeoutError:
        raise InvalidArgument("body", "…", f"sent within {BODY_SECONDS:g} seconds") from None
    return bytes(body)


# the application


def make_app(curator: Curator, *, pages: Sequence[BaseRoute] = ()) -> Starlette:
    """The JSON interface of a curator, by the table in `roles`, and routes of pages beside it."""
    routes: list[BaseRoute] = [
        Route(endpoint.path, make_endpoint(curator, endpoint, globals()[endpoint.name]), methods=[endpoint.method])
        for endpoint in roles.ENDPOINTS
    ]
    routes += pages
    app = Starlette(routes=routes, exception_handlers={404: _unknown, 405: _unknown, 500: _broken, Exception: _broken})
    app.router.redirect_slashes = False  # a path is one of the table, or unknown: no answer names an address that came
    app.state.curator, app.state.counts = curator, Counter()
    return app


Refuse = Callable[[Curator, Request, Member | None, DeniableError], Response]
"""How a refusal is told: to whom, if that is known."""


def _refuse(curator: Curator, request: Request, member: Member | None, refusal: DeniableError) -> Response:
    public = member is None or member.role == roles.PUBLIC
    return refused(refusal, public=public, hidden=curator.settings.places)


def _form_header(request: Request, body: bytes) -> str | None:
    return request.headers.get("x-form-token")


def make_endpoint(
    curator: Curator,
    endpoint: Endpoint,
    answer: Callable[[ServiceCall], Answer],
    *,
    form: Callable[[Request, bytes], str | None] = _form_header,
    refuse: Refuse = _refuse,
    headers: Mapping[str, str] = HEADERS,
) -> Callable[[Request], Awaitable[Response]]:
    """What answers one line of the table, after who asks, what they may, and where a write comes from were checked.

    Args:
        curator: Answers.
        endpoint: The line.
        answer: What to do.
        form: Finds the token of a browser's form in a request and its body.
        refuse: How a refusal is told.
        headers: What every answer carries.
    """

    async def handle(request: Request) -> Response:
        start, member = time.perf_counter(), None
        more: dict[str, str] = {}
        try:
            member = member_of(curator, request, endpoint)
            if not roles.permits(endpoint, member.role):
                public = member.role == roles.PUBLIC
                raise AccessDenied("log in, or show a token" if public else "this is not for your role")
            body = b""
            if endpoint.method != "GET":
                check_origin(curator, request)
                body = await read_body(request, curator.settings.most_body)
                check_write(curator, request, member, form(request, body))
            call = ServiceCall(curator, request, member, body)
            quick = endpoint.name in _QUICK
            status, value = answer(call) if quick else await run_in_threadpool(answer, call)
            more = call.headers
            response = value if isinstance(value, Response) else _json(status, value)
        except DeniableError as refusal:
            response = refuse(curator, request, member, refusal)
        response.headers.update({**headers, **more})
        role = "?" if member is None else member.role
        _count(request, endpoint, role, response.status_code, time.perf_counter() - start)
        return response

    return handle


def _json(status: int, value: Any) -> Response:
    content = b"" if value is None else msgspec.json.encode(value)
    return Response(content, status, media_type=None if value is None else "application/json")


def refused(refusal: DeniableError, *, public: bool = False, hidden: Sequence[str] = ()) -> Response:
    """The RFC 9457 body of an error, without the places that are hidden."""
    problem = to_problem(refusal, hidden=hidden)
    if isinstance(refusal, AccessDenied) and public:
        problem["status"] = 401
    response = Response(msgspec.json.encode(problem), problem["status"], media_type="application/problem+json")
    if problem["status"] == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if isinstance(refusal, ServiceBusy):
        response.headers["Retry-After"] = str(max(1, round(refusal.seconds)))
    return response


async def _unknown(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    problem = {"type": f"{TYPE}NotThere", "title": "There is no such thing.", "status": status, "detail": "not here"}
    return Response(msgspec.json.encode(problem), status, media_type="application/problem+json", headers=HEADERS)


async def _broken(request: Request, error: Exception) -> Response:
    """A mistake of the service's own: its kind is counted, and nothing of it is told."""
    LOG.error("broken %s", type(error).__name__)
    problem = {
        "type": f"{TYPE}DeniableError",
        "title": "The service failed.",
        "status": 500,
        "detail": "ask its keeper",
    }
    return Response(msgspec.json.encode(problem), 500, media_type="application/problem+json", headers=HEADERS)


def _count(request: Request, endpoint: Endpoint, role: str, status: int, seconds: float) -> None:
    bucket = next((f"{most:g}" for most in BUCKETS if seconds <= most), "more")
    request.app.state.counts[endpoint.name, status, bucket] += 1
    LOG.info("%s %s %s %s %s", endpoint.method, endpoint.path, role, status, bucket)


@cache
def document() -> dict[str, Any]:
    """The OpenAPI 3.1 document, from the table of endpoints and the kinds of bodies."""
    kinds = list(dict.fromkeys(BODIES.values()))
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    bodies = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in roles.ENDPOINTS:
        told: dict[str, Any] = {
            "operationId": endpoint.name,
            "responses": {"200": {"description": "fine"}, "default": {"description": "an RFC 9457 problem"}},
            "security": [] if roles.PUBLIC in endpoint.roles else [{"token": []}],
        }
        if "{id}" in endpoint.path:
            told["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
        if endpoint.name == "submit":
            key = {"name": "Idempotency-Key", "in": "header", "required": True, "schema": {"type": "string"}}
            told["parameters"] = [key]
        if endpoint.name in BODIES:
            content = {"application/json": {"schema": bodies[BODIES[endpoint.name]]}}
            told["requestBody"] = {"required": True, "content": content}
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = told
    return {
        "openapi": "3.1.0",
        "info": {"title": "deniable", "version": "1"},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }
