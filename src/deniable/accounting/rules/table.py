"""The table of rules: one line per kind of event. A test compares it with the events that exist."""

from __future__ import annotations

from typing import Any

from deniable.accounting.rules import Rule
from deniable.accounting.rules.algebra import ComposedRule, ForGroupRule, RepeatedRule, ToReplaceRule
from deniable.accounting.rules.batches import RandomAllocationRule, TruncatedSampledRule
from deniable.accounting.rules.choices import ExponentialMechanismRule, RandomizedResponseRule
from deniable.accounting.rules.mixtures import GaussianMixtureRule
from deniable.accounting.rules.noise import (
    CorrelatedRule,
    DiscreteGaussianRule,
    DiscreteLaplaceRule,
    GaussianRule,
    LaplaceRule,
)
from deniable.accounting.rules.promises import ClaimedRule
from deniable.accounting.rules.sampling import SampledRule, SampledWithoutReplacementRule, ShuffledRule
from deniable.accounting.rules.selection import SelectedRule
from deniable.events import (
    Claimed,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    ForGroup,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixGaussian,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    Sampled,
    SampledWithoutReplacement,
    Selected,
    Shuffled,
    ToReplace,
    TreeGaussian,
    TruncatedSampled,
)

RULES: dict[type[Event], Rule[Any]] = {
    Gaussian: GaussianRule(),
    GaussianMixture: GaussianMixtureRule(),
    Laplace: LaplaceRule(),
    DiscreteGaussian: DiscreteGaussianRule(),
    DiscreteLaplace: DiscreteLaplaceRule(),
    TreeGaussian: CorrelatedRule(),
    MatrixGaussian: CorrelatedRule(),
    RandomizedResponse: RandomizedResponseRule(),
    ExponentialMechanism: ExponentialMechanismRule(),
    Claimed: ClaimedRule(),
    Sampled: SampledRule(),
    SampledWithoutReplacement: SampledWithoutReplacementRule(),
    Shuffled: ShuffledRule(),
    RandomAllocation: RandomAllocationRule(),
    TruncatedSampled: TruncatedSampledRule(),
    Composed: ComposedRule(),
    Repeated: RepeatedRule(),
    ForGroup: ForGroupRule(),
    ToReplace: ToReplaceRule(),
    Selected: SelectedRule(),
}
