"""Arrows between promises: one free function each, named `a_to_b`, with its theorem, marked exact or upper bound.

Every arrow keeps the unit and the relation and rounds toward caution. An arrow that does not exist raises
`NoConversion` and says why; a promise under one relation moves to another by `relations` only.

>>> from deniable.conversions import gdp_to_approx, pure_to_gdp
>>> from deniable.guarantees import PureDP
>>> print(gdp_to_approx(pure_to_gdp(PureDP(0.1)), delta=1e-6))
ε ≤ 0.51, δ = 1e-6, one record added or removed
"""

from deniable.conversions.approx import (
    approx_to_approx,
    approx_to_approx_zcdp,
    approx_to_fdp,
    approx_to_gdp,
    approx_to_profile,
    approx_to_pure,
    approx_to_rdp,
    approx_to_tcdp,
    approx_to_total_variation,
    approx_to_zcdp,
)
from deniable.conversions.arrows import arrow
from deniable.conversions.fdp import (
    fdp_to_approx,
    fdp_to_gdp,
    fdp_to_profile,
    fdp_to_pure,
    fdp_to_total_variation,
    fdp_to_tradeoff,
    profile_to_approx,
    profile_to_fdp,
)
from deniable.conversions.gdp import (
    gaussian_claim_to_gdp,
    gaussian_to_gdp,
    gdp_to_approx,
    gdp_to_fdp,
    gdp_to_profile,
    gdp_to_pure,
    gdp_to_rdp,
    gdp_to_tcdp,
    gdp_to_tradeoff,
    gdp_to_zcdp,
    laplace_to_gdp,
)
from deniable.conversions.group import (
    add_remove_to_replace,
    for_group,
    post_processed,
    replace_to_add_remove,
    zero_out_to_replace,
)
from deniable.conversions.parallel import parallel, parallel_under_replace
from deniable.conversions.pure import (
    pure_to_approx,
    pure_to_fdp,
    pure_to_gdp,
    pure_to_profile,
    pure_to_rdp,
    pure_to_rdp_simple,
    pure_to_tcdp,
    pure_to_total_variation,
    pure_to_zcdp,
    pure_to_zcdp_classic,
)
from deniable.conversions.renyi import (
    interpolated_rdp,
    linear_rdp_to_zcdp,
    rdp_to_approx,
    rdp_to_approx_classic,
    rdp_to_fdp,
    rdp_to_gdp,
    rdp_to_profile,
    rdp_to_pure,
    rdp_to_tcdp,
    rdp_to_zcdp,
)
from deniable.conversions.zcdp import (
    approx_zcdp_to_approx,
    tcdp_to_approx,
    tcdp_to_profile,
    tcdp_to_rdp,
    tcdp_to_zcdp,
    zcdp_to_approx,
    zcdp_to_approx_classic,
    zcdp_to_fdp,
    zcdp_to_gdp,
    zcdp_to_profile,
    zcdp_to_pure,
    zcdp_to_rdp,
    zcdp_to_tcdp,
)

__all__ = [
    "add_remove_to_replace",
    "approx_to_approx",
    "approx_to_approx_zcdp",
    "approx_to_fdp",
    "approx_to_gdp",
    "approx_to_profile",
    "approx_to_pure",
    "approx_to_rdp",
    "approx_to_tcdp",
    "approx_to_total_variation",
    "approx_to_zcdp",
    "approx_zcdp_to_approx",
    "fdp_to_approx",
    "fdp_to_gdp",
    "fdp_to_profile",
    "fdp_to_pure",
    "fdp_to_total_variation",
    "fdp_to_tradeoff",
    "for_group",
    "gaussian_claim_to_gdp",
    "gaussian_to_gdp",
    "gdp_to_approx",
    "gdp_to_fdp",
    "gdp_to_profile",
    "gdp_to_pure",
    "gdp_to_rdp",
    "gdp_to_tcdp",
    "gdp_to_tradeoff",
    "gdp_to_zcdp",
    "interpolated_rdp",
    "laplace_to_gdp",
    "linear_rdp_to_zcdp",
    "parallel",
    "parallel_under_replace",
    "post_processed",
    "profile_to_approx",
    "profile_to_fdp",
    "pure_to_approx",
    "pure_to_fdp",
    "pure_to_gdp",
    "pure_to_profile",
    "pure_to_rdp",
    "pure_to_rdp_simple",
    "pure_to_tcdp",
    "pure_to_total_variation",
    "pure_to_zcdp",
    "pure_to_zcdp_classic",
    "rdp_to_approx",
    "rdp_to_approx_classic",
    "rdp_to_fdp",
    "rdp_to_gdp",
    "rdp_to_profile",
    "rdp_to_pure",
    "rdp_to_tcdp",
    "rdp_to_zcdp",
    "replace_to_add_remove",
    "tcdp_to_approx",
    "tcdp_to_profile",
    "tcdp_to_rdp",
    "tcdp_to_zcdp",
    "zcdp_to_approx",
    "zcdp_to_approx_classic",
    "zcdp_to_fdp",
    "zcdp_to_gdp",
    "zcdp_to_profile",
    "zcdp_to_pure",
    "zcdp_to_rdp",
    "zcdp_to_tcdp",
    "zero_out_to_replace",
]

for _name in __all__:
    globals()[_name] = arrow(globals()[_name])
