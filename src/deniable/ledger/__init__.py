"""The ledger: what was charged, and what may still be.

`Ledger` is the budget on disk, and `LedgerRecord` the part of it that only reads, which an export has too. Its parts:
`records` (what is written down), `accounts` (a budget, its totals, the decision), `points` (where an event enters the
basic filter), `refusals` (what remains, in words), `verification`, `exports`, and `stores` (where it is kept). The
filters themselves are mathematics and live in `deniable.accounting.filters`.
"""

from deniable.ledger.ledger import Ledger
from deniable.ledger.reading import LedgerRecord
from deniable.ledger.records import Charge, Head

__all__ = ["Charge", "Head", "Ledger", "LedgerRecord"]
