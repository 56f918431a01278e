"""Settings of the audit of a training loop with a planted bug; loads no torch."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from dpsgd_explorer.experiments.config import KIND_HELP, RunConfig
from dpsgd_explorer.experiments.fields.setting import Setting
from dpsgd_explorer.experiments.vocabulary import setting

HONEST = "honest"
#: The bug of each loop, in the order of the lab. The files of the loops are in
#: ``training/planted_bugs/loops``.
LOOPS = {
    "noise_without_bound": "noise not scaled by C",
    "batch_norm": "batch normalisation",
    "tensors_clipped_alone": "each tensor clipped with all of C",
    "seed_reused": "the same noise at each step",
    "mean_clipped": "mean before clipping",
    "noise_per_micro_batch": "noise in every micro-batch",
    HONEST: "nothing is wrong",
    "piled_up": "the sum not cleared between steps",
    "weighted_by_batch": "a loss weighted over the batch",
    "noise_on_weights": "noise on the weights",
    "shuffled_epochs": "shuffled, accounted as Poisson",
    "never_summed": "gradients stacked, never summed",
    "rate_from_test_set": "learning rate tuned on the test set",
    "averaged_before_noise": "averaged before the noise",
    "noise_without_clipping": "noise without clipping",
    "copies_clipped": "the clipping does nothing",
    "one_number": "one number as noise for a tensor",
}
STEPS = 60  # steps of a loop
#: Cost of a run, including its bounds on ε, in multiply-adds.  Measured.
COST = 1e11

LOOP = Setting(
    label="Loop",
    help="The training loop that is run with canaries and audited.",
    choices=LOOPS,
)


class PlantedBugConfig(RunConfig):
    """Settings of one audit; every instance is valid."""

    TO_COST_LESS: ClassVar[str] = "another loop"

    kind: Literal["planted_bug"] = Field("planted_bug", description=KIND_HELP)
    loop: str = LOOP.field(HONEST, group="Loop")
    seed: int = setting(
        "seed",
        1,
        group="Loop",
        help="Seed of the records, the canaries’ coins, the batches and the noise.",
    )

    @property
    def planned_steps(self) -> int:
        """Steps of the loop; a loop that stops with an error takes fewer."""
        return STEPS

    @property
    def length_setting(self) -> str:
        """Name of the setting that determines the length of the run."""
        return "loop"

    @property
    def cost(self) -> float:
        """Cost of the run, in multiply-adds of equal duration."""
        return COST
