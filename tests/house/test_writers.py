"""One module of src writes files. The others call it, or stand in a short list with their reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "deniable"

ALLOWED: dict[tuple[str, str], str] = {
    ("ledger/stores/sqlite.py", "sqlite3.connect"): "the ledger: SQLite writes it, and opening never creates",
    ("query/publication/folder.py", "os.rename"): "a whole folder takes its place, where nothing is",
    ("query/publication/folder.py", "path.unlink"): "facts and unfinished files in the folder of the run itself",
    ("query/publication/folder.py", "self.work / BEGUN.unlink"): "the id of the run itself",
    ("query/engines/checked.py", "path.open"): "a piece of a CSV file, in a temporary folder of our own",
    ("query/engines/checked.py", "shard.unlink"): "which is removed when it is copied",
    ("query/engines/remote.py", "node.replace"): "no file: a node of a parsed query",
    ("deep/after_step.py", "torch.save"): "into memory, to see whether it could be read",
    ("deep/checkpoint.py", "os.open"): "the journal of a run: one line, written in place, locked by its owner",
    ("query/starting.py", "place.unlink"): "a ledger that this call created, before anything was charged to it",
    ("deep/checkpoint.py", "self._path.unlink"): "the same journal, after a refusal, before any step of the run began",
}
"""Calls outside `_files.py`, by file and by what is called, and why each can lose nothing."""

METHODS = frozenset(
    {
        "write_text", "write_bytes", "touch", "savefig", "imsave", "savetxt", "savez", "savez_compressed", "tofile",
        "to_csv", "to_parquet", "to_excel", "to_pickle", "to_feather", "to_hdf", "to_sql", "to_stata", "to_xml",
        "write_csv", "write_parquet", "write_ipc", "write_ndjson", "write_table", "write_feather", "write_dataset",
        "sink_csv", "sink_parquet", "memmap", "mkstemp", "NamedTemporaryFile", "unlink", "rmtree", "symlink_to",
        "hardlink_to", "symlink", "link", "copyfile", "copy2", "copytree", "move", "truncate", "mkfifo",
    }
)  # fmt: skip
"""Methods and functions that write, name or remove files, whatever they are called on."""

FUNCTIONS = frozenset(
    {
        "np.save", "numpy.save", "torch.save", "os.rename", "os.renames", "os.replace", "os.remove", "os.removedirs",
        "shutil.copy", "sqlite3.connect", "shelve.open", "dbm.open",
    }
)  # fmt: skip
STATEMENT = re.compile(r"\bCOPY\b[^;]*\bTO\b|\bEXPORT\s+DATABASE\b")
"""SQL by which an engine writes a file."""

MODE = re.compile(r"[rwaxbtU+]{1,4}")


def writers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines that write files, and what they call; what stands inside `with replacing(...)` writes a temporary one."""
    inside = {id(node) for block in ast.walk(tree) if _replaces(block) for node in ast.walk(block)}
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    ours = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "deniable._files"
        for alias in node.names
    }
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.Call) and _writes(node, ours):
            yield node.lineno, ast.unparse(node.func).replace("(", "").replace(")", "")
        elif isinstance(node, ast.Constant) and id(node) not in documents and STATEMENT.search(str(node.value)):
            yield node.lineno, "COPY"


def _replaces(node: ast.AST) -> bool:
    return isinstance(node, ast.With) and any(
        isinstance(item.context_expr, ast.Call)
        and ast.unparse(item.context_expr.func) in ("replacing", "_files.replacing")
        for item in node.items
    )


def _writes(call: ast.Call, ours: set[str]) -> bool:
    name = ast.unparse(call.func)
    last = name.rpartition(".")[2]
    if name in ours or name.startswith("_files."):
        return False
    if last in ("open", "fdopen", "ZipFile", "TarFile", "BytesIO", "FileIO"):
        flags = [ast.unparse(argument) for argument in call.args]
        if name == "os.open":
            return any(flag in text for text in flags for flag in ("O_CREAT", "O_WRONLY", "O_RDWR", "O_TRUNC"))
        return any(map(_is_writing_mode, [*call.args[:2], *(k.value for k in call.keywords if k.arg == "mode")]))
    if last in ("replace", "rename") and isinstance(call.func, ast.Attribute):
        # A text's and a date's `replace` have two arguments or named ones; a path's has one.
        return name in FUNCTIONS or (len(call.args) == 1 and not call.keywords)
    if last in ("to_csv", "to_parquet") and not call.args and not call.keywords:
        return False  # ours give text
    return (last in METHODS and "." in name) or name in FUNCTIONS


def _is_writing_mode(argument: ast.expr) -> bool:
    if not isinstance(argument, ast.Constant):
        return False
    value = argument.value
    return isinstance(value, str) and MODE.fullmatch(value) is not None and bool(set(value) & set("wax+"))


def found(path: Path) -> list[tuple[int, str]]:
    return list(writers(ast.parse(path.read_text(encoding="utf-8"))))


def test_one_module_writes_files() -> None:
    others = [
        f"{path.relative_to(SOURCE)}:{line}: {call}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.name != "_files.py"
        for line, call in found(path)
        if (str(path.relative_to(SOURCE)), call) not in ALLOWED
    ]
    assert others == [], "write by deniable._files, which replaces nothing unless told"


def test_every_exception_is_still_needed() -> None:
    for name, call in ALLOWED:
        assert call in {called for _, called in found(SOURCE / name)}, (name, call)


@pytest.mark.parametrize(
    "line",
    [
        "open(path, 'w')",
        "open(path, mode='ab')",
        "path.open('x')",
        "path.open('r+b')",
        "io.open(path, 'wt')",
        "gzip.open(path, 'wb')",
        "os.fdopen(handle, 'w')",
        "os.open(path, os.O_CREAT | os.O_WRONLY)",
        "zipfile.ZipFile(path, 'w')",
        "path.write_text('x')",
        "Path('x').write_bytes(b'x')",
        "path.touch()",
        "frame.to_csv(path)",
        "frame.to_parquet(path, index=False)",
        "frame.write_parquet(path)",
        "np.save(path, array)",
        "torch.save(state, path)",
        "sheet.savefig(path)",
        "os.replace(a, b)",
        "a.replace(b)",
        "a.rename(b)",
        "os.rename(a, b)",
        "shutil.move(a, b)",
        "shutil.copyfile(a, b)",
        "path.unlink()",
        "shutil.rmtree(path)",
        "tempfile.mkstemp()",
        "connection.execute(f\"COPY (SELECT 1) TO '{path}'\")",
        "connection.execute('COPY t\\nTO x (FORMAT parquet)')",
        "connection.execute(\"EXPORT DATABASE 'x'\")",
    ],
)
def test_the_search_finds_every_way_to_write(line: str) -> None:
    assert list(writers(ast.parse(line))), line
    allowed = f"with _files.replacing(place) as path:\n    {line}"
    assert not list(writers(ast.parse(allowed)))


@pytest.mark.parametrize(
    "line",
    [
        "open(path)",
        "path.open('rb')",
        "Ledger.open(path)",
        "gzip.open(path, 'rb')",
        "_files.write_text(path, text)",
        "from deniable._files import write_text\nwrite_text(path, text)",
        "text.replace('a', 'b')",
        "when.replace(hour=1)",
        "replace(plan, steps=3)",
        "release.to_csv()",
        "'''A docstring that says COPY t TO a file'''",
        "os.open(folder, os.O_RDONLY)",
    ],
)
def test_the_search_lets_readers_pass(line: str) -> None:
    assert not list(writers(ast.parse(line))), line
