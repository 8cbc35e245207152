"""What `service.toml` says: which tables, which ledger, how long an answer takes, what is too much."""

from __future__ import annotations

import json
import socket
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from deniable import _files
from deniable.errors import InvalidArgument
from deniable.ledger.stores.locations import printable_location, shown_location

FILE = "service.toml"
LIMITS = {
    "most_delta_per_run": "most_epsilon_per_run",
    "most_delta_per_day": "most_epsilon_per_day",
    "approval_above_delta": "approval_above",
}
"""Limits of δ, and the limit of ε that each belongs to."""


@dataclass(frozen=True)
class ServiceSettings:
    """The settings of one service. Paths are relative to its folder."""

    folder: Path
    ledger: str
    tables: Mapping[str, str]
    public: Mapping[str, str] = field(default_factory=dict)
    title: str = "Private answers"
    version: str = ""
    """Names the data where they are in a database: a new name, and stored answers are not given any more."""
    heads: str = "heads.log"
    """The second place, where the head of the ledger is written after every charge."""
    deadline: float = 5.0
    """Seconds from the question to the answer; a late answer appears after 2, 4, … 128 times as long."""
    instance: str = field(default_factory=socket.gethostname)
    """Names this host where several share a ledger in PostgreSQL."""
    secure_cookies: bool = True
    """Off only for a test without TLS."""
    origins: tuple[str, ...] = ()
    """Addresses under which browsers reach the service through a proxy, as https://dp.example.org."""
    oidc: Mapping[str, str] = field(default_factory=dict)
    """The OpenID provider by which people log in: issuer, client_id, redirect, secret_file."""
    # limits
    most_body: int = 64 * 1024
    most_sql: int = 10_000
    most_aggregates: int = 50
    most_keys: int = 100_000
    planning_seconds: float = 1.0
    """0 plans in the process itself, where a plan cannot be killed."""
    most_waiting: int = 64
    """Runs that were asked for and whose answer is not shown yet; more are told to come back."""
    most_waiting_each: int = 16
    """The same for one account."""
    runners: int = 2
    """Queries at a time in each worker."""
    memory: str | None = None
    threads: int | None = 1
    seconds: float | None = None
    # policy
    most_epsilon_per_run: float | None = None
    most_delta_per_run: float | None = None
    """Of this and the two like it: left out, the budget's δ in the proportion of the ε (`policy`)."""
    most_epsilon_per_day: float | None = None
    most_delta_per_day: float | None = None
    approval_above: float | None = None
    """A run of more ε, or of more δ than `approval_above_delta`, waits until a curator approves it."""
    approval_above_delta: float | None = None
    logins_per_minute: int = 5
    token_days: int = 90
    session_hours: float = 12
    idle_minutes: float = 60

    @classmethod
    def read(cls, folder: str | Path) -> ServiceSettings:
        """The settings in a folder that `deniable serve init` made."""
        path = Path(folder).absolute() / FILE
        try:
            stated = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as failure:
            raise InvalidArgument(
                "folder", str(folder), f"a folder with {FILE} ({failure.strerror})", "deniable serve init makes one."
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as failure:
            raise InvalidArgument("folder", str(folder), f"a folder whose {FILE} is TOML ({failure})") from None
        return cls.of(path.parent, stated)

    @classmethod
    def of(cls, folder: Path, stated: Mapping[str, Any]) -> ServiceSettings:
        """Settings from plain values; an unknown name is refused."""
        known = {each.name: each for each in fields(cls) if each.name != "folder"}
        values: dict[str, Any] = {}
        for name, value in stated.items():
            if name not in known:
                raise InvalidArgument(name, value, "left out: there is no such setting", f"{FILE} states it.")
            kind = str(known[name].type)
            fits = (
                isinstance(value, dict) if "Mapping" in kind
                else isinstance(value, list) if "tuple" in kind
                else isinstance(value, bool) if kind == "bool"
                else isinstance(value, str) if "str" in kind
                else isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
            )  # fmt: skip
            if not fits:
                raise InvalidArgument(name, value, f"of the kind {kind}", f"{FILE} states it.")
            values[name] = tuple(value) if isinstance(value, list) else value
        for name in ("ledger", "tables"):
            if not values.get(name):
                raise InvalidArgument(name, None, "given", f"{FILE} states it.")
        for name, other in LIMITS.items():
            if values.get(name) is not None and values.get(other) is None:
                raise InvalidArgument(name, values[name], f"left out, or given beside {other}", f"{FILE} states it.")
        return cls(folder=folder, **values)

    @property
    def ledger_place(self) -> str:
        """The path or address of the ledger."""
        return self.ledger if "://" in self.ledger else str(self.folder / self.ledger)

    @property
    def heads_path(self) -> Path:
        """Where heads are written."""
        return self.folder / self.heads

    @property
    def places(self) -> tuple[str, ...]:
        """Where ledger and tables lie, the longest first: nobody who asks is told."""
        places = {self.ledger_place, *self.data(self.tables).values(), *self.data(self.public).values()}
        shown = {shown_location(self.ledger_place), *map(printable_location, places)}
        return tuple(sorted({*places, *shown, str(self.folder)}, key=len, reverse=True))

    def data(self, tables: Mapping[str, str]) -> dict[str, str]:
        """Tables by name, with full paths."""
        return {name: place if "://" in place else str(self.folder / place) for name, place in tables.items()}

    def write(self) -> None:
        """Write the settings that differ from the defaults; a file that is there is not replaced."""
        lines = [f"{name} = {_toml(getattr(self, name))}" for name in ("title", "ledger", "deadline")]
        for name in (*LIMITS.values(), *LIMITS):
            if getattr(self, name) is not None:
                lines.append(f"{name} = {_toml(getattr(self, name))}")
        for name in ("tables", "public"):
            if getattr(self, name):
                lines += ["", f"[{name}]", *(f"{_toml(k)} = {_toml(v)}" for k, v in getattr(self, name).items())]
        _files.write_text(self.folder / FILE, "\n".join(lines) + "\n", private=True)


def _toml(value: object) -> str:
    if isinstance(value, str):  # JSON and TOML escape alike, but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
