"""Two import contracts for a house whose rooms are still being built.

import-linter's own `forbidden` and `protected` contracts fail when a module they name does not exist. These two pass
over a room that is not built yet; `test_contracts.py` makes sure that every name in them is a room or a dependency.
Both look at direct imports, wherever they stand: at the top, in a function, or under TYPE_CHECKING.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

ROOT = "deniable"


def within(module: str, place: str) -> bool:
    """Whether a module is a place or lies inside it; `a.b.*` means inside, not `a.b` itself."""
    if place.endswith(".*"):
        return module.startswith(place[:-1])
    return module == place or module.startswith(place + ".")


class _DirectImports(Contract):  # type: ignore[misc]
    def imports(self, graph: ImportGraph) -> Iterable[tuple[str, str]]:
        for importer in sorted(graph.modules):
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                yield importer, imported

    def verdict(self, broken: list[tuple[str, str]]) -> ContractCheck:
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported in check.metadata["broken"]:
            output.print_error(f"- {importer} imports {imported}", bold=False)
        output.new_line()


class MayNotTouch(_DirectImports):
    """`rooms` may not import `forbidden`."""

    rooms = fields.SetField(subfield=fields.StringField())
    forbidden = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        return self.verdict(
            [
                (importer, imported)
                for importer, imported in self.imports(graph)
                if any(within(importer, f"{ROOT}.{room}") for room in self.rooms)
                and any(within(imported, place) for place in self.forbidden)
            ]
        )


class LivesIn(_DirectImports):
    """`libraries` are imported in `homes` and nowhere else."""

    libraries = fields.SetField(subfield=fields.StringField())
    homes = fields.SetField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        homes: Any = self.homes or set()
        return self.verdict(
            [
                (importer, imported)
                for importer, imported in self.imports(graph)
                if any(within(imported, library) for library in self.libraries)
                and not any(within(importer, f"{ROOT}.{home}") for home in homes)
            ]
        )
