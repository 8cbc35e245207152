"""Synthetic tables and consistent marginals, charged to the same ledger, with statements about their error.

The way of a release:

1. `domain` says into which cells the values of each column fall; it is public.
2. `counting` asks the engine for exact marginals, within the limits of every unit.
3. `contributions` says how far one unit moves them, and what ε and δ allow.
4. `residuals` and `marginals` release many tables that agree with one another: `Session.marginals`.
5. `plan` makes synthetic rows: `Session.synthesize`. `finding` finds domains privately, `selection` chooses and
   measures marginals, in the cells that `grouping` tells apart; `tree` and `fitting` make the model of them,
   `sampling` draws its rows, `quality` checks them, and `table` holds the result, with `page` to show it.
"""

from deniable.synthesis.domain import ColumnBins, ColumnCategories
from deniable.synthesis.marginals import Marginal, MarginalsPlan, MarginalsRelease
from deniable.synthesis.plan import SynthesisPlan
from deniable.synthesis.quality import ErrorStatement
from deniable.synthesis.table import SyntheticTable

__all__ = [
    "ColumnBins",
    "ColumnCategories",
    "ErrorStatement",
    "Marginal",
    "MarginalsPlan",
    "MarginalsRelease",
    "SynthesisPlan",
    "SyntheticTable",
]
