"""Which workers live: each holds a file of the service's folder for as long as its process does.

The system lets go of the file when the process ends, however it ends. So another worker can tell a run whose worker was
killed from one that is still being computed, at once and without a clock.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import ExitStack

from deniable import _files
from deniable.errors import LedgerError
from deniable.service.settings import ServiceSettings

FOLDER = ".workers"
"""Where the files lie, in the service's folder."""


class Worker:
    """One process that answers, or one that starts a service."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._folder = settings.folder / FOLDER
        _files.make_folder(self._folder)
        place = hashlib.sha256(str(settings.folder).encode()).hexdigest()[:8]
        self._house = f"{settings.instance} {place}"  # several services of a host may share a ledger
        self._id, self._held = secrets.token_hex(8), ExitStack()
        if not self._held.enter_context(_files.holding(self._folder / self._id)):
            raise LedgerError("another worker has this name; start again")

    @property
    def name(self) -> str:
        """What its runs are marked with."""
        return f"{self._house}/{self._id}"

    def knows_gone(self, name: str) -> bool:
        """Whether a worker of this folder has ended. Of other folders and hosts nothing is known."""
        house, _, id = name.rpartition("/")
        path = self._folder / id
        if house != self._house or id == self._id:
            return False
        if not path.exists():
            return True
        with _files.holding(path) as free:
            return free

    def clear(self) -> None:
        """Remove the files of workers that have ended; before the first worker of a service starts."""
        for path in self._folder.iterdir():
            if self.knows_gone(f"{self._house}/{path.name}"):
                _files.remove_mark(path)

    def close(self) -> None:
        """End: the file goes."""
        _files.remove_mark(self._folder / self._id)
        self._held.close()
