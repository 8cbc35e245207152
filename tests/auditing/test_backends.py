"""Audits on joblib's other backends give what they give on one core.

About 5 seconds; Ray, which is large, runs with `make soak` where it is installed.

Rounds are numbered and their coins drawn beforehand, so where they run changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import deniable as dn

PAIR = ([1.0] * 5, [1.0] * 4)


def slow_noise() -> Callable[[list[float]], float]:
    """A mechanism that workers get by value, slow enough to be worth a trip."""

    def noisy(data: list[float]) -> float:
        spent = sum(i * i for i in range(40_000))
        return sum(data) + float(np.random.default_rng().laplace(0, 0.5)) + 0 * spent

    return noisy


def audited(**settings: Any) -> dn.AuditReport:
    return dn.audit(
        slow_noise(), neighbours=PAIR, claim=dn.PureDP(1), runs=120, replay=False, seed=4, stop_early=False, **settings
    )


def same(backend: str) -> bool:
    import joblib

    here = audited()
    with joblib.parallel_config(backend=backend):
        there = audited(n_jobs=None)
    return (here.lower, here.evidence, here.curve) == (there.lower, there.evidence, there.curve)


def test_dask() -> None:
    distributed = pytest.importorskip("distributed", reason="needs Dask; run: pip install 'dask[distributed]'")
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None):
        assert same("dask")


@pytest.mark.soak
def test_ray() -> None:
    ray = pytest.importorskip("ray", reason="needs Ray; run: pip install ray")
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        register_ray()
        assert same("ray")
    finally:
        ray.shutdown()
