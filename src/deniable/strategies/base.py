"""What a strategy is: a matrix C, how far one unit can move C·x, the error it leaves, and a stream of its noise.

A run releases x_t + n_t for t = 1 … T, x_t the clipped sum of step t and n = N·z for normal z, where N·C = I (N = C⁻¹
when C is square). So everything released is N·(C·x + z), post-processing of one Gaussian step whose sensitivity is the
largest |C·u| that one unit can cause. It may be adaptive, x_t depending on what was released before: what step t
releases uses only rows of C·x + z that are final by then, and the noise is Gaussian (Denisov et al. 2022, Theorem 2.1).

>>> from deniable.strategies import Toeplitz, once
>>> strategy = Toeplitz.square_root(100)
>>> strategy.event(scale=4, participation=once(100))
MatrixGaussian(scale=4, sensitivity=1.59102235, steps=100)
>>> f"{strategy.rmse(once(100)):.2f}, with independent noise {(101 / 2) ** 0.5:.2f}"
'2.37, with independent noise 7.11'
"""

from __future__ import annotations

import base64
import json
import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from deniable._checks import Number
from deniable._forms import Plain
from deniable._signatures import public
from deniable.errors import InvalidArgument
from deniable.events import MatrixGaussian
from deniable.strategies import sensitivity as bounds
from deniable.strategies.sensitivity import Participation, Sensitivity, once
from deniable.strategies.series import Array
from deniable.strategies.streams import Stream
from deniable.strategies.workloads import EACH, PREFIX, Workload
from deniable.units import AnyRelation, Relation

FORMAT = 1
"""The version of the JSON form."""


class Strategy(Plain):
    """Correlated noise for a run of `steps` steps. Immutable; equal when its numbers are."""

    steps: int
    registry: ClassVar[dict[str, type[Strategy]]] = {}

    def __init_subclass__(cls) -> None:
        Strategy.registry[cls.__name__] = cls

    # what it is

    @property
    @abstractmethod
    def bands(self) -> int:
        """Diagonals of C that are not 0, from the main one down: what one step adds is gone after so many."""

    @property
    @abstractmethod
    def memory(self) -> int:
        """Models of noise that a stream keeps between steps."""

    @property
    @abstractmethod
    def positive(self) -> bool:
        """Whether no entry of C is negative. Then leaving out entries of C never raises a sensitivity."""

    @abstractmethod
    def columns(self, places: Any) -> Array:
        """Columns of C."""

    @abstractmethod
    def stream(self) -> Stream:
        """A fresh stream of N·z."""

    @abstractmethod
    def variances(self, workload: Workload = PREFIX) -> Array:
        """The variance of every row of A·N·z for standard normal z."""

    def matrix(self) -> Array:
        """C, whole."""
        return self.columns(np.arange(self.steps))

    # what it costs

    @property
    def rows(self) -> int:
        """Rows of C."""
        return self.steps

    def lengths(self) -> Array:
        """The norms of the columns of C."""
        found = np.empty(self.steps)
        for start in range(0, self.steps, 1024):
            found[start : start + 1024] = np.linalg.norm(
                self.columns(np.arange(start, min(start + 1024, self.steps))), axis=0
            )
        return found

    def gram(self, left: Any, right: Any) -> Array:
        """⟨C e_i, C e_j⟩ for i in `left`, j in `right`."""
        return np.asarray(self.columns(left).T @ self.columns(right))

    def sensitivity(self, participation: Participation) -> Sensitivity:
        """The largest |C·u|, in clips, over the patterns of a participation; computed once."""
        if participation.steps != self.steps:
            raise InvalidArgument("participation", participation, f"about the {self.steps} steps of this strategy")
        known: dict[Participation, Sensitivity] = self.__dict__.setdefault("_known", {})
        if participation not in known:
            known[participation] = self._bound(participation)
        return known[participation]

    def _bound(self, participation: Participation) -> Sensitivity:
        """The theorem that applies, most special first; see `sensitivity`."""
        if participation.times == 1:
            return bounds.one_step(self.lengths(), self.rows)
        if self.bands <= participation.separation:
            return bounds.orthogonal(self.lengths(), participation, self.rows)
        if participation.ordered:
            return bounds.in_order(self.gram, self.lengths(), participation, self.rows)
        return bounds.in_general(self.gram, self.lengths(), participation, self.rows)

    def survives_loss(self, separation: int) -> bool:
        """Whether a stream may go on with an empty memory (`Stream.skip`) under the same event."""
        return self.positive or self.bands <= separation

    @public
    def event(
        self, scale: Number, participation: Participation, *, relation: AnyRelation = Relation.ZERO_OUT
    ) -> MatrixGaussian:
        """A whole run with z of deviation `scale` × clip."""
        relation = Relation.of(relation)
        return MatrixGaussian(
            scale, self.sensitivity(participation).value, self.steps, participation.times, participation.separation,
            relation,
        )  # fmt: skip

    # how good it is

    def rmse(self, participation: Participation, workload: Workload = PREFIX) -> float:
        """The root of the mean squared error of A·x at unit noise per unit of sensitivity: what is minimised."""
        mean = float(np.mean(self.variances(workload)))
        return float(self.sensitivity(participation).value) * math.sqrt(mean)

    def worst(self, participation: Participation, workload: Workload = PREFIX) -> float:
        """The same for the worst row of A."""
        return float(self.sensitivity(participation).value) * math.sqrt(float(np.max(self.variances(workload))))

    def growth(self) -> float:
        """The largest noise of a single step, per unit of sensitivity to one: 1 if independent, large where C⁻¹ grows.

        It is not a number, or infinite, where C⁻¹ grows beyond the doubles.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self.worst(once(self.steps), EACH)

    # JSON

    @abstractmethod
    def plain(self) -> dict[str, Any]:
        """Its numbers as JSON, with its kind."""

    @classmethod
    @abstractmethod
    def _built(cls, found: dict[str, Any]) -> Strategy:
        """The strategy whose numbers `plain` gave."""

    def to_dict(self) -> dict[str, Any]:
        """Its numbers, exact: doubles are kept bit by bit, as text."""
        return {"deniable_strategy": FORMAT, **self.plain()}

    @staticmethod
    def from_json(text: str) -> Strategy:
        """The strategy that `to_json` wrote."""
        try:
            found = json.loads(text)
            if found.pop("deniable_strategy") != FORMAT:
                raise InvalidArgument("text", "…", f"a strategy's JSON of version {FORMAT}")
            return Strategy.from_plain(found)
        except (TypeError, KeyError, AttributeError, ValueError, json.JSONDecodeError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument("text", "…", "a strategy's JSON, as strategy.to_json() writes it") from None

    @staticmethod
    def from_plain(found: dict[str, Any]) -> Strategy:
        """The strategy that `plain` described."""
        kind = found.get("kind")
        if kind not in Strategy.registry:
            raise InvalidArgument("kind", kind, f"a known strategy: {', '.join(sorted(Strategy.registry))}")
        return Strategy.registry[kind]._built(found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Strategy) and self.plain() == other.plain()

    def __hash__(self) -> int:
        return hash(self.to_json())


def packed(values: Array) -> str:
    """Doubles as text, bit by bit."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode()


def unpacked(text: str) -> Array:
    """The doubles that `packed` wrote."""
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8").astype(np.float64)


def finite(name: str, values: Any) -> Array:
    """A read-only copy of finite numbers."""
    found = np.array(values, dtype=np.float64)
    if not found.size or not np.all(np.isfinite(found)):
        raise InvalidArgument(name, "…", "finite numbers")
    found.flags.writeable = False
    return found
