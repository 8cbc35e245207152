"""Past rounds as tables of numbers, one for each structure of outputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from deniable.auditing.detectors.base import Floats, Worlds
from deniable.auditing.outputs import Output


class Past:
    """The numbers of past rounds, by structure."""

    def __init__(self) -> None:
        self._rows: dict[str, list[Floats]] = {}
        self._worlds: dict[str, list[Worlds]] = {}

    def add(self, outputs: Sequence[Output], worlds: Worlds) -> None:
        """More rounds."""
        structures = np.array([output.structure for output in outputs])
        for structure in dict.fromkeys(structures.tolist()):
            (places,) = np.nonzero(structures == structure)
            self._rows.setdefault(structure, []).append(np.stack([outputs[i].numbers for i in places.tolist()]))
            self._worlds.setdefault(structure, []).append(worlds[places])

    def common(self) -> tuple[str, Floats, Worlds]:
        """The most frequent structure, its numbers, and their worlds."""
        structure = max(self._worlds, key=lambda name: sum(map(len, self._worlds[name])), default="")
        if not structure:
            return "", np.zeros((0, 0)), np.zeros(0, dtype=bool)
        rows, worlds = np.concatenate(self._rows[structure]), np.concatenate(self._worlds[structure])
        self._rows[structure], self._worlds[structure] = [rows], [worlds]
        return structure, rows, worlds
