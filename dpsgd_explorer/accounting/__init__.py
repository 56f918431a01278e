"""Privacy accounting: ε of a run, and the noise, steps or sample rate for a target ε.

All other packages take ε and δ from this package, which needs numpy and scipy only.
"""

from dpsgd_explorer.accounting.calibration import (
    noise_multiplier,
    noise_scale,
    sample_rate,
    steps,
)
from dpsgd_explorer.accounting.core.accountant import Accountant, Phase
from dpsgd_explorer.accounting.core.gaussian import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_multiplier,
)
from dpsgd_explorer.accounting.core.intervals import Interval
from dpsgd_explorer.accounting.core.loss_distribution import LossDistribution
from dpsgd_explorer.accounting.core.neighboring_relation import NeighboringRelation
from dpsgd_explorer.accounting.core.phase import AllocationPhase
from dpsgd_explorer.accounting.correlated.strategies import (
    ToeplitzStrategy,
    banded_strategy,
    cyclic_poisson,
    fixed_slots,
    geometric_strategy,
    momentum_workload,
    square_root_strategy,
)
from dpsgd_explorer.accounting.correlated.tree import TreeStrategy
from dpsgd_explorer.accounting.fixed_size import (
    fixed_size_epsilon,
    fixed_size_interval,
)
from dpsgd_explorer.accounting.group_privacy import (
    chained_epsilon,
    group_delta_interval,
    group_epsilon,
    group_epsilon_interval,
)
from dpsgd_explorer.accounting.mechanisms.dp_events import from_dp_event, to_dp_event
from dpsgd_explorer.accounting.mechanisms.noise import (
    DiscreteGaussianMechanism,
    EpsilonDelta,
    FixedSizeSteps,
    LaplaceMechanism,
    RandomizedResponse,
)
from dpsgd_explorer.accounting.mechanisms.odometer import Odometer
from dpsgd_explorer.accounting.mechanisms.shuffled import shuffled_interval
from dpsgd_explorer.accounting.plan import Plan
from dpsgd_explorer.accounting.privacy_loss_distribution import PrivacyLossDistribution
from dpsgd_explorer.accounting.queries import (
    Answer,
    all_epsilons,
    delta,
    delta_interval,
    epsilon,
    epsilon_curve,
    epsilon_interval,
    epsilons,
)
from dpsgd_explorer.accounting.random_allocation import (
    random_allocation_delta,
    random_allocation_epochs,
    random_allocation_epsilon,
    random_allocation_interval,
    random_allocation_noise_multiplier,
)
from dpsgd_explorer.accounting.rdp.curve import RdpCurve
from dpsgd_explorer.accounting.rdp.filtered_run import FilteredRun
from dpsgd_explorer.accounting.rdp.padded_selection import (
    PaddedSelection,
    padded_selection,
)
from dpsgd_explorer.accounting.rdp.privacy_filter import RenyiFilter
from dpsgd_explorer.accounting.rdp.selection import best_of_pure_trials, best_of_trials
from dpsgd_explorer.accounting.registry import ACCOUNTANTS, NAMES
from dpsgd_explorer.accounting.rounding import round_up
from dpsgd_explorer.accounting.sampling_schemes import SAMPLINGS
from dpsgd_explorer.accounting.trade_off_curves import trade_off, trade_off_intervals
from dpsgd_explorer.accounting.truncated_poisson import (
    truncated_poisson_epsilon,
    truncated_poisson_noise_multiplier,
    truncated_poisson_trade_off,
)

__all__ = [
    "ACCOUNTANTS",
    "NAMES",
    "SAMPLINGS",
    "Accountant",
    "AllocationPhase",
    "Answer",
    "DiscreteGaussianMechanism",
    "EpsilonDelta",
    "FilteredRun",
    "FixedSizeSteps",
    "Interval",
    "LaplaceMechanism",
    "LossDistribution",
    "NeighboringRelation",
    "Odometer",
    "PaddedSelection",
    "Phase",
    "Plan",
    "PrivacyLossDistribution",
    "RandomizedResponse",
    "RdpCurve",
    "RenyiFilter",
    "ToeplitzStrategy",
    "TreeStrategy",
    "all_epsilons",
    "banded_strategy",
    "best_of_pure_trials",
    "best_of_trials",
    "chained_epsilon",
    "cyclic_poisson",
    "delta",
    "delta_interval",
    "epsilon",
    "epsilon_curve",
    "epsilon_interval",
    "epsilons",
    "fixed_size_epsilon",
    "fixed_size_interval",
    "fixed_slots",
    "from_dp_event",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_noise_multiplier",
    "geometric_strategy",
    "group_delta_interval",
    "group_epsilon",
    "group_epsilon_interval",
    "momentum_workload",
    "noise_multiplier",
    "noise_scale",
    "padded_selection",
    "random_allocation_delta",
    "random_allocation_epochs",
    "random_allocation_epsilon",
    "random_allocation_interval",
    "random_allocation_noise_multiplier",
    "round_up",
    "sample_rate",
    "shuffled_interval",
    "square_root_strategy",
    "steps",
    "to_dp_event",
    "trade_off",
    "trade_off_intervals",
    "truncated_poisson_epsilon",
    "truncated_poisson_noise_multiplier",
    "truncated_poisson_trade_off",
]
