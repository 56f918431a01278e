"""The events of a run, in order: plain data, ready for JSON.

``phase`` opens the log and marks each change of settings:
    ``step``, ``sample_rate``, ``noise_multiplier`` (null: the run has no noise),
    ``max_grad_norm``, ``expected_batch_size``, ``steps`` (planned), ``sample_size``,
    ``delta``, ``accountant``, ``status`` (of the ε of the whole run: "exact", "bound",
    "approximation" or "not private"), ``private``, ``norm_edges`` (null if not private)
    on a GPU also ``device``, its name; other runs were trained on a CPU
    with correlated noise also ``bands``, the steps of a round
    with random allocation also ``slots``, the steps of an epoch; a ``step`` between two
    evaluations then has the ε of a later step, which bounds its own
    in older logs that measured norm methods also ``norm_methods``
    after a mid-run change also ``changes`` ({name: value}) and ``chosen`` ("while
    looking": ε holds only if the choice used private outputs alone)
``step``:
    ``step``, ``epsilon``, ``seconds``, ``diagnostics``
``evaluation``:
    ``step``, ``epsilon``, ``test_accuracy`` (0 to 1), ``test_loss``, ``seconds``
``model``, before the first step and after evaluations, in runs of kind "training":
    ``step``, ``epsilon``, ``seconds`` and the following, null where inapplicable:
    ``weights``: {parameter: ``shape``, ``scale``, ``values``}; the values are signed
    bytes in base64, to be multiplied by the scale; ``features``: names of the columns,
    in the first event; ``confusion``: test records by class (row) and prediction;
    ``groups``: {attribute: {value: [test records, misclassified records]}};
    ``misread``: misclassified test records (see ``training/model_snapshots.py``);
    ``pictures``: the least certain test records at the end, with their ``shape``,
    ``indices``, ``labels`` and 4-bit ``values`` in base64.  A language model also has
    ``texts`` that it writes with fixed random numbers, and after the start its
    ``accuracy``.  DP-SGD releases only the weights, and texts are computed from them;
    all other fields depend on the test records, so they are not private.
``end``:
    ``step``, ``epsilon``, ``delta``, ``test_accuracy``, ``test_loss``, ``seconds``,
    ``reason``: "finished" or "stop_at_epsilon", ``receipt`` (null if not private), and
    in runs of kind "training" ``audit`` (null without canaries), which covers all
    steps: ``epsilon_lower`` at ``confidence`` next to ``epsilon_promised``, both at
    ``delta``; ``canaries``, ``steps``, ``method``, ``others`` ({method: lower bound})
    and ``unscored`` (``steps`` without a canary and the ``reason``; [] in a run that
    was trained on this site)

A worker adds ``progress`` events to the log of a run:
    ``what`` is being computed or awaited: "features" (``done`` of ``total`` rows),
    "torch" (loading takes about ``seconds``, null if unknown), "processor" (the run got
    ``share`` of one core, and ``load`` processes compete for a core), "preparation"
    (before the first step: data, noise, the safety check of the model) or "step" (a
    slow one).  These events depend on the machine, so two runs of one configuration
    may differ in them; the training itself does not emit them.

A run that its visitor trains step by step logs ``microscope`` after each such step:
``step``, ``epsilon``, ``seconds``, number of drawn ``records``, ``lengths`` of their
gradients (norms in descending order, thinned), ``cut`` (norms above C), ``points``
(unclipped gradients of some records, projected to a plane), the clipping ``factors`` of
these records, ``arrows`` ("true" and "clipped" mean of these gradients and the "noisy"
gradient of the step, in that plane), ``noise_length`` (expected norm) and
``noisy_length``.  Only the noisy gradient is private.  Two runs of one configuration
may differ in these events.

The ``phase`` of a run of kind "regression" has no clipping bound, accountant or edges,
but: ``learning_rate`` as used (the median if each repetition released one),
``learning_rate_is_private``, ``rate_noise_multiplier`` of the eigenvalue that was
released for it before the first step (null if none was released; its ε counts from the
start), ``neighboring_relation``, ``repetitions`` and the baselines ``nonprivate_mse``
and ``trivial_mse``; its ``sample_rate`` is 1.  Its ``evaluation`` and ``end`` hold
``mse_median``, ``mse_low`` and ``mse_high`` (5% and 95%) over the repetitions, null if
infinite, computed from the data and not private.  Its ``diagnostics`` are ``diverged``
(repetitions), ``theta_norm`` (median) and ``noise_std`` per coordinate.

A run of kind "regression_methods" releases the coefficients of one method per step.
Its ``epsilon`` covers the methods released so far.  Its ``phase`` has ``sample_size``,
``test_size`` and, computed without noise, ``not_private_rmse`` and
``not_private_coefficients`` of least squares, and ``not_private_mean_rmse`` (of always
predicting the mean).  Its ``evaluation`` holds the ``method``, ``epsilon_alone`` (ε of
this method alone), the ``coefficients`` in the units of the table (``intercept`` and
``slopes`` by name; null if they are not finite) and ``not_private_rmse``, the root mean
square error on the test rows.  The ``end`` has the ``not_private_rmse`` of the last
method, so that no choice by error is logged, and a ``receipt`` with the noise of
every release.

A run of kind "engines" uses no data set, so its ``epsilon`` and ``delta`` are null.
Its ``phase`` holds ``parameters`` and the ``machine``.  Each step measures one
``engine`` (the first is "ordinary").  Its ``evaluation`` holds ``refused``, the reason
why the engine rejects the model ("" if it does not); ``difference``, the maximum
difference between its private gradient and the gradients of earlier engines, relative
to the largest entry, in double precision and without noise (null for the first engine;
the ``end`` has the maximum of all); ``milliseconds`` of CPU time per step and the
``ratio`` to the ordinary step with the quartiles ``ratio_low`` and ``ratio_high``;
``peak_bytes``; and the ``layers``, each with the chosen ``way`` (its norm method), the
multiply-adds of both methods and the ``reason``.

A run of kind "planted_bug" audits a training loop on synthetic records, so its
``epsilon`` and ``delta`` are null.  Its ``phase`` holds the ``canaries``, the
``confidence`` of the bounds, the guarantee that the loop claims for all its steps
(``epsilon_promised`` at ``delta_promised``) and ``refused``, the reason why
``PrivacyEngine`` rejects the loop's model, loss or batches ("" if it does not).  Its
``evaluation`` holds ``epsilon_lower``, which the canaries prove for the steps so far,
and ``epsilon_promised`` for these steps.  The ``end`` repeats the last evaluation (null
without one), the ``error`` that stopped the loop ("" if none) and ``seen_by``:
"engine", "torch", "audit" or "nothing".

A run of kind "search" reports only its best trial.  Its ``phase`` holds
``sample_rate``, ``noise_multiplier`` and ``trial_steps`` of a trial, ``mean_trials``
and ``steps``, the number of trainings, which does not depend on the drawn number of
trials. Its ``step`` counts trainings; ``epsilon`` is 0 until the winner is released
after the last training, then it is the ε of the selection at ``delta``.  Then follow
the winner's ``evaluation`` events, with ``trained`` (steps of its training), and the
``end`` with the ``winner``: its values of the searched settings, null if no trial was
drawn or none had finite numbers.

A run of kind "attack" trains models and guesses the records that each was trained on.
Its ``phase`` holds the settings of its private trainings, ``members`` and ``others``
(numbers of pool records that were and were not trained on), the followed ``record``
(its ``index``, ``label``, ``planted`` label and ``joined``: true for a member) and the
``ceiling``: ``true_positive_rates`` that no attack on the private model exceeds in the
long run, at ``false_positive_rates``.  Each step is a training; its ``diagnostics`` are
``private``, ``shadow`` (its number; 0 for the target) and ``test_accuracy``.  After the
last training follow ``evaluation`` events, one per ``attack`` and ``target``: the
``area`` below its curve, ``points`` (``false_positive_rate``, ``true_positive_rate``
and its 95% interval from ``low`` to ``high``), ``above`` (number of thresholds whose
rates exceed the ceiling), ``beyond`` (number of these that chance does not explain;
both null without privacy) and the ``record``: its ``score``, and the share of
non-members that score as high.  The ``end`` has the ``area`` of the likelihood ratio
attack on the private model, and for the ``record`` the logit of its label under each
target and its shadows.  ``epsilon`` covers the private target alone.  All scores are
computed from the records, so they are not private.

``epsilon`` is null without a guarantee (no noise, or not private): ε = ∞.
``diagnostics`` are not private: ``batch_size`` (drawn), ``loss`` (mean over the drawn
batch; null if it is empty), ``clipped_fraction`` (null for an empty batch),
``norm_counts`` (samples per bin of the phase's ``norm_edges``; the first and last bin
include the norms outside the edges), ``noise_to_signal`` (null if the signal is 0),
``non_finite`` and, if the clipping bound changes, the step's ``max_grad_norm``.  The
last four are null if not private: without clipping, no per-sample gradient is computed.
Two runs of one configuration have equal events, except for ``seconds`` and the
measurements of time and memory (``TIMES``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["phase", "progress", "step", "evaluation", "model", "microscope", "end"]

NOT_PRIVATE = "not private"  # status of an ε without a guarantee
WHILE_LOOKING = "while looking"  # marks a phase that a visitor chose in mid-run
TIMES = frozenset(
    {"seconds", "milliseconds", "ratio", "ratio_low", "ratio_high", "peak_bytes"}
)


@dataclass(frozen=True)
class Event:
    """One entry of a run's log; ``data`` holds JSON values only, never NaN."""

    kind: Kind
    data: dict[str, Any] = field(default_factory=dict)

    def timeless(self) -> tuple[str, dict[str, Any]]:
        """Return kind and data without times: bit-identical between two runs."""
        data = {name: value for name, value in self.data.items() if name not in TIMES}
        return self.kind, data


#: Settings changed in mid-run: pairs of the steps done before and {name: value}.
Changes = Sequence[tuple[int, Mapping[str, Any]]]


def changes_of(phases: Sequence[Mapping[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Return the mid-run changes recorded in a log's ``phase`` events, in order."""
    chosen = (phase for phase in phases if "changes" in phase)
    return [(phase["step"], dict(phase["changes"])) for phase in chosen]
