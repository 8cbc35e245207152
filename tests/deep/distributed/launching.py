"""Start the ranks of a job as processes that talk by gloo, and read what each of them says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

import deniable

HERE = Path(__file__).parent
SECONDS = 500
"""How long a job may take before something hangs; a collective gives up earlier."""


def started(job: str, *, world: int, folder: Path, script: str = "ranks.py") -> list[subprocess.Popen[str]]:
    """The processes of a job, one per rank."""
    root = HERE.parent.parent.parent
    paths = os.pathsep.join([str(Path(deniable.__path__[0]).parent), str(root)])
    settings = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(world)}
    return [
        subprocess.Popen(
            [sys.executable, str(HERE / script), job, str(folder)],
            env={**settings, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(world)
    ]  # fmt: skip


def finished(running: list[subprocess.Popen[str]]) -> tuple[list[int], list[str]]:
    """Exit codes and output of all ranks."""
    try:
        said = [each.communicate(timeout=SECONDS)[0] for each in running]
    finally:
        for each in running:
            each.kill()
    return [each.returncode for each in running], said


def told(job: str, *, world: int, folder: Path, script: str = "ranks.py") -> list[Any]:
    """What every rank of a job returned."""
    codes, said = finished(started(job, world=world, folder=folder, script=script))
    if any(codes):
        raise AssertionError(
            "\n".join(f"rank {r}, exit {c}:\n{s}" for r, (c, s) in enumerate(zip(codes, said, strict=True)))
        )
    return [torch.load(folder / f"{job}-{rank}.pt", weights_only=False) for rank in range(world)]
