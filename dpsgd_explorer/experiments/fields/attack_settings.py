"""Descriptions of the settings of audits and membership inference attacks."""

from __future__ import annotations

from dpsgd_explorer.experiments.fields.setting import Setting

ATTACK_SETTINGS: dict[str, Setting] = {
    "audit": Setting(
        label="Canaries",
        help="Number of artificial records that measure a lower bound on ε at the end "
        "of the run. 0: no audit.",
        step=500,
        ge=0,
        le=20_000,
    ),
    "shadows": Setting(
        label="Shadow models",
        help="Number of models that the attacker trains on random halves of the pool, "
        "to learn how a model with a record differs from a model without it.",
        marks=(4, 8, 16),
        step=2,
        words="an even number from 4 to 16",
        ge=4,
        le=16,
    ),
    "canary": Setting(
        label="Your record",
        help="Number of the record that you follow. A coin decides whether it is used, "
        "as for every other record.",
        words="a whole number, 0 for the first record of the training file",
        ge=0,
    ),
    "canary_label": Setting(
        label="Label you plant",
        help="Label that your record gets before the run. A model can learn a wrong "
        "label only by heart. Empty: a wrong label.",
        words="the number of a label, counted from 0, or empty",
        ge=0,
    ),
}
