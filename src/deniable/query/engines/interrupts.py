"""Ctrl-C while an engine computes: it is stopped at once, and waited for.

Python delivers a signal to the main thread between two of its own steps, so a long call into an engine would hold it
back. The call goes to another thread, the main thread waits for it, and Ctrl-C tells the engine to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")


def interruptible(work: Callable[[], T], *, stop: Callable[[], None]) -> T:
    """What `work` returns or raises. On Ctrl-C `stop` is called, `work` is waited for, and KeyboardInterrupt raised."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        found = pool.submit(work)
        try:
            return found.result()
        except KeyboardInterrupt:
            stop()
            wait([found])
            raise
