"""Passwords, bearer tokens and browser sessions.

A token is `dn_<id>_<secret>`, 256 random bits that are shown once; the store has the SHA-256 of it. A password is kept
by argon2id, and a name that does not exist takes as long as a wrong password. A session is a row of the store, found
by the SHA-256 of a random cookie; logging in always makes a new one.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
from hmac import compare_digest
from typing import NamedTuple

from deniable.errors import AccessDenied, InvalidArgument, MissingExtra, ServiceBusy
from deniable.ledger.records import check_who
from deniable.service.roles import ROLES
from deniable.service.settings import ServiceSettings
from deniable.service.store import AccountRow, ServiceStore

try:
    import argon2
except ModuleNotFoundError as error:
    raise MissingExtra("argon2", "serve") from error

HASHER = argon2.PasswordHasher()
LEAST_PASSWORD, MOST_PASSWORD = 12, 200
MOST_LOGINS = 4
"""Log-ins at a time in one worker: everybody may try, and each takes 64 MiB and a good part of a second."""
_TOKEN = re.compile(r"dn_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")


class Member(NamedTuple):
    """Who asks: an account, or the public where `name` is empty."""

    name: str
    role: str
    form: str | None = None
    """The token that a write of this browser session must carry; None with a bearer token."""


class Access:
    """Who somebody is, by what they show."""

    def __init__(self, store: ServiceStore, settings: ServiceSettings) -> None:
        self._store, self._settings = store, settings
        self._nobody = HASHER.hash(secrets.token_urlsafe())
        self._hashing = threading.BoundedSemaphore(MOST_LOGINS)

    # accounts

    def add_account(self, name: str, role: str, *, password: str | None, now: float) -> None:
        """A new account; a name is never given twice."""
        check_who(name)
        if "/" in name or name in (".", ".."):
            raise InvalidArgument("name", name, "a name without /, which an address can hold")
        if role not in ROLES:
            raise InvalidArgument("role", role, f"one of {', '.join(ROLES)}")
        if password is not None and not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
            raise InvalidArgument("password", "…", f"of {LEAST_PASSWORD} to {MOST_PASSWORD} characters")
        digest = None if password is None else HASHER.hash(password)
        with self._store.writing():
            if self._store.account(name) is not None:
                raise InvalidArgument("name", name, "a name that no account has or had")
            self._store.ask("INSERT INTO service_accounts VALUES (?, ?, ?, ?, 0)", name, role, digest, now)

    def disable(self, name: str) -> None:
        """Take away all access of an account. Its runs and charges stay."""
        with self._store.writing():
            self._store.ask("UPDATE service_accounts SET disabled = 1 WHERE name = ?", name)
            self._end(name)

    def end(self, name: str) -> None:
        """End all tokens and sessions of an account, which may get new ones."""
        with self._store.writing():
            self._end(name)

    def _end(self, name: str) -> None:
        self._store.ask("UPDATE service_tokens SET revoked = 1 WHERE account = ?", name)
        self._store.ask("DELETE FROM service_sessions WHERE account = ?", name)

    def _member(self, name: str, form: str | None = None) -> Member | None:
        account = self._store.account(name)
        return None if account is None or account.disabled else Member(name, account.role, form)

    # tokens

    def add_token(self, account: str, *, label: str, days: float | None, now: float) -> tuple[str, str]:
        """The id and the text of a new token. The text is not kept."""
        days = self._settings.token_days if days is None else days
        if not 0 < days <= 366:
            raise InvalidArgument("days", days, "above 0 and at most 366")
        id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        text = f"dn_{id}_{secret}"
        self._store.ask(
            "INSERT INTO service_tokens VALUES (?, ?, ?, ?, ?, ?, 0)",
            id, account, _digest(text), label[:100], now, now + days * 86_400,
        )  # fmt: skip
        return id, text

    def revoke(self, id: str, *, account: str) -> bool:
        """Revoke a token of an account; False where it has none of that id."""
        returned = self._store.ask(
            "UPDATE service_tokens SET revoked = 1 WHERE id = ? AND account = ? RETURNING id", id, account
        )
        return bool(returned)

    def by_token(self, text: str, *, now: float) -> Member:
        """Who shows a bearer token."""
        match = _TOKEN.fullmatch(text)
        row = self._store.token(match[1]) if match else None
        if row is None or not compare_digest(row.digest, _digest(text)) or row.revoked or row.expires <= now:
            raise AccessDenied("the token is not known, has expired, or was revoked")
        member = self._member(row.account)
        if member is None:
            raise AccessDenied("the token is not known, has expired, or was revoked")
        return member

    # browser sessions

    def log_in(self, name: str, password: str, *, now: float) -> tuple[str, Member]:
        """A new session's cookie, and who it is. Five tries a minute for a name, and few at a time for all."""
        if not self._hashing.acquire(blocking=False):
            raise ServiceBusy("too many log in at this moment; try again", seconds=1)
        try:
            return self._log_in(name, password, now=now)
        finally:
            self._hashing.release()

    def _log_in(self, name: str, password: str, *, now: float) -> tuple[str, Member]:
        with self._store.writing():
            self._store.ask("DELETE FROM service_logins WHERE time < ?", now - 60)
            [[tries]] = self._store.ask("SELECT COUNT(*) FROM service_logins WHERE name = ?", name[:200])
            if tries < self._settings.logins_per_minute:
                self._store.ask("INSERT INTO service_logins VALUES (?, ?)", name[:200], now)
        if tries >= self._settings.logins_per_minute:
            raise ServiceBusy("too many tries to log in under this name; wait a minute", seconds=60)
        account = self._store.account(name)
        if not self._proves(account, password):
            raise AccessDenied("the name or the password is wrong")
        cookie, form = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        ends = now + self._settings.session_hours * 3600
        with self._store.writing():
            self._store.ask("DELETE FROM service_sessions WHERE expires < ?", now)
            self._store.ask(
                "INSERT INTO service_sessions VALUES (?, ?, ?, ?, ?)", _digest(cookie), name, form, now, ends
            )
        member = self._member(name, form)
        if member is None:
            raise AccessDenied("the name or the password is wrong")
        return cookie, member

    def _proves(self, account: AccountRow | None, password: str) -> bool:
        """Whether a password is the account's. Without an account it takes as long."""
        known = account is not None and account.password is not None and not account.disabled
        digest = account.password if account is not None and known else None
        try:
            HASHER.verify(digest or self._nobody, password[:MOST_PASSWORD])
        except argon2.exceptions.VerificationError:
            return False
        return known and len(password) <= MOST_PASSWORD

    def by_cookie(self, cookie: str, *, now: float) -> Member:
        """Whose session a cookie is."""
        row = self._store.session(_digest(cookie))
        idle = self._settings.idle_minutes * 60
        if row is None or row.expires <= now or row.used + idle <= now:
            raise AccessDenied("the session has ended; log in again")
        if now - row.used > 60:
            self._store.ask("UPDATE service_sessions SET used = ? WHERE digest = ?", now, row.digest)
        member = self._member(row.account, row.form)
        if member is None:
            raise AccessDenied("the session has ended; log in again")
        return member

    def log_out(self, cookie: str) -> None:
        """End a session."""
        self._store.ask("DELETE FROM service_sessions WHERE digest = ?", _digest(cookie))


def is_form_token(member: Member, text: str | None) -> bool:
    """Whether a form carries the token of the session that it is sent with."""
    return member.form is not None and text is not None and compare_digest(member.form.encode(), text.encode())


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
