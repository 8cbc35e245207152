"""The only module that writes files. A file is written whole or not at all, and replaces another only with `overwrite`.

A file is written under a temporary name in the same folder, synced, and only then given its name. A reader sees the old
file or the whole new one, and a failure leaves nothing behind. Without `overwrite` the name is given by a link, which
the system refuses when another process took the name meanwhile. With `overwrite` the new file replaces the old one (the
file that a symbolic link points to) and keeps its permissions. Two kinds of files are never replaced, even with
`overwrite`: what a call reads (its `inputs`, under any name), and a ledger.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "page.html"
>>> write_text(path, "one")
>>> write_text(path, "two")
Traceback (most recent call last):
...
deniable.errors.FileExists: ...page.html exists already; nothing was written. Choose another name, or give ...
>>> write_text(path, "two", overwrite=True)
>>> path.read_text()
'two'
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from deniable._escapes import printable, redacted
from deniable.errors import FileError, FileExists

AnyPath: TypeAlias = str | os.PathLike[str]

_COMPANIONS = ("", "-wal", "-shm", "-journal", ".journal")
"""Endings of the files that belong to another: the logs of a SQLite file, the journal of a checkpoint."""

_LEDGER = (b"SQLite format 3\0", slice(68, 72), b"deni")
"""How a ledger's file begins, and where its mark is."""

TEMPORARY = ".writing-"
"""How the names of unfinished files begin. A process that is killed leaves them behind."""

_WHILE_WRITING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
"""Failures that a writer meets in the middle."""


def write_text(
    path: AnyPath, text: str, *, overwrite: bool = False, inputs: Iterable[AnyPath] = (), private: bool = False
) -> None:
    """Write a text as UTF-8. Half of a surrogate pair, which UTF-8 cannot hold, is written as its escape."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"), overwrite=overwrite, inputs=inputs, private=private)


def write_bytes(
    path: AnyPath, data: bytes, *, overwrite: bool = False, inputs: Iterable[AnyPath] = (), private: bool = False
) -> None:
    """Write a file whole or not at all. Arguments as in `replacing`."""
    with replacing(path, overwrite=overwrite, inputs=inputs, private=private) as beside, beside.open("wb") as file:
        file.write(data)


def append_line(path: AnyPath, line: str) -> None:
    """Add one line to the end of a file, and wait until it is on disk. A new file is its owner's alone."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{line}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def holding(path: AnyPath) -> Iterator[bool]:
    """Hold a file for this process until the block ends; gives whether nobody else holds it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        free = True
    except OSError:
        free = False
    try:
        yield free
    finally:
        os.close(handle)


def remove_mark(path: AnyPath) -> None:
    """Remove a file that `holding` made, if it is there and empty."""
    with contextlib.suppress(FileNotFoundError):
        if not os.stat(path).st_size:
            os.unlink(path)


@contextlib.contextmanager
def replacing(
    path: AnyPath, *, overwrite: bool = False, inputs: Iterable[AnyPath] = (), private: bool = False
) -> Iterator[Path]:
    """A temporary path beside `path`, with the same ending, that becomes `path` when the block ends without an error.

    Args:
        path: Where the file goes. Its folder must exist.
        overwrite: Replace a file that is there. A folder, a device or a pipe is never replaced.
        inputs: What the call reads: files, or addresses, which are passed over. None of them is ever replaced, and
            neither are the logs and journals that belong to them.
        private: The file is readable by its owner only. Else the process's umask decides; a file that is replaced
            passes its permissions on.
    """
    inputs = list(inputs)
    target = _target(path, overwrite=overwrite, inputs=inputs)
    mode = _mode(target)
    beside = _create_beside(path, target, private=private)
    try:
        with _explain_errors(path, beside, target):
            yield beside
            if private or mode is not None:
                beside.chmod(0o600 if private else mode or 0o600)
            _sync(beside)
            refuse_inputs(path, inputs)
            _give_name(beside, target, path, overwrite=overwrite)
            sync_folder(target.parent)
    finally:
        beside.unlink(missing_ok=True)


def check_target(path: AnyPath, *, overwrite: bool = False, inputs: Iterable[AnyPath] = ()) -> None:
    """Refuse now what `replacing` would refuse. Callers do this before they charge or start long work."""
    target = _target(path, overwrite=overwrite, inputs=list(inputs))
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise FileError(path, _sentence(path, OSError(errno.EACCES, "")))


def refuse_inputs(path: AnyPath, inputs: Iterable[AnyPath]) -> None:
    """Refuse a path that is one of the call's own inputs under any name: by link, by hard link, by another spelling."""
    for each in inputs:
        for ending in _COMPANIONS:
            companion = os.fspath(each) + ending
            if _same(path, companion):
                whose = "this reads" if not ending else f"belongs to {show_path(each)}, which this reads"
                raise FileError(
                    path, f"{show_path(path)} is what {whose}, and is never written over; choose another name."
                )


def make_folder(path: AnyPath) -> None:
    """Make a folder and those above it, where they are not there yet; a refusal is one sentence."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileError(path, f"{show_path(path)} is a file, not a folder; choose another name.") from None
    except OSError as failure:
        folder = show_path(path)
        raise FileError(path, f"the folder {folder} cannot be made: {failure.strerror}; choose another one.") from None
    except ValueError as failure:
        raise FileError(path, _sentence(path, failure)) from None


def sync_folder(folder: Path) -> None:
    """Make a new name survive a power cut, where the system lets a folder be synced."""
    try:
        _sync(folder)
    except OSError as failure:
        if failure.errno not in (errno.EACCES, errno.EINVAL, errno.EOPNOTSUPP):
            raise


def show_path(path: AnyPath) -> str:
    """A path in a sentence: no control characters, no password if it is an address, not too long."""
    text = printable(redacted(os.fspath(path)))
    return text if len(text) <= 120 else f"{text[:60]}...{text[-57:]}"


def _same(one: AnyPath, other: AnyPath) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        # One of them does not exist, so no file is lost. But a log must not appear beside the file that it belongs to.
        with contextlib.suppress(OSError, ValueError):
            return os.path.realpath(one) == os.path.realpath(other)
        return False


def _target(path: AnyPath, *, overwrite: bool, inputs: list[AnyPath]) -> Path:
    """Where the file will be, with links followed; refuses everything that is known beforehand."""
    if not os.fspath(path):
        raise FileError(path, "the name of the file to write is empty; give one.")
    refuse_inputs(path, inputs)
    _refuse_logs(path)
    try:
        os.lstat(path)
        _refuse_there(path, overwrite=overwrite)
        target = Path(os.path.realpath(path))
    except FileNotFoundError:
        if os.fspath(path).endswith(os.sep):
            raise FileError(path, _sentence(path, OSError(errno.EISDIR, ""))) from None
        target = Path(os.path.abspath(path))
    except (OSError, ValueError) as failure:
        raise FileError(path, _sentence(path, failure)) from None
    if not target.parent.is_dir():
        raise FileError(path, _sentence(path, OSError(errno.ENOENT, "")))
    return target


def _refuse_there(path: AnyPath, *, overwrite: bool) -> None:
    """Refuse what is at a path, unless it is a file that may be replaced."""
    try:
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        kind = stat.S_IFREG  # a link to a file that is not there yet
    if stat.S_ISDIR(kind):
        raise FileError(path, _sentence(path, OSError(errno.EISDIR, "")))
    if not stat.S_ISREG(kind):
        raise FileError(path, f"{show_path(path)} is a device or a pipe, not a file; give the name of a file.")
    if not overwrite:
        raise FileExists(path, show_path(path))
    if is_ledger(path):
        raise FileError(
            path, f"{show_path(path)} is a ledger, and a ledger is never written over; choose another name."
        )
    if os.path.exists(path) and not os.access(path, os.W_OK):
        raise FileError(path, f"{show_path(path)} is write-protected; make it writable, or choose another name.")


def _refuse_logs(path: AnyPath) -> None:
    """Refuse the name of a ledger's log: SQLite would read the file as charges, or lose some."""
    for ending in _COMPANIONS[1:]:
        base = os.fspath(path).removesuffix(ending)
        if base != os.fspath(path) and is_ledger(base):
            raise FileError(path, f"{show_path(path)} belongs to the ledger {show_path(base)}; choose another name.")


def is_ledger(path: AnyPath) -> bool:
    """Whether a file begins as a ledger does."""
    start, position, mark = _LEDGER
    try:
        head = peek(path, 100)
    except (OSError, ValueError):
        return False
    return head.startswith(start) and head[position] == mark


_guard = threading.Lock()
_locked: set[tuple[int, int]] = set()
"""Files that this process may hold locks on, by device and number."""
_kept: dict[tuple[int, int], int] = {}
"""Handles of such files, which are never closed."""


def expect_locks(file: tuple[int, int]) -> None:
    """Say that this process is about to lock a file, given by device and number: `peek` keeps those locks."""
    with _guard:
        _locked.add(file)


def peek(path: AnyPath, size: int) -> bytes:
    """The first bytes of a file that may be a ledger.

    When a process closes any handle of a file, the system drops all locks that the process has on it (POSIX). SQLite's
    locks would go with them, and another process could take away the log that charges are written to. So a file that
    is locked here is read through one handle that stays open.
    """
    with _guard:
        handle = _kept.get(_identity(os.stat(path)))
        if handle is None:
            handle = os.open(path, os.O_RDONLY)
            own = _identity(os.fstat(handle))
            if own not in _locked:
                try:
                    return os.read(handle, size)
                finally:
                    os.close(handle)
            _kept[own] = handle
        return os.pread(handle, size, 0)


def _identity(state: os.stat_result) -> tuple[int, int]:
    return state.st_dev, state.st_ino


def _mode(target: Path) -> int | None:
    """The permissions of the file that is replaced; None if there is none."""
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        return None


def _create_beside(path: AnyPath, target: Path, *, private: bool) -> Path:
    """A new, empty file in the target's folder; its ending is kept, because writers choose their format by it."""
    ending = target.suffix if len(target.suffix) <= 20 else ""
    beside = target.with_name(f"{TEMPORARY}{secrets.token_hex(8)}{ending}")
    try:
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
    except (OSError, ValueError) as failure:
        raise FileError(path, _sentence(path, failure)) from None
    return beside


@contextlib.contextmanager
def _explain_errors(path: AnyPath, *own: Path) -> Iterator[None]:
    """Turn the system's errors about these files into `FileError`; errors about other files pass."""
    try:
        yield
    except OSError as failure:
        ours = {os.fspath(each) for each in own} & {failure.filename, failure.filename2}
        if ours or failure.errno in _WHILE_WRITING:
            raise FileError(path, _sentence(path, failure)) from None
        raise


def _give_name(beside: Path, target: Path, path: AnyPath, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(beside, target)
        return
    try:
        os.link(beside, target)
    except FileExistsError:
        raise FileExists(path, show_path(path)) from None
    except OSError as failure:
        if failure.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        _take_name(beside, target, path)


def _take_name(beside: Path, target: Path, path: AnyPath) -> None:
    """Without hard links: create an empty file of that name, which only one process can do, and replace it."""
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise FileExists(path, show_path(path)) from None
    try:
        os.replace(beside, target)
    except OSError:
        target.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sentence(path: AnyPath, failure: OSError | ValueError) -> str:
    """Why a file cannot be written, and what to do."""
    name = show_path(path)
    folder = show_path(os.path.dirname(os.fspath(path)) or os.curdir)
    if not isinstance(failure, OSError):
        return f"{name} cannot be the name of a file: it holds a character that no name can hold."
    match failure.errno:
        case errno.ENOENT:
            return f"there is no folder {folder} to write {name} into; create it first."
        case errno.ENOTDIR:
            return f"{name} cannot be written: a part of it before the last is not a folder."
        case errno.EACCES | errno.EPERM:
            return f"{name} cannot be written: this user may not write into the folder {folder}; choose another folder."
        case errno.EROFS:
            return f"{name} cannot be written: the folder {folder} is on a read-only disk; choose another folder."
        case errno.ENOSPC | errno.EDQUOT:
            return f"the disk is full; {name} was not written. Free some space, and try again."
        case errno.EFBIG:
            return f"{name} was not written: it would be larger than this system allows a file to be."
        case errno.ENAMETOOLONG:
            return f"{name} cannot be written: the name is too long; choose a shorter one."
        case errno.ELOOP:
            return f"{name} cannot be written: it is a link that leads back to itself."
        case errno.EISDIR:
            return f"{name} is a folder; give the name of a file, for example one in it."
        case _:
            return f"{name} was not written: {failure.strerror}."
