"""Stopping and going on without paying twice, repeating noise, or forgetting a step.

Two files. The *checkpoint* holds the plan, the run's key in the ledger, the step, model, optimizer, the order of the
units (drawn before the first checkpoint, and never again), and torch's generator state (for dropout). It holds no key
of the noise: a resumed run draws fresh ones. The *journal* beside it says how many steps have begun, and has a digest
of the order, so that a checkpoint with another one is refused. It is on disk before a step touches the data, some steps
ahead, so a crash can only make it too large; and a process takes back only what it wrote ahead itself.

A resumed run goes on at the step after the last one that may have begun. Steps that were lost in a crash stay
spent: their noisy sums may have been seen, and computing them again with fresh noise would be a second release. A run
therefore never takes more noisy steps than its plan, whatever happens to it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import pickle
import weakref
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deniable import _files
from deniable.errors import DataError, LedgerError

FORMAT = 1
AHEAD = 16
"""Steps that the journal says have begun before they do: one durable write for so many steps."""


def written(path: Path, state: dict[str, Any], *, overwrite: bool = False) -> None:
    """Write a checkpoint, whole or not at all: over an earlier one of the same run, over anything else only if told."""
    own = is_of_run(path, state["run"])
    with _files.replacing(path, overwrite=overwrite or own) as beside:
        torch.save({"deniable_checkpoint": FORMAT, **state}, beside)


def check_place(path: Path, *, run: str, overwrite: bool) -> None:
    """Refuse what `written` would refuse, before the journal is begun."""
    _files.check_target(path, overwrite=overwrite or is_of_run(path, run))


def is_of_run(path: Path, run: str) -> bool:
    """Whether there is a checkpoint of this run at a path. Its tensors are not read."""
    try:
        return bool(zipfile.is_zipfile(path)) and read(path, mmap=True)["run"] == run
    except (DataError, OSError, KeyError):
        return False


def read(path: Path, *, mmap: bool = False) -> dict[str, Any]:
    """The state that `written` wrote. Nothing in the file is executed."""
    if not path.is_file():
        raise DataError(f"there is no checkpoint at {path}; trainer.save(path) writes one")
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path} is not a checkpoint, or not a whole one; give a file that trainer.save wrote")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except (RuntimeError, pickle.UnpicklingError) as error:
        raise DataError(f"the checkpoint at {path} cannot be read; it is damaged or holds more than numbers") from error
    if not isinstance(found, dict) or found.get("deniable_checkpoint") != FORMAT:
        raise DataError(f"{path} is not a checkpoint of format {FORMAT}")
    wrong = [name for name, fits in _PARTS.items() if name not in found or not fits(found[name])]
    wrong += [name for name, fits in _LATER.items() if name in found and not fits(found[name])]
    if wrong:
        raise DataError(
            f"the checkpoint at {path} is not as trainer.save wrote it: {', '.join(wrong)}. Bring the file that was"
            " written, or start a new run and pay for it."
        )
    return found


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_state(value: Any) -> bool:
    """Whether it is the state of one of torch's generators."""
    return isinstance(value, Tensor) and value.dtype == torch.uint8 and value.dim() == 1


_PARTS: dict[str, Callable[[Any], bool]] = {
    "plan": lambda value: isinstance(value, str),
    "run": lambda value: isinstance(value, str),
    "step": _is_count,
    "order": lambda value: value is None or (isinstance(value, Tensor) and value.dtype in (torch.int32, torch.int64)),
    "torch": lambda value: _is_state(value) and value.shape == torch.get_rng_state().shape,
    "cuda": lambda value: isinstance(value, list) and all(map(_is_state, value)),
    "charge": lambda value: value is None or (isinstance(value, list) and len(value) == 2),
    "noise": lambda value: isinstance(value, dict),
    "model": lambda value: isinstance(value, dict),
    "optimizer": lambda value: isinstance(value, dict),  # what is in it differs with the way ranks share a model
}
"""What a checkpoint holds, and whether a value can be that."""


def _is_point(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and _is_count(value[0])
        and all(isinstance(each, float) for each in value[1:])
    )


def _is_tensors(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, Tensor) for each in value.values())


_LATER: dict[str, Callable[[Any], bool]] = {
    "measures": lambda value: (
        isinstance(value, dict)
        and value.keys() == {"clip", "series"}
        and (value["clip"] is None or isinstance(value["clip"], float))
        and isinstance(value["series"], list)
        and all(map(_is_point, value["series"]))
    ),
    "after_step": lambda value: (
        isinstance(value, dict)
        and value.keys() == {"scheduler", "average"}
        and (value["scheduler"] is None or isinstance(value["scheduler"], dict))
        and (
            value["average"] is None
            or (
                isinstance(value["average"], dict)
                and all(isinstance(each, Tensor) for each in value["average"].values())
            )
        )
    ),
}
"""What a checkpoint holds that earlier versions did not write."""


def digest_of(order: Any) -> str:
    """A digest of the order of the units, for the journal: it shows whether a checkpoint holds the one that was drawn.

    An order is drawn without looking at anybody, so its digest says nothing about them.
    """
    values = None if order is None else np.ascontiguousarray(np.asarray(order), dtype=np.int64)
    return "" if values is None else hashlib.sha256(repr(values.shape).encode() + values.tobytes()).hexdigest()


class Journal:
    """How many steps of one run have begun, in a file that one process holds at a time."""

    def __init__(self, checkpoint: Path, *, run: str, create: bool, order: str = "") -> None:
        self.order = order
        """The digest of the order of the units, which a run keeps from its first step to its last."""
        self._path = checkpoint.with_name(checkpoint.name + ".journal")
        self._run = run
        if not create and not self._path.exists():
            raise LedgerError(
                f"{self._path.name} is missing: it says which steps have begun and belongs to the checkpoint."
                " Bring both, or start a new run and pay for it."
            )
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise LedgerError(
                f"another trainer, in this process or in another, holds run {run!r}: a run is executed once. Call"
                " close() on that one to go on with this."
            ) from None
        # A trainer that nobody can reach takes no more steps, so it holds nothing.
        self._release = weakref.finalize(self, os.close, self._file)
        self.begun = self._read(create=create)
        # What other processes began is not taken back; what this one wrote ahead of its own steps may be.
        self._least = self.begun

    def _read(self, *, create: bool) -> int:
        text = os.pread(self._file, 4096, 0).split(b"\n")[0].strip(b" \0")
        if not text and create:
            return 0
        try:
            found = json.loads(text)
            run, begun, order = found["run"], int(found["begun"]), str(found.get("order", self.order))
        except (ValueError, KeyError, TypeError):
            self.close()
            raise LedgerError(f"{self._path.name} cannot be read; without it nobody knows which steps began.") from None
        if run != self._run:
            self.close()
            raise LedgerError(f"{self._path.name} belongs to another run; choose another place for this one.")
        if begun and self.order and order != self.order:  # one without any order is refused by the trainer
            self.close()
            raise DataError(
                f"{self._path.name} tells of another order of the units than the checkpoint holds, and {begun} steps"
                " have begun. Another order would let a unit take part more often than was paid for. Bring the"
                " checkpoint that was written, or start a new run and pay for it."
            )
        return begun

    @property
    def file(self) -> int:
        """The open file, whose lock keeps other processes out."""
        return self._file

    def begin(self, step: int, *, last: int) -> None:
        """Step number `step` (from 1) is about to touch the data; `last` is the plan's last."""
        if step > self.begun:
            self.mark(min(step + AHEAD - 1, last))

    def mark(self, begun: int) -> None:
        """Say durably that so many steps have begun. One line of fixed length, so that no write is half done."""
        if begun < self._least:
            raise LedgerError(
                f"{self._path.name} says that {self._least} steps of run {self._run!r} have begun, and this trainer is"
                f" at step {begun}. Trainer.resume goes on behind them; a new run needs another place."
            )
        line = json.dumps({"run": self._run, "begun": begun, "order": self.order}).encode().ljust(511) + b"\n"
        os.pwrite(self._file, line, 0)
        os.fsync(self._file)
        self.begun = begun

    def discard(self) -> None:
        """Take the journal away again, where no step has begun."""
        if not self.begun and self._file >= 0:
            self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let another process take over."""
        self._file = -1
        self._release()
