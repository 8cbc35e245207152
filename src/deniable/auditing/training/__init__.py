"""Audits of training: canaries, the membership game over many runs, white-box observations, and a single run.

| you can | use |
|---|---|
| train many times | `membership_game`: with and without a canary, through `audit` |
| watch the noisy gradients | `gradient_canary`, `white_box_mu`; `white_box_scores` for `audit_scores` |
| watch a trainer | `StepWatcher`, an observer that scores every step by one canary |
| train once, with many canaries | `one_run_epsilon`; against a whole curve `one_run_mu`, `one_run_curve_p_value` |
"""

from deniable.auditing.training.canaries import checkerboard, gradient_canary, wrong_label
from deniable.auditing.training.game import Chosen, choose_canary, membership_game
from deniable.auditing.training.one_run import one_run_epsilon, one_run_p_value
from deniable.auditing.training.one_run_curve import one_run_curve_p_value, one_run_mu
from deniable.auditing.training.watching import StepAudit, StepWatcher
from deniable.auditing.training.white_box import white_box_mu, white_box_scores

__all__ = [
    "Chosen",
    "StepAudit",
    "StepWatcher",
    "checkerboard",
    "choose_canary",
    "gradient_canary",
    "membership_game",
    "one_run_curve_p_value",
    "one_run_epsilon",
    "one_run_mu",
    "one_run_p_value",
    "white_box_mu",
    "white_box_scores",
    "wrong_label",
]
