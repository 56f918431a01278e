"""The settings of audits and of attacks on membership, for the vocabulary."""

from __future__ import annotations

from dpsgd_explorer.experiments.fields.setting import Setting

ATTACK_SETTINGS: dict[str, Setting] = {
    "audit": Setting(
        label="Canaries",
        help="Phantom records that prove a lower bound on ε at the end. 0: none.",
        step=500,
        ge=0,
        le=20_000,
    ),
    "shadows": Setting(
        label="Shadow models",
        help="Models that the attacker trains on halves of its own, to learn how one "
        "with a record differs from one without.",
        marks=(4, 8, 16),
        step=2,
        words="an even number from 4 to 16",
        ge=4,
        le=16,
    ),
    "canary": Setting(
        label="Your record",
        help="Number of the record that you follow; like any other it joins by a coin.",
        words="a whole number, 0 for the first record of the training file",
        ge=0,
    ),
    "canary_label": Setting(
        label="Label you plant",
        help="Before the run, your record gets this label, right or wrong: a model can "
        "only learn a wrong one by heart. Empty: a wrong one.",
        words="the number of a label, counted from 0, or empty",
        ge=0,
    ),
}
