"""What every private estimator shares: parameters in, one charge, one plan, one run.

`fit` first settles everything public (promise, bounds, method), then charges the ledger, then reads the records. The
number of records is itself private under ADD_REMOVE: unless `size` declares it, a fiftieth of ε buys a noisy count.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from deniable import _checks
from deniable.errors import DataError, InvalidArgument
from deniable.events import Claimed, Event
from deniable.guarantees import ApproxDP, Profile, PureDP
from deniable.learning.choice import Choice, Entry, choose
from deniable.learning.losses.base import LinearLoss, PointLoss
from deniable.learning.optimizers.base import Data, Method, Task
from deniable.learning.optimizers.exact import minimiser
from deniable.learning.privacy import count_event, noisy_count, profile_of, target_of
from deniable.learning.table import Table
from deniable.ledger import Ledger
from deniable.units import Relation

Array = NDArray[Any]

COUNT_SHARE = Fraction(1, 50)
"""The part of ε that buys a noisy count when the number of records is not declared."""

RESERVE = Fraction(1, 1000)
"""The part of ε left unspent beside a noisy count, so that the curve of both, rounded up, still says ε."""


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """The common fit. Subclasses say which loss, which methods, and what the parameters mean."""

    event_: Event | None
    solver_: Choice | None

    @property
    def profile_(self) -> Profile:
        """The certified privacy curve of this fit."""
        check_is_fitted(self, "event_")
        if self.event_ is None:
            raise InvalidArgument("epsilon", math.inf, "finite for a privacy curve: this fit was not private")
        return profile_of(self.event_)

    @property
    def _private(self) -> bool:
        return not (isinstance(self.epsilon, float | np.floating) and math.isinf(self.epsilon) and self.epsilon > 0)

    def _relation(self) -> Relation:
        if isinstance(self.relation, Relation):
            return self.relation
        try:
            return Relation(self.relation)
        except ValueError:
            raise InvalidArgument("relation", self.relation, "'add_remove' or 'replace'") from None

    def _bound(self, name: str) -> float:
        """A public bound; it is never computed from the data."""
        value = getattr(self, name)
        if value is None:
            raise InvalidArgument(name, None, _WANTED[name], _CHOOSE[name])
        return float(_checks.positive(name, value, remedy=_CHOOSE[name]))

    def _methods(self) -> Sequence[Method]:
        """What solver='auto' chooses from."""
        raise TypeError(f"{type(self).__name__} does not say which solvers it has")

    def _by_name(self) -> Sequence[Method]:
        """What solver= may name besides: methods whose planning or running takes long."""
        return ()

    def _chosen(self) -> Sequence[Method]:
        """The methods in question: all, the named one, or the given one."""
        if isinstance(self.solver, Method):
            return (self.solver,)
        if self.solver == "auto":
            return self._methods()
        known = {method.name: method for method in (*self._methods(), *self._by_name())}
        if self.solver not in known:
            raise InvalidArgument("solver", self.solver, f"'auto', one of {', '.join(known)}, or a Method")
        return (known[self.solver],)

    def _rows(self, X: Any, *, norm: float, reset: bool, y: Any = "no_validation") -> Any:
        """Finite rows; longer ones than the bound are kept (to be clipped) or refused, as was asked beforehand."""
        if self.beyond not in ("clip", "refuse"):
            raise InvalidArgument("beyond", self.beyond, "'clip' or 'refuse'")
        try:
            checked = validate_data(self, X, y, reset=reset, accept_sparse="csr", dtype=np.float64)
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            # The original message repeats the value.
            raise DataError(
                "X holds text; encode it first, for example with deniable.learning.CategoryEncoder"
            ) from None
        rows = checked if isinstance(y, str) else checked[0]
        if reset and self.beyond == "refuse":
            squares = rows.multiply(rows).sum(axis=1) if hasattr(rows, "tocsr") else np.square(rows).sum(axis=1)
            if rows.shape[0] and float(np.max(squares)) > norm * norm * (1 + 1e-9):
                raise DataError(
                    f"some row is longer than data_norm={norm:g}; scale the columns by public ranges, raise data_norm, "
                    "or let beyond='clip' shorten such rows"
                )
        return checked

    def _weights(self, sample_weight: Any, count: int) -> Array | None:
        if sample_weight is None:
            return None
        from sklearn.utils.validation import _check_sample_weight

        weights = _check_sample_weight(sample_weight, np.empty((count, 1)), dtype=np.float64)
        if weights.size and (weights.min() < 0 or weights.max() > 1):
            raise DataError("sample weights must lie between 0 and 1: a record may count less than one, never more")
        return np.asarray(weights)

    def _solve(
        self, data: Data, loss: LinearLoss | PointLoss, *, regularization: float = 0.0, radius: float | None = None
    ) -> Array:
        """Count, choose, charge, run. Sets event_, solver_ and size_."""
        relation = self._relation()
        methods = self._chosen()
        if not self._private:
            return self._open(data, loss, regularization)
        target = target_of(self.epsilon, self.delta, relation)
        public = relation is not Relation.ADD_REMOVE
        declared = None if self.size is None else _checks.count("size", self.size)
        counted = None if public or declared is not None else target.epsilon * COUNT_SHARE
        rest = target if counted is None else _reduced(target, counted + target.epsilon * RESERVE)

        def task(size: int) -> Task:
            return Task(loss, data.table.columns, rest, size, regularization, radius)

        known = data.table.count if public else declared
        if known is not None:
            choice = choose(task(known), methods)
            event = choice.plan.event
            self._charge(event)
        else:
            # Whatever does not apply is refused before anything is charged. What the plan will be depends on the noisy
            # count, unless there is one method whose event does not; then only the target is known beforehand.
            tried = choose(task(1000), methods)
            fixed = len(methods) == 1 and methods[0].size_free
            share = counted if counted is not None else target.epsilon
            event = count_event(share) + (tried.plan.event if fixed else Claimed(rest))
            self._charge(event)
            known = noisy_count(data.table.count, epsilon=share, source=self.source)
            # Four noise scales below: a plan for more records than there are would trust the noise.
            choice = choose(task(max(1, known - round(4 / share))), methods)
        theta = choice.plan.run(data, source=self.source)
        self.event_, self.solver_, self.size_ = event, choice, known
        return theta

    def _charge(self, event: Event) -> None:
        if self.ledger is None:
            return
        if self.source is not None and not self.source.secure:
            raise InvalidArgument("source", self.source, "left out, or secure, where a ledger is charged")
        ledger = Ledger.of(self.ledger)
        ledger.charge(event, purpose=f"{type(self).__name__}.fit")
        if isinstance(self.ledger, str | os.PathLike):
            ledger.close()

    def _open(self, data: Data, loss: LinearLoss | PointLoss, regularization: float) -> Array:
        """The fit without privacy."""
        if self.ledger is not None:
            raise InvalidArgument(
                "epsilon", self.epsilon, "finite where a ledger is charged: a fit without privacy has no cost that fits"
            )
        if not isinstance(loss, LinearLoss):
            raise InvalidArgument("epsilon", self.epsilon, f"finite for {type(self).__name__}")
        self.event_, self.solver_, self.size_ = None, None, data.table.count
        shape = (data.table.columns,) if loss.outputs == 1 else (data.table.columns, loss.outputs)
        return minimiser(data, loss, shape=shape, strength=regularization)

    def _placed(self, rows: Any, *, norm: float, intercept: float) -> Table:
        return Table.place(rows, norm=norm, intercept=intercept)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "event_")


def _reduced(target: ApproxDP | PureDP, spent: Fraction) -> ApproxDP | PureDP:
    """What basic composition leaves: (ε − spent, δ)."""
    if isinstance(target, PureDP):
        return PureDP(target.epsilon - spent, relation=target.relation)
    return ApproxDP(target.epsilon - spent, target.delta, relation=target.relation)


def unscaled(theta: Array, *, norm: float, intercept: float) -> tuple[Array, Array | float]:
    """Coefficients and intercept in the units of the original columns."""
    factor = 1 / (norm * math.sqrt(1 + intercept * intercept))
    if not intercept:
        return theta * factor, np.zeros(theta.shape[1:]) if theta.ndim > 1 else 0.0
    return theta[:-1] * factor, theta[-1] * (factor * norm * intercept)


_WANTED = {"data_norm": "the longest row that may count"}
_CHOOSE = {
    "data_norm": "Scale each column by its public range (deniable.learning.RangeScaler) and take the square root of "
    "the number of columns, or pay for a private quantile of the row norms. It is never taken from the data.",
}
__all__ = ["COUNT_SHARE", "Choice", "Entry", "PrivateEstimator", "unscaled"]
