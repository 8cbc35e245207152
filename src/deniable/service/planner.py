"""Plans in a process of its own, which is killed when a plan takes too long.

A plan is text work in Python and cannot be stopped from outside. So the service asks a child process that has the same
tables open. A child that takes longer than the settings allow is killed, the question is refused, and the next one gets
a new child. The service plans again, in its own process, only what a child has planned in time.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from deniable.errors import DeniableError, QueryError, ServiceBusy
from deniable.service import requests
from deniable.service.problems import from_problem, to_problem
from deniable.service.settings import ServiceSettings

_START = 60.0
"""Seconds in which a child must have opened the tables."""


MOST, MOST_EACH = 16, 4
"""Who may wait for a plan, all together and of one account: each waits in a thread that others need."""


class Planner:
    """One child process. Threads take turns."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings, self._lock = settings, threading.Lock()
        self._child: Any = None
        self._pipe: Any = None
        self._counting, self._waiting = threading.Lock(), Counter[str | None]()
        self.kills = 0
        """How many plans took too long."""

    def summarize(self, who: str | None, body: str, *, rehearse: bool = False) -> dict[str, Any]:
        """The summary of the plan of a request, or its rehearsal; DeniableError where it is refused."""
        with self._place(who), self._lock:
            if self._child is None or not self._child.is_alive():
                self._start()
            seconds = self._settings.planning_seconds * (10 if rehearse else 1)
            try:
                self._pipe.send((who, body, rehearse))
                if not self._pipe.poll(seconds):
                    self.kills += 1
                    self._stop()
                    self.start_early()  # for the next question
                    raise QueryError("planning took too long; ask for less in one query")
                fine, told = self._pipe.recv()
            except (EOFError, OSError):
                self._stop()
                raise QueryError("planning failed; ask for less in one query") from None
        if not fine:
            raise from_problem(told)
        summary: dict[str, Any] = told
        return summary

    def start_early(self) -> None:
        """Start the child now, in the background: the first question would wait for it."""
        threading.Thread(target=self._ensure_child, name="planner", daemon=True).start()

    def _ensure_child(self) -> None:
        with self._lock, suppress(QueryError):  # the next question tries again, and tells
            if self._child is None:
                self._start()

    @contextmanager
    def _place(self, who: str | None) -> Iterator[None]:
        """A place among those who wait; refused where too many do."""
        with self._counting:
            if self._waiting[who] >= MOST_EACH or self._waiting.total() >= MOST:
                raise ServiceBusy(
                    "too many plans are being made; ask again later", seconds=self._settings.planning_seconds
                )
            self._waiting[who] += 1
        try:
            yield
        finally:
            with self._counting:
                self._waiting[who] -= 1

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._child = context.Process(target=_serve, args=(other, str(self._settings.folder)), daemon=True)
        self._child.start()
        other.close()
        if not self._pipe.poll(_START) or not self._pipe.recv():
            self._stop()
            raise QueryError("planning could not be started")

    def _stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.join()
            self._pipe.close()
            self._child = None

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._stop()


def _serve(pipe: Any, folder: str) -> None:
    """The child: plans until its parent is gone."""
    from deniable.service.jobs import open_tables

    settings = ServiceSettings.read(folder)
    session = open_tables(settings)
    pipe.send(True)
    while True:
        try:
            who, body, rehearse = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            plan = requests.make_plan(session.as_(who), requests.decode(body), settings)
            told = plan.rehearse().to_dict() if rehearse else requests.summary(plan)
            pipe.send((True, told))
        except DeniableError as refusal:
            pipe.send((False, to_problem(refusal, hidden=settings.places)))
        except Exception:  # noqa: BLE001  a mistake of ours: its trace, which may quote the question, goes nowhere
            pipe.send((False, to_problem(QueryError("planning failed; ask for less in one query"))))
