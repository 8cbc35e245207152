"""Start the ranks of a job as processes that talk by gloo, and read what each of them says.

Importing torch costs seconds. So one process does it once, and every rank of every job is a fork of that process.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

import deniable

SECONDS = 500
"""How long a job may take before something hangs; a collective gives up earlier."""


def run_job(job: str, *, world: int, folder: Path, script: str = "ranks") -> tuple[list[int], list[str]]:
    """Run a job to its end. Returns the exit codes and the output of all ranks."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    request = {"job": job, "world": world, "folder": str(folder), "script": script}
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    codes = json.loads(server.stdout.readline())
    return codes, [_output(folder, job, rank).read_text() for rank in range(world)]


def read_job(job: str, *, world: int, folder: Path, script: str = "ranks") -> list[Any]:
    """Run a job. Returns what every rank saved."""
    codes, outputs = run_job(job, world=world, folder=folder, script=script)
    if any(codes):
        raise AssertionError(
            "\n".join(f"rank {r}, exit {c}:\n{s}" for r, (c, s) in enumerate(zip(codes, outputs, strict=True)))
        )
    return [torch.load(folder / f"{job}-{rank}.pt", weights_only=False) for rank in range(world)]


@cache
def _server() -> subprocess.Popen[str]:
    """The process that forks ranks: one for each worker of pytest that needs it."""
    root = Path(__file__).parents[3]
    paths = os.pathsep.join([str(Path(deniable.__path__[0]).parent), str(root)])
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.deep.distributed.launching"], cwd=root, text=True,
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    atexit.register(server.communicate)
    return server


def _output(folder: Path, job: str, rank: int) -> Path:
    return folder / f"{job}-{rank}.txt"


def _serve() -> None:
    """Fork the ranks of each job that standard input asks for; answer with their exit codes."""
    import_module("deniable.deep.trainer")
    import_module("torch.distributed.fsdp")
    for line in sys.stdin:
        request = json.loads(line)
        ranks = [_fork(rank=rank, **request) for rank in range(request["world"])]
        codes = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in ranks]
        print(json.dumps(codes), flush=True)


def _fork(*, job: str, world: int, folder: str, script: str, rank: int) -> int:
    """Start one rank. Returns its process id."""
    process = os.fork()
    if process:
        return process
    signal.alarm(SECONDS)
    output = os.open(_output(Path(folder), job, rank), os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world)}
    code = 1
    try:
        import_module(f"tests.deep.distributed.{script}").main(job, Path(folder))
        code = 0
    except BaseException:  # noqa: BLE001  a rank says everything it ends with
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
