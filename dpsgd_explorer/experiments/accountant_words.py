"""Labels of the accountants, and the terms that every ε is reported with."""

from __future__ import annotations

from dpsgd_explorer.accounting.core.neighboring_relation import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
)
from dpsgd_explorer.accounting.sampling_schemes import (
    FIXED_SIZE,
    FULL_BATCH,
    POISSON,
    RANDOM_ALLOCATION,
    TRUNCATED_POISSON,
)

#: Sampling of several runs that differ in it.
MIXED = "mixed"
#: Sampling of a run with correlated noise.
CYCLIC_POISSON = "cyclic_poisson"

LABELS = {
    "exact": "Exact",
    "rdp": "Rényi (RDP)",
    "glw": "Numerical (GLW)",
    "moments": "Moments (2016)",
    "gdp": "Central limit (GDP)",
    "zcdp": "zCDP",
    "optimal": "Optimal composition",
    "advanced": "Advanced composition",
    "basic": "Basic composition",
}
#: Accuracy of each accountant's ε, in words.
ACCURACY = {
    "exact": (
        "The true value, rounded up, with a lower and an upper bound. If the bounds "
        "differ too much, the value is called a bound."
    ),
    "rdp": (
        "Never too small. Usually a little above the exact value, but several times "
        "larger for one step or a tiny sample rate."
    ),
    "glw": (
        "Never too small. Another name for the upper bound of the exact accountant, "
        "which is tighter than this method."
    ),
    "moments": (
        "Never too small. It uses orders up to 32 and the old conversion, so it is "
        "above Rényi (RDP) and never below log(1/δ)/32."
    ),
    "gdp": (
        "Not a bound: it may be below the true ε, most of all for a single step. It "
        "is close for many steps with much noise."
    ),
    "zcdp": (
        "Never too small. It works only for steps on all records, because it does not"
        " cover sampling."
    ),
    "optimal": (
        "Never too small. It is the smallest ε that follows from ε and δ of a step "
        "alone. The true ε is lower because a step has more structure than these two "
        "numbers show."
    ),
    "advanced": (
        "Never too small. It grows with √T, but its second term makes it worse than "
        "basic composition if a single step spends much."
    ),
    "basic": (
        "Never too small. It adds up the ε of all steps, amplified by sampling, so it"
        " grows with T, while the true ε grows with √T."
    ),
}
RELATIONS: dict[str, str] = {
    ADD_OR_REMOVE_ONE: "adding or removing one record",
    REPLACE_ONE: "replacing one record",
}
#: Sampling of a training run, among the terms of its ε.
SAMPLING_WORDS = {
    POISSON: "Poisson sampling",
    RANDOM_ALLOCATION: "random allocation",
    CYCLIC_POISSON: "cyclic Poisson sampling",
    MIXED: "each run with its own sampling",
}
SAMPLED = {
    POISSON: "Poisson sampling at rate {:.6g}",
    FULL_BATCH: "full batches, rate {:.6g}",
    FIXED_SIZE: "batches of fixed size, {:.6g} of the records",
    TRUNCATED_POISSON: "Poisson sampling at rate {:.6g}, batches with a maximum size",
    RANDOM_ALLOCATION: "each record in one random step per epoch, rate {:.6g}",
    CYCLIC_POISSON: "cyclic Poisson sampling at mean rate {:.6g}",
}


def claim(accountant: str, status: str) -> str:
    """Return the accountant's label and the status of its answer."""
    label = LABELS[accountant]
    return label if label.lower() == status else f"{label}: {status}"


def terms_of(
    rate: float,
    delta: float,
    relation: str = ADD_OR_REMOVE_ONE,
    sampling: str = POISSON,
) -> str:
    """Return the terms that ε depends on: δ, neighboring relation and sampling."""
    scheme = SAMPLED[sampling].format(rate) if sampling in SAMPLED else sampling
    return f"δ = {delta:g}, {RELATIONS[relation]}, {scheme}"
