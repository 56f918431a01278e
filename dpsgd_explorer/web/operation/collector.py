"""Metrics of a site, read from its database on request."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from dpsgd_explorer.runs.operation.fleet import Fleet, Reading
from dpsgd_explorer.runs.store.schema import FINAL_STATES, PAUSED, RUNNING
from dpsgd_explorer.web.http.stream_limit import Listeners

Families = Iterator[Metric]


class SiteCollector(Collector):
    """Collector of a site's metrics; without the database, it reports only that."""

    def __init__(self, fleet: Fleet, listeners: Listeners) -> None:
        """Store the sources; metrics are read by ``collect``."""
        self._fleet, self._listeners = fleet, listeners

    def describe(self) -> Families:
        """Return nothing: the names are known only after collecting."""
        return iter(())

    def collect(self) -> Families:
        """Yield the metrics of this process, then those of the whole site."""
        yield _gauge(
            "dpsgd_listeners", "Event streams open in this process", self._listeners.now
        )
        yield _gauge(
            "dpsgd_listeners_limit",
            "Maximum number of event streams of this process",
            self._listeners.cap,
        )
        reading = self._fleet.read_if_possible()
        yield _gauge(
            "dpsgd_database_up", "1: the database can be read", reading is not None
        )
        if reading is not None:
            yield from _of_queue(reading)
            yield from _of_runs(reading)
            yield from _of_workers(reading)


def _of_queue(reading: Reading) -> Families:
    yield _gauge("dpsgd_queue_depth", "Runs waiting for a worker", reading.queued)
    yield _gauge(
        "dpsgd_queue_oldest_seconds",
        "Time since the oldest waiting run was launched; 0 if no run waits",
        reading.oldest_queued_s,
    )
    yield _gauge(
        "dpsgd_queue_paused",
        "1: the operator paused the queue",
        reading.queue_paused_at is not None,
    )


def _of_runs(reading: Reading) -> Families:
    unfinished = GaugeMetricFamily(
        "dpsgd_runs_unfinished", "Runs that train or are paused", labels=["state"]
    )
    for state in (RUNNING, PAUSED):
        unfinished.add_metric([state], reading.runs[state])
    yield unfinished
    finished = CounterMetricFamily(
        "dpsgd_runs_finished", "Runs that ended", labels=["state", "kind"]
    )
    for (kind, state), number in sorted(reading.finished.items()):
        assert state in FINAL_STATES
        finished.add_metric([state, kind], number)
    yield finished
    yield CounterMetricFamily(
        "dpsgd_lease_losses", "Runs that lost their worker", reading.lease_losses
    )
    yield CounterMetricFamily("dpsgd_events", "Events that runs stored", reading.events)


def _of_workers(reading: Reading) -> Families:
    alive = [worker for worker in reading.workers if not worker.is_lost]
    yield _gauge("dpsgd_workers", "Workers seen lately", len(alive))
    yield _gauge(
        "dpsgd_worker_places",
        "Maximum number of simultaneous runs of these workers",
        sum(worker.places for worker in alive),
    )
    yield _gauge(
        "dpsgd_worker_places_busy",
        "Runs on these workers now",
        sum(worker.busy for worker in alive),
    )


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, float(value))
