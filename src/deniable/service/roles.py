"""Who may call what: one table. What is not in it does not exist, and who is not in a line of it is refused.

An owner appoints; a curator keeps accounts, envelopes and approvals; an analyst asks; an auditor reads the record.
Nobody reads a row of a table, and nobody but who asked reads an answer that is not published. `PUBLIC` is everybody,
also without an account. A page is for those who may do the same over the JSON interface.
"""

from __future__ import annotations

from typing import NamedTuple

OWNER, CURATOR, ANALYST, AUDITOR, PUBLIC = "owner", "curator", "analyst", "auditor", "public"
ROLES = (OWNER, CURATOR, ANALYST, AUDITOR)
"""What an account can be."""

_STEWARDS = frozenset({OWNER, CURATOR})
_EVERYBODY = frozenset({PUBLIC, *ROLES})
_MEMBERS = frozenset(ROLES)
_READERS = frozenset({OWNER, CURATOR, AUDITOR})


class Endpoint(NamedTuple):
    """One line of the table."""

    method: str
    path: str
    name: str
    """The function of `app` that answers it."""
    roles: frozenset[str]


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/healthz", "health", _EVERYBODY),
    Endpoint("GET", "/v1/openapi.json", "openapi", _EVERYBODY),
    Endpoint("POST", "/v1/sessions", "log_in", _EVERYBODY),
    Endpoint("DELETE", "/v1/sessions", "log_out", _MEMBERS),
    Endpoint("GET", "/v1/oidc", "start_oidc", _EVERYBODY),
    Endpoint("GET", "/v1/oidc/callback", "finish_oidc", _EVERYBODY),
    Endpoint("GET", "/v1/me", "me", _MEMBERS),
    Endpoint("POST", "/v1/password", "change_password", _MEMBERS),
    Endpoint("GET", "/v1/tables", "tables", _MEMBERS),
    Endpoint("POST", "/v1/plans", "plan", frozenset({ANALYST, CURATOR, OWNER})),
    Endpoint("POST", "/v1/rehearsals", "rehearse", frozenset({ANALYST, CURATOR, OWNER})),
    Endpoint("POST", "/v1/runs", "submit", frozenset({ANALYST})),
    Endpoint("GET", "/v1/runs", "runs", frozenset({ANALYST})),
    Endpoint("GET", "/v1/runs/{id}", "run", frozenset({ANALYST})),
    Endpoint("GET", "/v1/releases", "releases", _MEMBERS),
    Endpoint("GET", "/v1/releases/{id}", "release", _EVERYBODY),
    Endpoint("POST", "/v1/releases/{id}/publication", "publish", _STEWARDS),
    Endpoint("GET", "/v1/budget", "budget", _MEMBERS),
    Endpoint("GET", "/v1/approvals", "approvals", _STEWARDS),
    Endpoint("POST", "/v1/approvals/{id}", "decide", _STEWARDS),
    Endpoint("GET", "/v1/ledger", "ledger", _READERS),
    Endpoint("GET", "/v1/ledger/export", "export", _READERS),
    Endpoint("GET", "/v1/head", "head", _READERS),
    Endpoint("GET", "/v1/accounts", "accounts", _STEWARDS),
    Endpoint("POST", "/v1/accounts", "add_account", _STEWARDS),
    Endpoint("DELETE", "/v1/accounts/{id}", "disable_account", _STEWARDS),
    Endpoint("POST", "/v1/accounts/{id}/password", "set_password", _STEWARDS),
    Endpoint("POST", "/v1/accounts/{id}/identity", "set_identity", _STEWARDS),
    Endpoint("POST", "/v1/envelopes", "set_envelope", _STEWARDS),
    Endpoint("GET", "/v1/projects", "projects", _MEMBERS),
    Endpoint("POST", "/v1/projects/{id}", "set_grant", _STEWARDS),
    Endpoint("GET", "/v1/tokens", "tokens", _MEMBERS),
    Endpoint("POST", "/v1/tokens", "add_token", _MEMBERS),
    Endpoint("DELETE", "/v1/tokens/{id}", "revoke_token", _MEMBERS),
    Endpoint("GET", "/metrics", "metrics", _STEWARDS),
)


def _page(method: str, path: str, name: str, like: str) -> Endpoint:
    """A page, for those who may call the endpoint that it is like."""
    return Endpoint(method, path, name, next(each.roles for each in ENDPOINTS if each.name == like))


PAGES: tuple[Endpoint, ...] = (
    # The names are functions of `pages`.
    _page("GET", "/", "home_page", "health"),
    _page("GET", "/assets/{id}", "asset", "health"),
    _page("GET", "/login", "log_in_page", "log_in"),
    _page("POST", "/login", "log_in_form", "log_in"),
    _page("POST", "/logout", "log_out_form", "log_out"),
    _page("GET", "/tables", "tables_page", "tables"),
    _page("GET", "/ask", "ask_page", "plan"),
    _page("POST", "/ask", "plan_form", "plan"),
    _page("POST", "/rehearsal", "rehearse_form", "rehearse"),
    _page("POST", "/runs", "submit_form", "submit"),
    _page("GET", "/runs", "runs_page", "runs"),
    _page("GET", "/runs/{id}", "run_page", "run"),
    _page("GET", "/releases", "releases_page", "releases"),
    _page("GET", "/p/{id}", "release_page", "release"),
    _page("POST", "/publications", "publish_form", "publish"),
    _page("GET", "/budget", "budget_page", "budget"),
    _page("POST", "/envelopes", "envelope_form", "set_envelope"),
    _page("POST", "/grants", "grant_form", "set_grant"),
    _page("GET", "/approvals", "approvals_page", "approvals"),
    _page("POST", "/approvals/{id}", "decide_form", "decide"),
    _page("GET", "/ledger", "ledger_page", "ledger"),
    _page("GET", "/accounts", "accounts_page", "accounts"),
    _page("POST", "/accounts", "account_form", "add_account"),
    _page("POST", "/accounts/{id}/end", "end_account_form", "disable_account"),
    _page("POST", "/passwords", "set_password_form", "set_password"),
    _page("GET", "/tokens", "tokens_page", "tokens"),
    _page("POST", "/password", "change_password_form", "change_password"),
    _page("POST", "/tokens", "token_form", "add_token"),
    _page("POST", "/tokens/{id}/revoke", "revoke_form", "revoke_token"),
)
"""The pages of the service, beside its JSON interface."""


def permits(endpoint: Endpoint, role: str) -> bool:
    """Whether a role may call an endpoint."""
    return role in endpoint.roles


def may_appoint(role: str, new: str) -> bool:
    """Whether a role may make an account of another: an owner any, a curator analysts and auditors."""
    return role == OWNER or (role == CURATOR and new in (ANALYST, AUDITOR))
