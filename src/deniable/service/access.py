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
from collections.abc import Iterator
from contextlib import contextmanager
from hmac import compare_digest
from typing import NamedTuple

from deniable.errors import AccessDenied, InvalidArgument, MissingExtra, ServiceBusy
from deniable.ledger.records import check_who
from deniable.service.roles import ROLES
from deniable.service.settings import ServiceSettings
from deniable.service.store import AccountRow, ServiceStore, TokenRow

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

    def add_account(self, name: str, role: str, *, password: str | None, now: float, disabled: bool = False) -> None:
        """A new account; a name is never given twice. One that is made disabled can be enabled or forgotten."""
        check_who(name)
        if "/" in name or name in (".", ".."):
            raise InvalidArgument("name", name, "a name without /, which an address can hold")
        if role not in ROLES:
            raise InvalidArgument("role", role, f"one of {', '.join(ROLES)}")
        digest = None if password is None else self._hash(password)
        with self._store.writing():
            if self._store.account(name) is not None:
                raise InvalidArgument("name", name, "a name that no account has or had")
            self._store.ask(
                "INSERT INTO service_accounts VALUES (?, ?, ?, ?, ?)", name, role, digest, now, int(disabled)
            )

    def enable(self, name: str) -> None:
        """Let a new account in, for the first time."""
        self._store.ask("UPDATE service_accounts SET disabled = 0 WHERE name = ?", name)

    def forget(self, name: str) -> None:
        """Remove an account that was made disabled, and that nobody has used: its name is free again."""
        self._store.ask("DELETE FROM service_accounts WHERE name = ? AND disabled = 1", name)

    def disable(self, name: str) -> None:
        """Take away all access of an account. Its runs and charges stay."""
        with self._store.writing():
            self._store.ask("UPDATE service_accounts SET disabled = 1 WHERE name = ?", name)
            self._end(name)

    def _end(self, name: str) -> None:
        """End every way into an account: its password, its identities, its tokens and its sessions."""
        self._store.ask("UPDATE service_accounts SET password = NULL WHERE name = ?", name)
        self._store.ask("DELETE FROM service_identities WHERE account = ?", name)
        self._end_shown(name)

    def _end_shown(self, name: str) -> None:
        self._store.ask("UPDATE service_tokens SET revoked = 1 WHERE account = ?", name)
        self._store.ask("DELETE FROM service_sessions WHERE account = ?", name)

    def _member(self, name: str, form: str | None = None) -> Member | None:
        account = self._store.account(name)
        return None if account is None or account.disabled else Member(name, account.role, form)

    # tokens

    def add_token(
        self, account: str, *, label: str, days: float | None, now: float, alone: bool = False
    ) -> tuple[str, str]:
        """The id and the text of a new token. The text is not kept. With `alone` it ends all other ways in."""
        days = self._settings.token_days if days is None else days
        if not 0 < days <= 366:
            raise InvalidArgument("days", days, "above 0 and at most 366")
        id, secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        text = f"dn_{id}_{secret}"
        with self._store.writing():
            if alone:
                self._end(account)
            self._store.ask(
                "INSERT INTO service_tokens VALUES (?, ?, ?, ?, ?, ?, 0)",
                id, account, _digest(text), label[:100], now, now + days * 86_400,
            )  # fmt: skip
        return id, text

    def revoke(self, id: str, *, account: str) -> bool:
        """Revoke a token of an account, with the sessions that it opened; False where it has none of that id."""
        with self._store.writing():
            returned = self._store.ask(
                "UPDATE service_tokens SET revoked = 1 WHERE id = ? AND account = ? RETURNING id", id, account
            )
            for [token] in returned:
                self._store.ask("DELETE FROM service_sessions WHERE form LIKE ?", f"{token}.%")
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
        account = self._prove(name, password, now=now)
        return self._open_session(account, now=now)

    def _prove(self, name: str, password: str, *, now: float) -> AccountRow:
        """The account whose password this is. Every try counts."""
        with self._place():
            self._count_try(name, now)
            account = self._store.account(name)
            if not self._proves(account, password) or account is None:
                raise AccessDenied("the name or the password is wrong")
        return account

    @contextmanager
    def _place(self) -> Iterator[None]:
        """A place among those whose passwords are hashed; refused where too many are."""
        if not self._hashing.acquire(blocking=False):
            raise ServiceBusy("too many log in at this moment; try again", seconds=1)
        try:
            yield
        finally:
            self._hashing.release()

    def _count_try(self, name: str, now: float) -> None:
        with self._store.writing():
            self._store.ask("DELETE FROM service_logins WHERE time < ?", now - 60)
            [[tries]] = self._store.ask("SELECT COUNT(*) FROM service_logins WHERE name = ?", name[:200])
            if tries < self._settings.logins_per_minute:
                self._store.ask("INSERT INTO service_logins VALUES (?, ?)", name[:200], now)
        if tries >= self._settings.logins_per_minute:
            raise ServiceBusy("too many tries to log in under this name; wait a minute", seconds=60)

    def log_in_with_token(self, text: str, *, now: float) -> tuple[str, Member]:
        """A new session's cookie for who shows a token, and who it is. It ends with the token."""
        member = self.by_token(text, now=now)
        account, token = self._store.account(member.name), self._store.token(text.split("_")[1])
        if account is None or token is None:
            raise AccessDenied("the token is not known, has expired, or was revoked")
        return self._open_session(account, now=now, token=token)

    def _open_session(self, account: AccountRow, *, now: float, token: TokenRow | None = None) -> tuple[str, Member]:
        """A new session of an account, unless the account or the token has changed since it was read.

        Where a token opens it, the token of its forms begins with that one's id, by which `revoke` finds it.
        """
        name, cookie, form = account.name, secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        ends = now + self._settings.session_hours * 3600
        if token is not None:
            form, ends = f"{token.id}.{form}", min(ends, token.expires)
        with self._store.writing():
            if self._store.account(name) != account or (token is not None and self._store.token(token.id) != token):
                raise AccessDenied("the name or the password is wrong")
            self._store.ask("DELETE FROM service_sessions WHERE expires < ?", now)
            self._store.ask(
                "INSERT INTO service_sessions VALUES (?, ?, ?, ?, ?)", _digest(cookie), name, form, now, ends
            )
        return cookie, Member(name, account.role, form)

    def log_in_as(self, issuer: str, subject: str, *, now: float) -> tuple[str, Member]:
        """A new session of the account that a provider's subject was written down for."""
        rows = self._store.ask(
            "SELECT account FROM service_identities WHERE issuer = ? AND subject = ?", issuer, subject
        )
        account = self._store.account(rows[0][0]) if rows else None
        if account is None or account.disabled:
            raise AccessDenied("nobody here is known by this identity; ask a curator to write it down")
        return self._open_session(account, now=now)

    def set_identity(self, account: str, issuer: str, subject: str | None, *, decided: str, now: float) -> None:
        """Write down by which subject of a provider an account logs in; None for none any more. What somebody else
        writes down ends all other ways into the account, so that its holder notices."""
        with self._store.writing():
            self._store.ask("DELETE FROM service_identities WHERE account = ? AND issuer = ?", account, issuer)
            if subject is None:
                self._end_shown(account)
            else:
                taken = self._store.ask(
                    "SELECT account FROM service_identities WHERE issuer = ? AND subject = ?", issuer, subject
                )
                if taken:
                    raise InvalidArgument("subject", "…", "one that belongs to no other account")
                if decided != account:
                    self._end(account)
                self._store.ask(
                    "INSERT INTO service_identities VALUES (?, ?, ?, ?, ?)", issuer, subject, account, decided, now
                )

    def change_password(self, member: Member, old: str | None, new: str, *, now: float) -> tuple[str, Member] | None:
        """A new password of one's own, by the old one; all sessions end. A browser gets a new one: its cookie, and who
        it is. Who has no password gives none, and shows a token."""
        account = self._store.account(member.name)
        if account is None or (account.password is None and member.form is not None):
            raise AccessDenied("this account has no password; show a token to set one")
        if account.password is not None:
            account = self._prove(member.name, old or "", now=now)
        after = account._replace(password=self._hash(new))
        with self._store.writing():
            if self._store.account(member.name) != account:
                raise AccessDenied("the account has changed meanwhile; log in again")
            self._store.ask("UPDATE service_accounts SET password = ? WHERE name = ?", after.password, member.name)
            self._store.ask("DELETE FROM service_sessions WHERE account = ?", member.name)
        return None if member.form is None else self._open_session(after, now=now)

    def set_password(self, name: str, new: str) -> None:
        """A new password for another account; all other ways in end, so that its holder notices."""
        digest = self._hash(new)
        with self._store.writing():
            self._end(name)
            self._store.ask("UPDATE service_accounts SET password = ? WHERE name = ?", digest, name)

    def _hash(self, password: str) -> str:
        if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
            raise InvalidArgument("password", "…", f"of {LEAST_PASSWORD} to {MOST_PASSWORD} characters")
        with self._place():
            return HASHER.hash(password)

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
