"""Accounts, tokens, sessions, runs and approvals: tables in the ledger's own database.

They are backed up with the ledger and set back with it. SQLite and PostgreSQL both understand the statements; a
question mark stands for a value. Times are seconds since 1970.

A run's row is written before it is charged. Its answer is written once, by the worker that computed it, and only while
the run is still waited for: `advance` changes no row that is in another state. Answers have a table of their own, which
is read when they are shown: who looks at a run before its deadline would wait longer for a row that holds a large one.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from deniable.errors import InvalidArgument
from deniable.ledger.stores.locations import open_store
from deniable.ledger.stores.tables import Migrations, migration_statements

SCHEMA = 3
"""The version of these tables; the statements of `MIGRATIONS[n]` lift them from n to n + 1."""

MIGRATIONS: Migrations = {
    1: ("ALTER TABLE service_runs ADD COLUMN delta TEXT NOT NULL DEFAULT ''",),
    2: (
        "INSERT INTO service_answers SELECT id, release FROM service_runs WHERE release IS NOT NULL",
        "ALTER TABLE service_runs DROP COLUMN release",
    ),
}

KEY = "service run "
"""What the ledger's key of a run begins with, before the run's id."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS service_schema (version INTEGER PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS service_accounts (name TEXT PRIMARY KEY, role TEXT NOT NULL, password TEXT,"
    " created DOUBLE PRECISION NOT NULL, disabled INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE IF NOT EXISTS service_tokens (id TEXT PRIMARY KEY, account TEXT NOT NULL, digest TEXT NOT NULL,"
    " label TEXT NOT NULL, created DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION NOT NULL,"
    " revoked INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE IF NOT EXISTS service_sessions (digest TEXT PRIMARY KEY, account TEXT NOT NULL, form TEXT NOT NULL,"
    " used DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS service_logins (name TEXT NOT NULL, time DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS service_runs (id TEXT PRIMARY KEY, account TEXT NOT NULL, request TEXT NOT NULL,"
    " question TEXT NOT NULL, plan TEXT NOT NULL, version TEXT NOT NULL, epsilon TEXT NOT NULL,"
    " submitted DOUBLE PRECISION NOT NULL, deadline DOUBLE PRECISION NOT NULL, instance TEXT NOT NULL,"
    " state TEXT NOT NULL, charge BIGINT, error TEXT, finished DOUBLE PRECISION, copied TEXT,"
    " published TEXT, delta TEXT NOT NULL DEFAULT '')",
    "CREATE INDEX IF NOT EXISTS service_runs_account ON service_runs (account, submitted)",
    "CREATE INDEX IF NOT EXISTS service_runs_submitted ON service_runs (submitted)",
    "CREATE INDEX IF NOT EXISTS service_runs_plan ON service_runs (plan)",
    "CREATE INDEX IF NOT EXISTS service_runs_question ON service_runs (question)",
    "CREATE TABLE IF NOT EXISTS service_answers (run TEXT PRIMARY KEY, release TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS service_approvals (run TEXT PRIMARY KEY, account TEXT NOT NULL, decision TEXT NOT NULL,"
    " reason TEXT NOT NULL, plan TEXT NOT NULL, time DOUBLE PRECISION NOT NULL)",
    "CREATE TABLE IF NOT EXISTS service_identities (issuer TEXT NOT NULL, subject TEXT NOT NULL, account TEXT NOT NULL,"
    " decided TEXT NOT NULL, time DOUBLE PRECISION NOT NULL, PRIMARY KEY (issuer, subject))",
    "CREATE TABLE IF NOT EXISTS service_grants (project TEXT NOT NULL, account TEXT NOT NULL, decided TEXT NOT NULL,"
    " time DOUBLE PRECISION NOT NULL, PRIMARY KEY (project, account))",
)


class AccountRow(NamedTuple):
    """Somebody who may log in or hold tokens."""

    name: str
    role: str
    password: str | None
    """By argon2id; None where there are only tokens."""
    created: float
    disabled: int


class TokenRow(NamedTuple):
    """A bearer token, without its secret."""

    id: str
    account: str
    digest: str
    label: str
    created: float
    expires: float
    revoked: int


class SessionRow(NamedTuple):
    """A browser's session; `form` is the token that its forms carry."""

    digest: str
    account: str
    form: str
    used: float
    expires: float


class RunRow(NamedTuple):
    """A run, from its row before the charge to its answer."""

    id: str
    account: str
    request: str
    """What was asked, as JSON."""
    question: str
    """The SHA-256 of the request."""
    plan: str
    """The digest of the resolved plan."""
    version: str
    """Of the data."""
    epsilon: str
    """What it costs, as a fraction; empty where the cost is not stated in ε and δ."""
    submitted: float
    deadline: float
    instance: str
    state: str
    """waiting, denied, queued, refused, charged, done, failed or lost (`jobs`)."""
    charge: int | None
    """The ledger's row that paid."""
    error: str | None
    finished: float | None
    copied: str | None
    """The run whose answer this one reads."""
    published: str | None
    """The title under which everybody may read it."""
    delta: str
    """What it costs beside ε, as a fraction; empty where the cost has none."""


class ApprovalRow(NamedTuple):
    """What a second person decided about a run, and the plan that they saw."""

    run: str
    account: str
    decision: str
    reason: str
    plan: str
    time: float


class ServiceStore:
    """The tables of the service, over a connection of its own to the ledger's database."""

    def __init__(self, place: str) -> None:
        store: Any = open_store(place)
        self._store = store
        with store.writing():
            for statement in _TABLES:
                store.ask(statement)
            versions = store.ask("SELECT version FROM service_schema")
            if not versions:
                store.ask("INSERT INTO service_schema (version) VALUES (?)", SCHEMA)
            elif (version := versions[0][0]) != SCHEMA:
                where = "the service's database"
                lifts = migration_statements(version, current=SCHEMA, migrations=MIGRATIONS, location=where)
                for statement in (*lifts, f"UPDATE service_schema SET version = {SCHEMA}"):
                    store.ask(statement)

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement; what it returns. No row has a text with NUL, which PostgreSQL cannot hold."""
        if any(isinstance(value, str) and "\0" in value for value in values):
            raise InvalidArgument("text", "…", "without the character NUL")
        rows: list[tuple[Any, ...]] = self._store.ask(statement, *values)
        return rows

    def writing(self) -> AbstractContextManager[None]:
        """A context with one writer at a time, over all processes; durable when it ends."""
        context: AbstractContextManager[None] = self._store.writing()
        return context

    def close(self) -> None:
        """Let go of the connection."""
        self._store.close()

    # accounts

    def account(self, name: str) -> AccountRow | None:
        """An account by its name."""
        rows = self.ask("SELECT * FROM service_accounts WHERE name = ?", name)
        return AccountRow(*rows[0]) if rows else None

    def accounts(self) -> list[AccountRow]:
        """All accounts."""
        return [AccountRow(*row) for row in self.ask("SELECT * FROM service_accounts ORDER BY name")]

    def token(self, id: str) -> TokenRow | None:
        """A token by its id."""
        rows = self.ask("SELECT * FROM service_tokens WHERE id = ?", id)
        return TokenRow(*rows[0]) if rows else None

    def tokens(self, account: str) -> list[TokenRow]:
        """The tokens of one account."""
        rows = self.ask("SELECT * FROM service_tokens WHERE account = ? ORDER BY created, id", account)
        return [TokenRow(*row) for row in rows]

    def session(self, digest: str) -> SessionRow | None:
        """A browser's session by the digest of its cookie."""
        rows = self.ask("SELECT * FROM service_sessions WHERE digest = ?", digest)
        return SessionRow(*rows[0]) if rows else None

    # projects

    def grants(self) -> list[tuple[str, str]]:
        """The projects, and the accounts that may name them."""
        rows = self.ask("SELECT project, account FROM service_grants ORDER BY project, account")
        return [(project, account) for project, account in rows]

    def is_granted(self, project: str, account: str) -> bool:
        """Whether an account may name a project."""
        return bool(self.ask("SELECT 1 FROM service_grants WHERE project = ? AND account = ?", project, account))

    # runs

    def run(self, id: str) -> RunRow | None:
        """A run by its id."""
        rows = self.ask("SELECT * FROM service_runs WHERE id = ?", id)
        return RunRow(*rows[0]) if rows else None

    def runs(self, condition: str, *values: object) -> list[RunRow]:
        """Runs, the newest first."""
        rows = self.ask(f"SELECT * FROM service_runs WHERE {condition} ORDER BY submitted DESC, id", *values)
        return [RunRow(*row) for row in rows]

    def add_run(self, run: RunRow) -> None:
        """A new run, before it is charged."""
        self.ask(f"INSERT INTO service_runs VALUES ({', '.join('?' * len(run))})", *run)

    def advance(self, id: str, old: str, new: str, **changes: object) -> bool:
        """Take a run from one state to another; False where it is in another state than `old` by now."""
        listed = ", ".join(f"{name} = ?" for name in ("state", *changes))
        returned = self.ask(
            f"UPDATE service_runs SET {listed} WHERE id = ? AND state = ? RETURNING id",
            new, *changes.values(), id, old,
        )  # fmt: skip
        return bool(returned)

    def add_answer(self, id: str, old: str, new: str, *, release: str, finished: float) -> bool:
        """Store the answer of a run with its new state; False, and nothing is stored, where it is not in `old`."""
        with self.writing():
            waited = self.advance(id, old, new, finished=finished)
            if waited:
                self.ask("INSERT INTO service_answers VALUES (?, ?)", id, release)
        return waited

    def answer(self, id: str) -> str | None:
        """The answer of a run, as JSON: for who may see it, and not before its time."""
        rows = self.ask("SELECT release FROM service_answers WHERE run = ?", id)
        return str(rows[0][0]) if rows else None

    def unknown_keys(self) -> list[tuple[str, int]]:
        """Ids of runs that the ledger charged and that have no row here, with the ledger's row: they were set back."""
        return [
            (key.removeprefix(KEY), seq)
            for key, seq in self.ask("SELECT key, seq FROM rows WHERE key LIKE ? ORDER BY seq", f"{KEY}%")
            if self.run(key.removeprefix(KEY)) is None
        ]

    def uncharged(self) -> list[str]:
        """Ids of runs whose row in the ledger is gone: the ledger was set back."""
        keys = dict(self.ask("SELECT key, seq FROM rows WHERE key LIKE ?", f"{KEY}%"))
        charged = self.ask("SELECT id, charge FROM service_runs WHERE charge IS NOT NULL AND copied IS NULL")
        return [id for id, charge in charged if keys.get(f"{KEY}{id}") != charge]

    # approvals

    def approval(self, run: str) -> ApprovalRow | None:
        """What was decided about a run."""
        rows = self.ask("SELECT * FROM service_approvals WHERE run = ?", run)
        return ApprovalRow(*rows[0]) if rows else None

    def approvals(self, most: int) -> list[ApprovalRow]:
        """What was decided, the newest first."""
        rows = self.ask("SELECT * FROM service_approvals ORDER BY time DESC, run LIMIT ?", most)
        return [ApprovalRow(*row) for row in rows]
