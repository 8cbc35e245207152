"""How much the law is tried on: `python -m tests.laws.neighbours`, in the root of the repository."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.laws.neighbours.core import EntryPoint, ordinary_labels


def main() -> None:
    print(f"{'file':<12} {'entry points':>12} {'public names':>12} {'pairs':>8} {'ordinary run':>12}")
    rooms: dict[str, list[EntryPoint]] = {}
    for path in sorted(Path(__file__).parent.glob("[!_]*.py")):
        rooms[path.stem] = list(getattr(import_module(f"tests.laws.neighbours.{path.stem}"), "ENTRY_POINTS", ()))
    every = [entry for entries in rooms.values() for entry in entries]
    labels = ordinary_labels(every)
    for name, entries in (*rooms.items(), ("all", every)):
        if entries:
            names = {covered for entry in entries for covered in entry.covers}
            pairs = sum(len(entry.hostile) for entry in entries)
            tried = sum(len(labels[entry.name]) for entry in entries)
            print(f"{name:<12} {len(entries):>12} {len(names):>12} {pairs:>8} {tried:>12}")


if __name__ == "__main__":
    main()
