"""The API reference: one page per room with every public name, made from the docstrings when the site is built.

`pages` needs nothing but the package, so that a test can compare it with what is public; after the build,
docs/website.py asks `missing` for the names that are not in what was written.
"""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

import deniable

SOURCE = Path(__file__).parents[1] / "src"

ROOMS: dict[str, tuple[str, ...]] = {
    "units": ("units",),
    "guarantees": ("guarantees",),
    "events": ("events",),
    "conversions": ("conversions",),
    "accounting": ("accounting",),
    "textbook": ("textbook",),
    "calibration": ("calibration",),
    "noise": ("noise",),
    "mechanisms": ("mechanisms",),
    "strategies": ("strategies",),
    "ledger": ("ledger",),
    "query": ("query", "query.engines"),
    "service": ("service",),
    "synthesis": ("synthesis",),
    "learning": ("learning", "learning.losses"),
    "deep": ("deep",),
    "auditing": ("auditing", "auditing.statistics", "auditing.training", "auditing.demonstrations"),
    "explaining": (
        "explaining",
        "explaining.report",
        "explaining.dashboard",
        "explaining.curves",
        "explaining.odds",
        "explaining.svg",
        "explaining.plots",
    ),
    "descriptions": ("descriptions",),
    "errors": ("errors",),
}
"""The page of each room, and the modules on it."""


def names(module: str) -> list[str]:
    """What a module offers: its `__all__`, or the functions and classes it defines."""
    room = import_module(f"deniable.{module}")
    listed = getattr(room, "__all__", None)
    if listed is None:
        listed = [name for name, value in vars(room).items() if getattr(value, "__module__", "") == room.__name__]
    folder = _file(f"deniable.{module}").parent
    modules = {name for name in listed if (folder / name / "__init__.py").exists()}
    modules |= {name for name in listed if isinstance(vars(room).get(name), ModuleType)}
    return sorted((name for name in listed if name[0] != "_" and name not in modules), key=str.lower)


def definition(module: str, name: str) -> str:
    """Where a public name is defined, found in the source: a room may load it lazily, or need an extra for it."""
    origin = _imports(module).get(name)
    return definition(*origin) if origin else f"{module}.{name}"


@cache
def _imports(module: str) -> dict[str, tuple[str, str]]:
    """The names that a module imports from others: the module and the name of each there."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                found.setdefault(alias.asname or alias.name, (node.module, alias.name))
    return found


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_file(module).read_text(encoding="utf-8"))


def summary(place: str) -> str:
    """The first sentence that the source says about a module, a class, a function or a constant."""
    module, _, name = place.rpartition(".")
    text = ast.get_docstring(_tree(place)) if _file(place).exists() else _docstring(_tree(module), name)
    if not text:
        raise LookupError(f"{place} has no docstring")
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def _docstring(tree: ast.Module, name: str) -> str | None:
    """Of a class or function, or the text that follows an assignment."""
    for at, node in enumerate(tree.body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(each, ast.Name) and each.id == name for each in targets):
            after = tree.body[at + 1] if at + 1 < len(tree.body) else None
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return str(after.value.value)
    return None


def _file(module: str) -> Path:
    path = SOURCE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def pages() -> dict[str, str]:
    """The Markdown of every page, by its path under docs/."""
    made = {"api/index.md": _index()}
    for room, modules in ROOMS.items():
        parts = [f"# deniable.{room}"]
        for module in modules:
            if len(modules) > 1:
                parts.append(f"## deniable.{module}")
            parts.append(f"::: deniable.{module}\n    options: {{members: false, show_root_heading: false}}")
            parts += [f"::: {definition(f'deniable.{module}', name)}" for name in names(module)]
        made[f"api/{room}.md"] = "\n\n".join(parts) + "\n"
    return made


def _index() -> str:
    """What `import deniable as dn` offers, each name with a link to its place."""
    public = sorted(deniable._HOMES.items(), key=lambda pair: pair[0].lower())
    rows = []
    for name, home in public:
        place = definition(home, name)
        rows.append(f"| [`dn.{name}`][{place}] | {summary(place)} | [`{home}`]({_page(home)}) |")
    rooms = [
        f"| [`dn.{room}`]({_page('deniable.' + room)}) | {summary('deniable.' + room)} |" for room in deniable._ROOMS
    ]
    return "\n".join(
        [
            "# Reference\n\nWhat `import deniable as dn` offers. A name opens its room when it is first used.\n",
            "| name | what it is | room |\n|---|---|---|",
            *rows,
            "\nRooms that are used by their own name:\n\n| room | what lives there |\n|---|---|",
            *rooms,
            "",
        ]
    )


def _page(home: str) -> str:
    module = home.removeprefix("deniable.")
    return next(f"{room}.md" for room, modules in ROOMS.items() if module in modules)


def missing(site: Path) -> list[str]:
    """The public names that have no place in the written site."""
    lines = []
    for room, modules in ROOMS.items():
        text = Path(site, "api", room, "index.html").read_text(encoding="utf-8")
        for module in modules:
            places = {name: definition(f"deniable.{module}", name) for name in names(module)}
            lines += [f"api/{room} lacks {name}" for name, place in places.items() if f'id="{place}"' not in text]
    return lines
