"""The events of a run, in order: plain data, ready for JSON.

``phase`` opens the log, and marks each change of settings:
    ``step``, ``sample_rate``, ``noise_multiplier`` (null: no noise was asked for),
    ``max_grad_norm``, ``expected_batch_size``, ``steps`` (planned), ``sample_size``,
    ``delta``, ``accountant``, ``status`` (of the whole run's ε: "exact", "bound",
    "approximation" or "not private"), ``private``, ``norm_edges`` (null if not private)
    in older logs where norm methods were measured also ``norm_methods``
    where a visitor changed settings in mid-run also ``changes`` ({name: value}) and
    ``chosen`` ("while looking"): ε holds if the choice used private outputs alone
``step``:
    ``step``, ``epsilon``, ``seconds``, ``diagnostics``
``evaluation``:
    ``step``, ``epsilon``, ``test_accuracy`` (0 to 1), ``test_loss``, ``seconds``
``model``, before the first step and after evaluations, of runs of kind "training":
    ``step``, ``epsilon``, ``seconds`` and, null where they do not apply,
    ``weights``: {parameter: ``shape``, ``scale``, ``values``}, the latter signed bytes
    in base64 to be multiplied by the scale; ``features``: the columns' names, at the
    start; ``confusion``: test records of each class (row) by what they are read as;
    ``groups``: {attribute: {value: [test records, misread ones]}}; ``misread``: which
    test records are read as what (see ``training/model_snapshots.py``); ``pictures``:
    the test records that the model is least sure of at the end, with their ``shape``,
    ``indices``, ``labels`` and ``values`` of 4 bits in base64.  The weights are what
    DP-SGD releases; the rest is about test records, so it is not private.
``end``:
    ``step``, ``epsilon``, ``delta``, ``test_accuracy``, ``test_loss``, ``seconds``,
    ``reason``: "finished" or "stop_at_epsilon", ``receipt`` (null if not private),
    in runs of kind "training" ``audit`` (null without canaries): what they prove of all
    steps, ``epsilon_lower`` at ``confidence`` next to ``epsilon_promised``, both at
    ``delta``; ``canaries``, ``steps``, ``method``, ``others`` ({method: lower bound})
    and ``unscored`` (``steps`` that no canary went through, ``reason``; [] in a run
    that was trained here)

In the log of a run that a worker carries out there may be ``progress`` between these:
    ``what`` is computed or waited for: "features" (``done`` of ``total`` rows), "torch"
    (it is loaded, in about ``seconds``, null if unknown), "processor" (others use the
    cores: this run got ``share`` of one, and so many processes want one: ``load``),
    "preparation" (before the first step: data, noise, the safety check of the model) or
    "step" (one that takes long).  Whether and when it comes depends on the machine: it
    is no part of what two runs of one configuration share, and the training does not
    give it.

In the log of a run that its visitor trains one step at a time there is ``microscope``
after each such step: ``step``, ``epsilon``, ``seconds``, ``records`` (drawn),
``lengths`` of their gradients (longest first, thinned), ``cut`` (longer than C),
``points`` (gradients of some in a plane, before clipping) and the ``factors`` that
clipping multiplies these by, ``arrows`` (the mean of
these "true" and "clipped", and the "noisy" gradient of the step, in that plane),
``noise_length`` (expected) and ``noisy_length``.  All but the noisy gradient is not
private.  It is no part of what two runs of one configuration share.

The ``phase`` of a run of kind "regression" holds, instead of the clipping bound, the
accountant and the edges: ``learning_rate`` as used (the median where each repetition
released one), ``learning_rate_is_private``, ``rate_noise_multiplier`` of the eigenvalue
that was released for it before the first step (null if none was; its ε counts from
the start), ``neighboring_relation``, ``repetitions`` and the baselines
``nonprivate_mse`` and ``trivial_mse``; its ``sample_rate`` is 1.  Its ``evaluation``
and ``end`` hold ``mse_median``, ``mse_low`` and ``mse_high`` (5 and 95 %) over the
repetitions, null where infinite, computed from the data and not private.  Its
``diagnostics`` are ``diverged`` (repetitions), ``theta_norm`` (median) and
``noise_std`` of a coordinate.

A run of kind "engines" uses no data set and spends nothing: its ``epsilon`` and
``delta`` are null.  Its ``phase`` holds ``parameters`` and the ``machine``.  Each step
measures one ``engine`` (the first is "ordinary") and its ``evaluation`` holds: why it
is ``refused`` ("" if not); ``difference``, the largest one between its private
gradient and those of the engines before it, over the largest entry, in double precision
and without noise (null for the first; the ``end`` has the largest of all);
``milliseconds`` of CPU time of a step and its ``ratio`` to the ordinary step with the
quartiles ``ratio_low`` and ``ratio_high``; ``peak_bytes``; and the ``layers`` with the
``way`` each chose, the multiply-adds of either way, and the ``reason``.

A run of kind "planted_bug" audits a training loop on made-up records, so its
``epsilon`` and ``delta`` are null.  Its ``phase`` holds the ``canaries``, the
``confidence`` of the bounds, what the loop promises of all its steps
(``epsilon_promised`` at ``delta_promised``) and why ``PrivacyEngine`` has ``refused``
the loop's model, loss or batches ("" if not).  Its ``evaluation`` holds the
``epsilon_lower`` that the canaries prove of the steps so far, and the
``epsilon_promised`` of these.  The ``end`` has the last of them (null if there was
none), the ``error`` that stopped the loop ("" if none) and ``seen_by``: "engine",
"torch", "audit" or "nothing".

A run of kind "search" tells nothing of its trials but of the best.  Its ``phase``
holds ``sample_rate``, ``noise_multiplier`` and ``trial_steps`` of a trial,
``mean_trials`` and ``steps``: the trainings, a number that does not depend on how many
trials were drawn.  Its ``step`` counts trainings; ``epsilon`` is 0 until the winner is
released after the last, then that of the selection at ``delta``.  Then come its
``evaluation`` events, with ``trained`` (steps of the winner's training), and the
``end`` with the ``winner``: its settings that were searched, null where no trial was
drawn or none had finite numbers.

A run of kind "attack" trains models and guesses which records each was trained on.  Its
``phase`` holds the settings of its private trainings, ``members`` and ``others`` (how
many records of the pool are in and out), the ``record`` that its visitor follows (its
``index``, ``label``, ``planted`` label and whether it ``joined``) and the ``ceiling``:
``true_positive_rates`` that no attack on the private model exceeds in the long run, at
``false_positive_rates``.  Each step is a training; its ``diagnostics`` say whether it
is ``private``, which ``shadow`` it is (0: the target) and its ``test_accuracy``.  After
the last come ``evaluation`` events, one for each ``attack`` on either ``target``: the
``area`` below its curve, ``points`` (``false_positive_rate``, ``true_positive_rate``
and its 95 % interval from ``low`` to ``high``), ``above`` (thresholds at which the
rates are over the ceiling), ``beyond`` (those that chance does not explain; both null
without privacy) and the ``record``: its ``score``, and the share of the others that
score as high.  The ``end`` has the ``area`` of the likelihood ratio against the private
model, and of the ``record`` the logit of its label under either target and its shadows.
``epsilon`` is that of the private target alone.  All scores come from the records
themselves, so nothing of it is private.

``epsilon`` is null where there is no guarantee (no noise, or not private): ε = ∞.
``diagnostics`` is outside the guarantee (not private): ``batch_size`` (drawn), ``loss``
(mean over the drawn batch; null for an empty one), ``clipped_fraction`` (null for an
empty one), ``norm_counts`` (samples in each bin of the phase's ``norm_edges``; the
first and last bin also count the norms beyond), ``noise_to_signal`` (null if the
signal is 0) and ``non_finite``, and where it changes the step's ``max_grad_norm``.  The
last four are null if not private: without
clipping no per-sample gradient is computed.
Only ``seconds`` and the measurements of time and memory (``TIMES``) may differ between
two runs of one configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["phase", "progress", "step", "evaluation", "model", "microscope", "end"]

NOT_PRIVATE = "not private"  # status of an ε without a guarantee
WHILE_LOOKING = "while looking"  # of a phase that a visitor chose in mid-run
TIMES = frozenset(
    {"seconds", "milliseconds", "ratio", "ratio_low", "ratio_high", "peak_bytes"}
)


@dataclass(frozen=True)
class Event:
    """One entry of a run's log; ``data`` holds JSON values only, never NaN."""

    kind: Kind
    data: dict[str, Any] = field(default_factory=dict)

    def timeless(self) -> tuple[str, dict[str, Any]]:
        """Return kind and data without times: equal, bit for bit, between two runs."""
        data = {name: value for name, value in self.data.items() if name not in TIMES}
        return self.kind, data


#: Steps done before each change of settings in mid-run, and {name: value}.
Changes = Sequence[tuple[int, Mapping[str, Any]]]


def changes_of(phases: Sequence[Mapping[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return the changes that the data of a log's ``phase`` events record, in order."""
    chosen = (phase for phase in phases if "changes" in phase)
    return [(phase["step"], dict(phase["changes"])) for phase in chosen]
