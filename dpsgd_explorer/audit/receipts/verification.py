"""The check of a whole receipt: it proves arithmetic, not honesty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsgd_explorer.audit.receipts import layout
from dpsgd_explorer.audit.receipts.canaries import check_audit
from dpsgd_explorer.audit.receipts.correlation import FIXED_SLOTS, check_alone
from dpsgd_explorer.audit.receipts.findings import Findings
from dpsgd_explorer.audit.receipts.spent import (
    check_earlier,
    check_epsilon,
    check_releases,
    check_selection,
)
from dpsgd_explorer.audit.receipts.steps import Steps, check_batch_sizes
from dpsgd_explorer.signatures import SIGNATURE, signature_of

SEEDED = "seeded"
#: Limits of every check.
LIMITS = (
    "This check proves arithmetic, not honesty: anyone can invent figures that fit "
    "each other, and a signature only shows which site stated them.",
)
LIMITS_OF_AUDIT = (
    "The bound assumes that the canaries’ scores are independent given their coins; "
    "the bound called “one run” does not.",
    "Canaries are the worst case: at 95 % confidence, one honest run in twenty may "
    "prove more than its promise.",
    "Canaries do not test the network’s own random numbers, its per-sample gradients, "
    "a loss that mixes records, or settings that were chosen by looking at the data.",
)
REPORTED_BY_RUN = "the run itself reported this; repeat the run to check it"
#: Options that other figures do not depend on.
FREE_OPTIONS = (
    "engine",
    "clipping_mode",
    "clipping_fn",
    "clipping_style",
    "clipping_threshold",
    "augmentation_multiplicity",
    "unit",
    "records_per_user",
)
COUNTED_OPTIONS = (
    "max_grad_norm",
    "loss_reduction",
    "noise",
    "sampling",
    "noise_schedule",
    "clipping_schedule",
)


def verify_receipt(receipt: Mapping[str, Any]) -> Findings:
    """Recomputes every figure of a receipt that follows from others.

    The check needs neither the data nor torch.  It proves arithmetic, not honesty:
    anyone can invent figures that fit each other.  A signature is not checked here.

    Args:
        receipt: Receipt of a ``PrivacyEngine``, of a training run, of a search, or of
            a regression by several methods, as JSON values.

    Returns:
        All figures, with the figures that do not fit in ``wrong``.  ε and δ have no
        unit; a noise multiplier is the noise's standard deviation over the bound.

    Raises:
        ReceiptError: A figure is missing or unknown, has the wrong type, or belongs to
            another version.

    Example:
        >>> import torch
        >>> from dpsgd_explorer.dp import PrivacyEngine
        >>> engine = PrivacyEngine(
        ...     torch.nn.Linear(2, 1),
        ...     batch_size=5,
        ...     sample_size=50,
        ...     steps=20,
        ...     noise_multiplier=1.0,
        ...     target_delta=1e-3,
        ... )
        >>> receipt = engine.receipt()
        >>> verify_receipt(receipt).wrong
        []
        >>> receipt["told"]["sample_rate"] = 0.05
        >>> verify_receipt(receipt).wrong
        [Figure(path='told.sample_rate', stated=0.05, recomputed=0.1, fits=False)]
        >>> del receipt["told"]["steps"]
        >>> verify_receipt(receipt)
        Traceback (most recent call last):
        ...
        dpsgd_explorer.errors.ReceiptError: told.steps: is missing.
    """
    findings = Findings()
    signature_of(receipt)
    receipt = {name: receipt[name] for name in receipt if name != SIGNATURE}
    if "releases" in receipt:
        layout.check_regression(receipt)
        check_releases(findings, receipt)
        for name in ("neighboring_relation", "x_bound", "y_bound", "seed"):
            findings.leave(name, REPORTED_BY_RUN)
        return findings
    if "selection" not in receipt:
        layout.check_receipt(receipt)
        _check(findings, receipt)
        return findings
    layout.check_search(receipt)
    trial, phases = receipt["trial"], None
    if trial is not None:
        layout.check_receipt(trial)
        phases = _check(findings, trial).phases()
    check_selection(findings, receipt["selection"], phases)
    return findings


def limits(receipt: Mapping[str, Any]) -> list[str]:
    """Returns sentences on the limits of a check of this receipt."""
    return [*LIMITS, *(LIMITS_OF_AUDIT if receipt.get("audit") else ())]


def _check(findings: Findings, receipt: Mapping[str, Any]) -> Steps:
    """Checks the receipt of an engine, and returns the steps of the last plan."""
    before = [
        Steps(f"before[{i}].", plan["told"], plan["done"], {}, plan["chosen_bounds"])
        for i, plan in enumerate(receipt.get("before", []))
    ]
    steps = Steps(
        "",
        receipt["told"],
        receipt["done"],
        receipt["options"],
        receipt["chosen_bounds"],
    )
    for plan_steps in [*before, steps]:
        plan_steps.check(findings)
    _check_counts(findings, receipt)
    _check_options(findings, receipt)
    check_alone(findings, receipt)
    check_earlier(findings, receipt, before)
    check_epsilon(findings, receipt, steps)
    if receipt["audit"] is not None:
        check_audit(findings, receipt["audit"], receipt)
    for name in ("loss", "noise", "sampling", "proof"):
        findings.leave(name, REPORTED_BY_RUN)
    for i in range(len(receipt.get("warnings", []))):
        findings.leave(f"warnings[{i}]", REPORTED_BY_RUN)
    return steps


def _check_counts(findings: Findings, receipt: Mapping[str, Any]) -> None:
    """Compares lost steps, resumes, seed and batches with the kind of noise."""
    lost, resumes, steps = (
        receipt["lost_steps"],
        receipt["fresh_resumes"],
        receipt["told"]["steps"],
    )
    is_seeded = receipt["options"].get("noise") == SEEDED
    if is_seeded and receipt["world_size"] == 1:
        findings.compare("lost_steps", lost, 0)
        findings.compare("fresh_resumes", resumes, 0)
    else:
        findings.require("lost_steps", lost, f"at most {steps}", lost <= steps)
        findings.require(
            "fresh_resumes", resumes, "1 or more for lost steps", resumes or not lost
        )
        findings.leave("fresh_resumes", REPORTED_BY_RUN)
    findings.require(
        "world_size", receipt["world_size"], "1 or more", receipt["world_size"] >= 1
    )
    findings.leave("world_size", REPORTED_BY_RUN)
    if "seed" in receipt:
        has_seed = receipt["seed"] is not None
        words = "a number, as noise is seeded" if is_seeded else "null: noise is secret"
        findings.require("seed", receipt["seed"], words, has_seed == is_seeded)
        findings.leave("seed", REPORTED_BY_RUN)
    if "not_private" in receipt:
        sizes = receipt["not_private"]["batch_sizes"]
        check_batch_sizes(findings, sizes, receipt["told"], steps - lost)


def _check_options(findings: Findings, receipt: Mapping[str, Any]) -> None:
    options = receipt["options"]
    for name, value in options.items():
        if name not in (*FREE_OPTIONS, *COUNTED_OPTIONS):
            findings.require(f"options.{name}", value, "an option", False)
        if name in FREE_OPTIONS:
            findings.leave(f"options.{name}", REPORTED_BY_RUN)
    findings.require(
        "options.noise",
        options.get("noise"),
        "seeded or secure",
        options.get("noise") in (SEEDED, "secure"),
    )
    sampling, note = options.get("sampling"), receipt["sampling"]
    laws = {"poisson": "Poisson", "random_allocation": "random allocation"}
    laws["fixed_slots"] = FIXED_SLOTS
    named = [law for law, words in laws.items() if note.startswith(words)]
    has_slots = "slots" in receipt["told"]
    findings.require(
        "options.sampling",
        sampling,
        "consistent with sampling",
        named == [sampling] * (sampling in laws)
        and sampling in (*laws, "unchecked")
        and has_slots == (sampling in ("random_allocation", "fixed_slots"))
        and (sampling == "fixed_slots") == (receipt["told"]["sampling"] == FIXED_SLOTS),
    )
