"""Deployed systems that state an ε, and libraries, each with its gaps.

The stated numbers come from the named sources.  Where a source states ρ, this module
converts it to ε by zCDP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpsgd_explorer import accounting
from dpsgd_explorer.web.figures.svg import small
from dpsgd_explorer.web.questions.rounding import limit

RHO_DELTA = 1e-10  # δ at which a stated ρ is converted to ε
DEPLOYMENT_HEAD = ("system", "one unit is", "stated", "not covered by the number")
LIBRARY_HEAD = ("library", "does", "does not")


@dataclass(frozen=True)
class Deployment:
    """One system; ``source`` is a key of the references.

    Attributes:
        rhos: The zCDP parameters that the system states instead of ε, ascending.
    """

    name: str
    unit: str
    stated: str
    uncovered: str
    source: str
    rhos: tuple[float, ...] = ()

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The cells of the row in the table."""
        return self.name, self.unit, self.stated + self._converted(), self.uncovered

    def _converted(self) -> str:
        if not self.rhos:
            return ""
        values = " to ".join(epsilon_of_rho(rho) for rho in self.rhos)
        return f"; by our conversion ε = {values} at δ = {small(RHO_DELTA)}"


DEPLOYMENTS = (
    Deployment(
        "Apple, emoji counts (2017), noise on the device",
        "one user’s contributions on one day",
        "ε = 4, δ = 0",
        "further days: each day has a new budget",
        "apple",
    ),
    Deployment(
        "Google, mobility reports (2020)",
        "one user on one day",
        "ε = 2.64",
        "further days",
        "aktay",
    ),
    Deployment(
        "US Census 2020, redistricting file, persons",
        "one person’s answers, exchanged for others",
        "ρ = 2.56",
        "counts kept exact, such as the population of each state",
        "abowd",
        (2.56,),
    ),
    Deployment(
        "LinkedIn, audience engagement (2020)",
        "one member",
        "ε = 34.9, δ = 7e-9 per month and analyst",
        "several analysts, whose budgets add up; further months",
        "rogers_linkedin",
    ),
    Deployment(
        "Google keyboard, next-word models (2023), federated",
        "one device, with all its contributions",
        "ρ from 0.2 to 2, depending on the model",
        "a person with two devices; several models",
        "xu",
        (0.2, 2.0),
    ),
    Deployment(
        "Israel, births of 2014 (2024)",
        "one birth",
        "ε = 9.98",
        "other releases on the same people",
        "hod",
    ),
    Deployment(
        "Google, VaultGemma 1B (2025), DP-SGD from the start",
        "one sequence of 1,024 tokens",
        "ε ≤ 2.0, δ ≤ 1.1e-10",
        "a text, or a fact, that is spread over many sequences",
        "vaultgemma",
    ),
)

LIBRARIES = (
    (
        "Opacus (PyTorch)",
        "per-sample gradients, Poisson loader, PRV and RDP accountants",
        "count your tuning runs; draw secure noise unless secure_mode is on",
    ),
    (
        "JAX Privacy",
        "DP-SGD in JAX, correlated noise, audits",
        "run PyTorch models",
    ),
    (
        "TensorFlow Privacy",
        "private optimizers for Keras",
        "draw batches: your input pipeline does, but ε assumes Poisson sampling",
    ),
    (
        "FastDP (PyTorch)",
        "ghost clipping and book-keeping for large models, sharded training",
        "draw batches, or check how your loader draws them",
    ),
    (
        "dp-accounting",
        "RDP and PLD accountants, used by several libraries",
        "train, or check how a model was trained",
    ),
    (
        "Diffprivlib",
        "private statistics and scikit-learn models, budget by composition theorems",
        "DP-SGD",
    ),
    (
        "OpenDP",
        "statistics from composed mechanisms whose proofs are reviewed",
        "train neural networks",
    ),
    (
        "this site’s package",
        "four engines, exact accountant, checks before the first step",
        "protect data from the machine it runs on; federated training",
    ),
)


def epsilon_of_rho(rho: float, delta: float = RHO_DELTA) -> str:
    """Returns a bound on ε of ρ-zCDP: ε of one Gaussian release with ρ = 1/(2σ²)."""
    sigma = 1 / math.sqrt(2 * rho)
    return limit(
        accounting.epsilon(
            sample_rate=1.0,
            noise_multiplier=sigma,
            steps=1,
            delta=delta,
            accountant="zcdp",
        )
    )
