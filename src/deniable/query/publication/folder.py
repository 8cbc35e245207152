"""The folder of a publication: written next to its place, moved there when it is whole.

Work goes on in `<out>.partial`, which only its owner can read. It holds `begun.json` with a random id, whose hash is
the ledger's key for the charge, and the digest of the plan. Every file is written under another name, synced, and
renamed.

**Why a resumed run is sound.** The charge pays for one noisy answer to each table.

1. The id is on disk before the charge, so a resumed run finds it and the ledger knows its key: it pays once. Whoever
   deletes the folder loses the id, and pays again.
2. A table whose CSV is there is kept as it is: no second draw of it is made.
3. A table whose CSV is not there is computed, with fresh noise. If an earlier run had drawn noise for it, that draw was
   lost before its file existed, so nobody saw it: what is released is one draw.
4. A lock on the folder keeps a second process out.
5. The id is deleted before the folder is moved to its place. Neither what is published nor the ledger, which has its
   hash, lets anybody resume the release once more and draw anew under a charge that has been used.

This needs the partial folder to be private until it is finished, which its mode asks of the system; whoever can read
it must be trusted with the data. A copy of the folder that is resumed as well is a second release, and is not paid for.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deniable import noise
from deniable._escapes import dump_json
from deniable._files import TEMPORARY, check_target, show_path, sync_folder, write_text
from deniable.errors import DataError, FileError

BEGUN = "begun.json"
RECORD = "release.json"
NOTE = "METHOD.md"


@dataclass(frozen=True)
class Folder:
    """A folder that is being written. Use `Folder.open`."""

    out: Path
    work: Path
    digest: str
    id: str
    """Empty when everything is written, and the folder only has to be moved."""
    fresh: bool
    _lock: int

    @property
    def key(self) -> str:
        """The ledger's key for the charge. It does not tell the id to those who read the ledger."""
        return f"publish:{hashlib.sha256(self.id.encode()).hexdigest()}"

    @property
    def whole(self) -> bool:
        """Whether everything is written, and `place` is all there is to do."""
        return not self.id

    @classmethod
    def open(cls, out: Path, *, digest: str) -> Folder:
        """Begin, or go on with what was begun by the same plan. Nothing at `out` is ever touched."""
        if os.path.lexists(out):
            raise DataError(f"{show_path(out)} exists already; a release is never overwritten: choose another folder")
        check_target(out)
        work = out.with_name(out.name + ".partial")
        if not os.path.lexists(work):
            return cls._begin(out, work, digest)
        return cls._resume(out, work, digest)

    @classmethod
    def _begin(cls, out: Path, work: Path, digest: str) -> Folder:
        id = _new_id()
        try:
            work.mkdir(mode=0o700)
            write_text(work / BEGUN, json.dumps({"id": id, "plan": digest}))
        except OSError as failure:
            raise DataError(f"{work} could not be written: {failure.strerror}") from None
        return cls(out, work, digest, id, True, _locked(work))

    @classmethod
    def _resume(cls, out: Path, work: Path, digest: str) -> Folder:
        lock = _locked(work)
        try:
            names = {path.name for path in work.iterdir()}
            if all(name.startswith(TEMPORARY) for name in names):
                # Cut short before the id was whole: nothing was charged.
                write_text(work / BEGUN, json.dumps({"id": _new_id(), "plan": digest}))
                names = {BEGUN}
            whole = BEGUN not in names
            found = json.loads((work / (RECORD if whole else BEGUN)).read_text(encoding="utf-8"))
            if found["plan"] != digest:
                raise DataError(
                    f"{work} was begun by another plan; finish it with the file it was begun with, "
                    "or move it away: what it charged stays charged"
                )
            return cls(out, work, digest, "" if whole else str(found["id"]), False, lock)
        except (OSError, ValueError, KeyError, TypeError):
            os.close(lock)
            raise DataError(f"{work} is not the beginning of a release; move it away") from None
        except (DataError, FileError):
            os.close(lock)
            raise

    def has(self, name: str) -> bool:
        """Whether a table is written."""
        return (self.work / f"{name}.csv").exists()

    def keep(self, name: str, *, csv: str, facts: dict[str, Any]) -> None:
        """Write a table. Its CSV comes last: with it, the table is written."""
        with self._charged():
            write_text(self.work / f"{name}.facts", json.dumps(facts), overwrite=True)
            write_text(self.work / f"{name}.csv", csv)

    def facts(self, name: str) -> dict[str, Any]:
        """What was found about a table that is written."""
        path = self.work / f"{name}.facts"
        if path.exists():
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found
        record = json.loads((self.work / RECORD).read_text(encoding="utf-8"))
        return dict(record["found"][name])

    def finish(self, *, note: str, record: dict[str, Any], found: dict[str, Any]) -> Path:
        """Write the note and the record, and move the folder to its place."""
        whole = {"plan": self.digest, **record, "found": found}
        with self._charged():
            write_text(self.work / NOTE, note, overwrite=True)
            write_text(self.work / RECORD, dump_json(whole, indent=2) + "\n", overwrite=True)
            for path in [*self.work.glob("*.facts"), *self.work.glob(f"{TEMPORARY}*")]:
                path.unlink()
            (self.work / BEGUN).unlink()
            sync_folder(self.work)
        return self.place()

    def place(self) -> Path:
        """Move the folder, which is whole, to its place."""
        try:
            os.rename(self.work, self.out)
        except OSError:
            raise DataError(f"{self.out} appeared meanwhile; the release is whole in {self.work}") from None
        self.out.chmod(0o755)
        sync_folder(self.out.parent)
        return self.out

    def forget(self) -> None:
        """Take back a beginning that was not charged for."""
        if self.fresh:
            (self.work / BEGUN).unlink()
            self.work.rmdir()

    @contextlib.contextmanager
    def _charged(self) -> Iterator[None]:
        """A disk that fails after the charge is said in one sentence, with what to do."""
        try:
            yield
        except (OSError, FileError) as failure:
            why = failure if isinstance(failure, FileError) else f"{self.work} was not written: {failure.strerror}."
            raise DataError(
                f"{why} The charge stands, and the same command finishes the release without another one"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)


def _new_id() -> str:
    return "".join(f"{word:016x}" for word in noise.secure().words(2).tolist())


def _locked(work: Path) -> int:
    """A lock that the system lets go of when the process ends, however it ends."""
    try:
        held = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as failure:
        raise DataError(f"{work} could not be opened: {failure.strerror}") from None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise DataError(f"{work} is being written by another process; wait for it") from None
    return held
