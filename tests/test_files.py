"""Writing files: whole or not at all, over nothing unless told, over a call's own inputs never."""

from __future__ import annotations

import errno
import os
import pickle
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deniable import _files
from deniable._files import check_target, refuse_inputs, replacing, write_bytes, write_text
from deniable.errors import DeniableError, FileError, FileExists

OLD, NEW = "what was there", "what is new"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder that is the current one; at the end no temporary file is left in it."""
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.rglob(".writing-*")) == []


def test_a_text_and_bytes_are_written_and_read_again() -> None:
    write_text("a.txt", "Zürich\r\nε\n")
    assert Path("a.txt").read_bytes() == "Zürich\r\nε\n".encode()
    write_bytes(Path("b.bin"), b"\0\xff")
    assert Path("b.bin").read_bytes() == b"\0\xff"


def test_half_of_a_surrogate_pair_is_written_as_its_escape() -> None:
    write_text("a.json", '"\ud800"')
    assert Path("a.json").read_text() == '"\\ud800"'


def test_nothing_is_replaced_unless_told() -> None:
    Path("a.txt").write_text(OLD)
    with pytest.raises(FileExists, match=r"a\.txt exists already; nothing was written.*overwrite=True") as refused:
        write_text("a.txt", NEW)
    with pytest.raises(FileExists):
        check_target("a.txt")
    check_target("a.txt", overwrite=True)
    assert Path("a.txt").read_text() == OLD
    assert isinstance(refused.value, FileError)
    assert isinstance(refused.value, DeniableError)
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.path) == (str(refused.value), "a.txt")
    write_text("a.txt", NEW, overwrite=True)
    assert Path("a.txt").read_text() == NEW


@pytest.mark.parametrize("linking", [True, False])
def test_what_appears_meanwhile_is_not_replaced(linking: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not linking:
        monkeypatch.setattr(os, "link", without_links)
    with pytest.raises(FileExists):
        interrupt(lambda: Path("a.txt").write_text(OLD))
    assert Path("a.txt").read_text() == OLD


def interrupt(action: Callable[[], object], path: str = "a.txt", **options: Any) -> None:
    """Something happens while a file is written."""
    with replacing(path, **options) as beside:
        beside.write_text("half")
        action()


def fail(failure: BaseException) -> None:
    raise failure


def without_links(*_: Any, **__: Any) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


def test_a_file_system_without_hard_links_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", without_links)
    write_text("a.txt", NEW)
    assert Path("a.txt").read_text() == NEW
    monkeypatch.setattr(os, "replace", without_links)
    with pytest.raises(OSError, match="not permitted"):
        write_text("b.txt", NEW)
    assert not Path("b.txt").exists()


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_failure_leaves_everything_as_it_was(overwrite: bool) -> None:
    if overwrite:
        Path("a.txt").write_text(OLD)
    for failure in (ZeroDivisionError(), KeyboardInterrupt()):
        with pytest.raises(type(failure)):
            interrupt(lambda failure=failure: fail(failure), overwrite=overwrite)  # type: ignore[misc]
    assert [path.name for path in Path().iterdir()] == (["a.txt"] if overwrite else [])
    assert not overwrite or Path("a.txt").read_text() == OLD


def test_a_reader_never_sees_half_a_file() -> None:
    Path("a.txt").write_text(OLD)
    with replacing("a.txt", overwrite=True) as beside:
        beside.write_text("half")
        assert Path("a.txt").read_text() == OLD
        beside.write_text(NEW)
    assert Path("a.txt").read_text() == NEW


def test_the_temporary_file_is_beside_and_has_the_same_ending() -> None:
    Path("folder").mkdir()
    with replacing("folder/picture.svg") as beside:
        assert (beside.parent, beside.suffix) == (Path("folder").resolve(), ".svg")


def test_the_place_stays_where_it_was_when_the_process_goes_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("folder").mkdir()
    here = Path.cwd()
    with replacing("a.txt") as beside:
        monkeypatch.chdir("folder")
        beside.write_text(NEW)
    assert (here / "a.txt").read_text() == NEW


def test_permissions() -> None:
    before = os.umask(0o022)
    try:
        write_text("open", NEW)
        write_text("own", NEW, private=True)
        Path("mine").write_text(OLD)
        Path("mine").chmod(0o640)
        write_text("mine", NEW, overwrite=True)
        write_text("open", NEW, overwrite=True, private=True)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in Path().iterdir()}
    assert modes == {"open": 0o600, "own": 0o600, "mine": 0o640}


def test_a_private_file_is_private_while_it_is_written() -> None:
    with replacing("a", private=True) as beside:
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600


def test_links_are_something_that_is_there_and_stay_links() -> None:
    Path("folder").mkdir()
    Path("folder/target").write_text(OLD)
    Path("link").symlink_to("folder/target")
    Path("dangling").symlink_to("folder/later")
    for name in ("link", "dangling"):
        with pytest.raises(FileExists):
            write_text(name, NEW)
        write_text(name, NEW, overwrite=True)
        assert Path(name).is_symlink()
        assert Path(name).read_text() == NEW
    assert sorted(path.name for path in Path("folder").iterdir()) == ["later", "target"]


def test_another_name_of_a_file_that_is_replaced_keeps_what_it_has() -> None:
    Path("a").write_text(OLD)
    os.link("a", "b")
    write_text("a", NEW, overwrite=True)
    assert Path("b").read_text() == OLD


def test_everything_is_synced_before_it_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, link = _files._sync, os.link

    def synced(path: Path) -> None:
        done.append("folder" if path.is_dir() else "file")
        sync(path)

    def linked(source: Path, target: Path) -> None:
        done.append("name")
        link(source, target)

    monkeypatch.setattr(_files, "_sync", synced)
    monkeypatch.setattr(os, "link", linked)
    write_text("a", NEW)
    assert done == ["file", "name", "folder"]


# a call's own inputs


def plain(_: Path) -> str:
    return "input.ledger"


def dotted(_: Path) -> str:
    return "./folder/../input.ledger"


def absolute(home: Path) -> str:
    return str(home / "input.ledger")


def symbolic(_: Path) -> str:
    Path("link").symlink_to("input.ledger")
    return "link"


def hard(_: Path) -> str:
    os.link("input.ledger", "hard")
    return "hard"


def log(_: Path) -> str:
    return "input.ledger-wal"


def absent_log(_: Path) -> str:
    return "input.ledger-shm"


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("name", [plain, dotted, absolute, symbolic, hard, log, absent_log])
def test_an_input_is_never_replaced_under_any_name(
    name: Callable[[Path], str], overwrite: bool, tmp_path: Path
) -> None:
    Path("folder").mkdir()
    Path("input.ledger").write_text(OLD)
    Path("input.ledger-wal").write_text(OLD)
    given = name(tmp_path)
    inputs = ["postgresql://clerk@db/hospital", "not there", "input.ledger"]
    with pytest.raises(FileError, match=r"which this reads|is what this reads"):
        write_text(given, NEW, overwrite=overwrite, inputs=inputs)
    with pytest.raises(FileError, match="never written over"):
        check_target(given, overwrite=overwrite, inputs=inputs)
    assert Path("input.ledger").read_text() == OLD
    assert Path("input.ledger-wal").read_text() == OLD
    assert not Path("input.ledger-shm").exists()


def test_an_input_that_takes_the_place_meanwhile_is_not_replaced() -> None:
    Path("input").write_text(OLD)
    with pytest.raises(FileError, match="is what this reads"):
        interrupt(lambda: os.link("input", "a"), "a", overwrite=True, inputs=["input"])
    assert Path("a").read_text() == OLD


def test_other_files_are_not_taken_for_inputs() -> None:
    Path("input").write_text(OLD)
    refuse_inputs("other", ["input"])
    write_text("other", NEW, inputs=["input"])


# sentences


def missing(_: pytest.MonkeyPatch) -> str:
    return "nowhere/a.txt"


def folder(_: pytest.MonkeyPatch) -> str:
    Path("folder").mkdir()
    return "folder"


def slash(_: pytest.MonkeyPatch) -> str:
    return "new/"


def in_a_file(_: pytest.MonkeyPatch) -> str:
    Path("file").touch()
    return "file/a.txt"


def too_long(_: pytest.MonkeyPatch) -> str:
    return "x" * 300


def pipe(_: pytest.MonkeyPatch) -> str:
    os.mkfifo("pipe")
    return "pipe"


def loop(_: pytest.MonkeyPatch) -> str:
    Path("loop").symlink_to("loop")
    return "loop"


def nul(_: pytest.MonkeyPatch) -> str:
    return "a\0b"


def surrogate(_: pytest.MonkeyPatch) -> str:
    return "a\ud800b"


def nameless(_: pytest.MonkeyPatch) -> str:
    return ""


def protected(patch: pytest.MonkeyPatch) -> str:
    patch.setattr(os, "access", lambda *_: False)
    Path("mine.txt").touch(mode=0o444)
    return "mine.txt"


REFUSED = {
    missing: "there is no folder nowhere to write nowhere/a.txt into; create it first",
    folder: "folder is a folder; give the name of a file",
    slash: "new/ is a folder; give the name of a file",
    in_a_file: "a part of it before the last is not a folder",
    too_long: "the name is too long; choose a shorter one",
    pipe: "pipe is a device or a pipe, not a file",
    loop: "a link that leads back to itself",
    nul: r"a\\x00b cannot be the name of a file",
    surrogate: r"a\\ud800b cannot be the name of a file",
    nameless: "the name of the file to write is empty",
    protected: "mine.txt is write-protected",
}


@pytest.mark.parametrize("place", REFUSED, ids=lambda place: place.__name__)
def test_a_place_that_cannot_be_written_is_one_sentence(
    place: Callable[[pytest.MonkeyPatch], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place(monkeypatch)
    before = sorted(Path().iterdir())
    with pytest.raises(FileError, match=REFUSED[place]) as early:
        check_target(path, overwrite=True)
    with pytest.raises(FileError) as late:
        write_text(path, NEW, overwrite=True)
    assert str(early.value) == str(late.value)
    assert str(late.value).isprintable()
    assert len(str(late.value)) < 300
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EACCES, "this user may not write into the folder ."),
        (errno.EROFS, "read-only disk"),
        (errno.ENOSPC, "the disk is full; a.txt was not written. Free some space"),
        (errno.EIO, "a.txt was not written: Input/output error"),
    ],
)
def test_what_the_system_refuses_is_one_sentence(code: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(FileError, match=words):
        write_text("a.txt", NEW)


def test_a_disk_that_fills_up_while_writing_is_one_sentence() -> None:
    Path("a.txt").write_text(OLD)
    with pytest.raises(FileError, match="the disk is full"):
        interrupt(lambda: fail(OSError(errno.ENOSPC, "No space left on device")), overwrite=True)
    assert Path("a.txt").read_text() == OLD


def test_a_failure_about_another_file_passes() -> None:
    with pytest.raises(FileNotFoundError), replacing("a.txt"):
        Path("nowhere").read_text()


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(FileError, match=r"may not write into the folder \."):
        check_target("a.txt")


def test_a_check_writes_nothing() -> None:
    check_target("a.txt")
    assert list(Path().iterdir()) == []
