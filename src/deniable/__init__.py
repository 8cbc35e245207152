"""Differential privacy from query to model.

What was done to the data is an event; what it cost is a curve. `import deniable as dn` loads nothing but this page: a
name opens its room when it is first used, and a room whose optional dependency is missing says its pip line.

>>> import deniable as dn
>>> dn.Unit.of("patient_id").one
'one patient'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# One line per public name: the module it lives in. The imports below repeat it for type checkers; a test compares them.
_HOMES: dict[str, str] = {
    "ADD_REMOVE": "deniable.units",
    "REPLACE": "deniable.units",
    "ZERO_OUT": "deniable.units",
    "Relation": "deniable.units",
    "Unit": "deniable.units",
    "ApproxDP": "deniable.guarantees",
    "Bracket": "deniable.guarantees",
    "GDP": "deniable.guarantees",
    "Profile": "deniable.guarantees",
    "PureDP": "deniable.guarantees",
    "RDP": "deniable.guarantees",
    "TCDP": "deniable.guarantees",
    "ZCDP": "deniable.guarantees",
    "Claimed": "deniable.events",
    "DiscreteGaussian": "deniable.events",
    "DiscreteLaplace": "deniable.events",
    "ExponentialMechanism": "deniable.events",
    "Gaussian": "deniable.events",
    "Laplace": "deniable.events",
    "RandomizedResponse": "deniable.events",
    "dpsgd": "deniable.events",
    "account": "deniable.accounting",
    "from_dp_accounting": "deniable.accounting",
    "from_opacus": "deniable.accounting",
    "known_faults": "deniable.accounting",
    "Risk": "deniable.calibration",
    "calibrate": "deniable.calibration",
    "size": "deniable.mechanisms",
    "Ledger": "deniable.ledger",
    "AuditReport": "deniable.auditing",
    "audit": "deniable.auditing",
    "explain": "deniable.explaining",
    "AtMost": "deniable.query",
    "Publication": "deniable.query",
    "Session": "deniable.query",
    "convert": "deniable.query",
    "open": "deniable.query",
    "connect": "deniable.service",
}

# Rooms that are used by their own name, as in `dn.errors.BudgetExceeded` (`cli` and `numerics` are the house's own).
_ROOMS: tuple[str, ...] = (
    "accounting",
    "auditing",
    "calibration",
    "conversions",
    "deep",
    "descriptions",
    "errors",
    "events",
    "explaining",
    "guarantees",
    "learning",
    "ledger",
    "mechanisms",
    "noise",
    "query",
    "service",
    "strategies",
    "synthesis",
    "textbook",
    "units",
)

# The extra that installs a package that the base installation lacks.
_EXTRAS: dict[str, str] = {
    "argon2": "serve",
    "authlib": "oidc",
    "flint": "proof",
    "joblib": "audit",
    "joserfc": "oidc",
    "matplotlib": "plot",
    "msgspec": "serve",
    "peft": "hf",
    "psycopg": "postgres",
    "pyspark": "spark",
    "sklearn": "learn",
    "starlette": "serve",
    "torch": "deep",
    "transformers": "hf",
    "uvicorn": "serve",
}

if TYPE_CHECKING:
    from deniable import accounting as accounting
    from deniable import auditing as auditing
    from deniable import calibration as calibration
    from deniable import conversions as conversions
    from deniable import deep as deep
    from deniable import descriptions as descriptions
    from deniable import errors as errors
    from deniable import events as events
    from deniable import explaining as explaining
    from deniable import guarantees as guarantees
    from deniable import learning as learning
    from deniable import ledger as ledger
    from deniable import mechanisms as mechanisms
    from deniable import noise as noise
    from deniable import query as query
    from deniable import service as service
    from deniable import strategies as strategies
    from deniable import synthesis as synthesis
    from deniable import textbook as textbook
    from deniable import units as units
    from deniable.accounting import account as account
    from deniable.accounting import from_dp_accounting as from_dp_accounting
    from deniable.accounting import from_opacus as from_opacus
    from deniable.accounting import known_faults as known_faults
    from deniable.auditing import AuditReport as AuditReport
    from deniable.auditing import audit as audit
    from deniable.calibration import Risk as Risk
    from deniable.calibration import calibrate as calibrate
    from deniable.events import Claimed as Claimed
    from deniable.events import DiscreteGaussian as DiscreteGaussian
    from deniable.events import DiscreteLaplace as DiscreteLaplace
    from deniable.events import ExponentialMechanism as ExponentialMechanism
    from deniable.events import Gaussian as Gaussian
    from deniable.events import Laplace as Laplace
    from deniable.events import RandomizedResponse as RandomizedResponse
    from deniable.events import dpsgd as dpsgd
    from deniable.explaining import explain as explain
    from deniable.guarantees import GDP as GDP
    from deniable.guarantees import RDP as RDP
    from deniable.guarantees import TCDP as TCDP
    from deniable.guarantees import ZCDP as ZCDP
    from deniable.guarantees import ApproxDP as ApproxDP
    from deniable.guarantees import Bracket as Bracket
    from deniable.guarantees import Profile as Profile
    from deniable.guarantees import PureDP as PureDP
    from deniable.ledger import Ledger as Ledger
    from deniable.mechanisms import size as size
    from deniable.query import AtMost as AtMost
    from deniable.query import Publication as Publication
    from deniable.query import Session as Session
    from deniable.query import convert as convert
    from deniable.query import open as open
    from deniable.service import connect as connect
    from deniable.units import ADD_REMOVE as ADD_REMOVE
    from deniable.units import REPLACE as REPLACE
    from deniable.units import ZERO_OUT as ZERO_OUT
    from deniable.units import Relation as Relation
    from deniable.units import Unit as Unit

__all__ = [*_HOMES, *_ROOMS, "__version__"]


def __getattr__(name: str) -> Any:
    """Open the room of a public name, once; afterwards the name is an ordinary attribute."""
    if name not in _HOMES and name not in _ROOMS:
        raise AttributeError(f"module 'deniable' has no attribute {name!r}")
    try:
        found = getattr(import_module(_HOMES[name]), name) if name in _HOMES else import_module(f"deniable.{name}")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRAS:
            raise
        from deniable.errors import MissingExtra

        raise MissingExtra(package, _EXTRAS[package]) from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
