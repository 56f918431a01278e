"""Conversion between odometers and the events of Google's dp-accounting.

| event of dp-accounting | entry of an odometer |
|---|---|
| ``GaussianDpEvent`` | steps on all records |
| ``PoissonSampledDpEvent`` of ``GaussianDpEvent`` | steps of DP-SGD |
| ``LaplaceDpEvent`` | ``LaplaceMechanism`` |
| ``RandomizedResponseDpEvent`` | ``RandomizedResponse`` |
| ``NonPrivateDpEvent`` | a step without noise: ε is infinite |
| ``ComposedDpEvent``, ``SelfComposedDpEvent`` | all entries of their events |
| ``NoOpDpEvent`` | none |

Noise multipliers have the same meaning in both libraries: noise over the sensitivity
for one record added or removed.  An event is recognized by the name of its class, so
that reading one needs no import of dp-accounting.

Source: https://github.com/google/differential-privacy, python/dp_accounting.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.phase import AllocationPhase, Phase
from dpsgd_explorer.accounting.mechanisms.entries import Entry, MechanismEntry
from dpsgd_explorer.accounting.mechanisms.noise import (
    LaplaceMechanism,
    RandomizedResponse,
)
from dpsgd_explorer.accounting.mechanisms.odometer import Odometer
from dpsgd_explorer.errors import AccountingError, MissingPackageError

#: Functions that bound an event which an odometer cannot count.
INSTEAD = {
    "SampledWithoutReplacementDpEvent": "fixed_size_interval",
    "TruncatedSubsampledGaussianDpEvent": "truncated_poisson_epsilon",
    "RepeatAndSelectDpEvent": "best_of_trials",
}


def from_dp_event(event: object) -> Odometer:
    """Returns an odometer with the mechanisms of an event of dp-accounting.

    >>> import dp_accounting as dp
    >>> step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.1))
    >>> ledger = from_dp_event(dp.SelfComposedDpEvent(step, 1000))
    >>> ledger, round(ledger.epsilon(1e-5), 4)
    (Odometer(entries=1, steps=1000), 1.5154)

    Args:
        event: A ``DpEvent``.

    Raises:
        AccountingError: an event has no exact counterpart here; the message names it.

    Source: the classes of ``dp_accounting.dp_event``.
    """
    ledger = Odometer()
    _add(ledger, event, 1)
    return ledger


def to_dp_event(odometer: Odometer) -> Any:
    """Returns an event of dp-accounting with the mechanisms of an odometer.

    >>> ledger = Odometer()
    >>> ledger.add_dp_sgd(sample_rate=0.01, noise_multiplier=1.1, steps=1000)
    >>> to_dp_event(ledger).events[0].count
    1000

    Args:
        odometer: Mechanisms that dp-accounting has events for: DP-SGD with Poisson
            sampling, Gaussian queries, Laplace noise, randomized response.

    Returns:
        A ``ComposedDpEvent`` with one event per entry.

    Raises:
        AccountingError: an entry has no event; the message names it.
        MissingPackageError: dp-accounting is not installed.

    Source: the classes of ``dp_accounting.dp_event``.
    """
    try:
        events: Any = import_module("dp_accounting")
    except ImportError as error:
        raise MissingPackageError(
            "to_dp_event needs dp-accounting. Run: pip install dp-accounting"
        ) from error
    return events.ComposedDpEvent([_event(events, x) for x in odometer.entries])


def _add(ledger: Odometer, event: Any, count: int) -> None:
    """Adds ``count`` repetitions of an event."""
    kind = type(event).__name__
    if kind == "ComposedDpEvent":
        for part in event.events:  # the order of mechanisms does not matter
            _add(ledger, part, count)
    elif kind == "SelfComposedDpEvent":
        times = validation.whole("count", event.count, 0, validation.MAX_STEPS)
        _add(ledger, event.event, count * times)
    elif kind not in ADD:
        _refuse(event)
    elif count:
        ADD[kind](ledger, event, count)


def _add_sampled(ledger: Odometer, event: Any, count: int) -> None:
    inner = type(event.event).__name__
    if inner != "GaussianDpEvent":
        _refuse(event)
    if event.sampling_probability:
        noise = event.event.noise_multiplier
        ledger.add_dp_sgd(event.sampling_probability, noise, count)


def _add_laplace(ledger: Odometer, event: Any, count: int) -> None:
    if event.noise_multiplier == 0:
        ledger.add_dp_sgd(1.0, 0.0, count, label="Laplace")
    else:
        ledger.add(LaplaceMechanism(event.noise_multiplier), "Laplace", count)


def _add_response(ledger: Odometer, event: Any, count: int) -> None:
    if event.num_buckets == 1:
        return
    label = "randomized response"
    if event.noise_parameter == 0:
        ledger.add_dp_sgd(1.0, 0.0, count, label=label)
    else:
        answer = RandomizedResponse(event.noise_parameter, event.num_buckets)
        ledger.add(answer, label, count)


#: Functions that add ``count`` repetitions of an event, by the name of its class.
ADD: dict[str, Callable[[Odometer, Any, int], None]] = {
    "NoOpDpEvent": lambda ledger, event, count: None,
    "NonPrivateDpEvent": lambda ledger, event, count: ledger.add_dp_sgd(
        1.0, 0.0, count
    ),
    "GaussianDpEvent": lambda ledger, event, count: ledger.add_dp_sgd(
        1.0, event.noise_multiplier, count, label="Gaussian"
    ),
    "PoissonSampledDpEvent": _add_sampled,
    "LaplaceDpEvent": _add_laplace,
    "RandomizedResponseDpEvent": _add_response,
}


def _refuse(event: object) -> None:
    kind = type(event).__name__
    remedy = f" Call {INSTEAD[kind]} instead." if kind in INSTEAD else ""
    raise AccountingError(
        "event must be a Gaussian, Laplace, randomized response, Poisson-sampled "
        f"Gaussian or composed event of dp-accounting, got {event!r:.120}.{remedy}",
        field="event",
    )


def _event(events: Any, entry: Entry | MechanismEntry) -> Any:
    if isinstance(entry, Entry) and not isinstance(entry.phase, AllocationPhase):
        return events.SelfComposedDpEvent(_step(events, entry.phase), entry.phase.steps)
    mechanism = entry.mechanism
    if isinstance(mechanism, LaplaceMechanism):
        event = events.LaplaceDpEvent(mechanism.scale / mechanism.sensitivity)
    elif isinstance(mechanism, RandomizedResponse):
        event = events.RandomizedResponseDpEvent(
            mechanism.noise_parameter, mechanism.num_buckets
        )
    else:
        raise AccountingError(
            "odometer must be DP-SGD with Poisson sampling, Gaussian or Laplace noise, "
            f"and randomized response, got {entry!r:.120}. dp-accounting has no exact "
            "event for this entry.",
            field="odometer",
        )
    assert isinstance(entry, MechanismEntry)
    return events.SelfComposedDpEvent(event, entry.count)


def _step(events: Any, phase: Phase) -> Any:
    if phase.noise_multiplier == 0 and phase.sample_rate == 1:
        return events.NonPrivateDpEvent()
    step = events.GaussianDpEvent(phase.noise_multiplier)
    if phase.sample_rate == 1:
        return step
    return events.PoissonSampledDpEvent(phase.sample_rate, step)
