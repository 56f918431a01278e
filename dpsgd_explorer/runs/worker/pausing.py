"""Execution of the visitor's orders, by the process of a run between two steps."""

from __future__ import annotations

import time

from dpsgd_explorer.experiments.experiment import Experiment
from dpsgd_explorer.runs.store.leases import Leases
from dpsgd_explorer.runs.store.pauses import PauseOrder
from dpsgd_explorer.runs.store.records import Claim
from dpsgd_explorer.runs.worker.ending import Ending
from dpsgd_explorer.runs.worker.event_writer import EventWriter
from dpsgd_explorer.runs.worker.silence import EventReporter

POLL_SECONDS = 0.05
# Time for which a paused run keeps its process; the second applies if runs are queued.
LINGER_SECONDS = 30.0
BRIEF_LINGER_SECONDS = 2.0


class RunGivenUpError(Exception):
    """The paused run has released its process; its checkpoint is stored."""


class Pausing:
    """Changes or pauses a run between two steps, by the visitor's orders.

    Attributes:
        repeats: True while the run repeats steps that are in its log.
    """

    def __init__(
        self,
        leases: Leases,
        claim: Claim,
        writer: EventWriter,
        reporter: EventReporter,
        *,
        running_per_visitor: int | None,
        ending: Ending,
    ) -> None:
        self._ending = ending
        self._leases, self._claim = leases, claim
        self._writer, self._reporter = writer, reporter
        self._running_per_visitor = running_per_visitor
        self.repeats = False

    def tend(self, experiment: Experiment) -> None:
        """Changes settings or pauses, as ordered; called before each step.

        Raises:
            RunGivenUpError: The pause continues without this process.
            LeaseLostError: Another worker has the run.
        """
        self._tend_ending(experiment)
        if self.repeats:
            return
        orders = self._writer.orders
        if orders.changes:
            experiment.change(orders.changes)
        if orders.continues(experiment.step):
            return
        begin = time.monotonic()
        self._writer.add_checkpoint(experiment.checkpoint())
        self._writer.flush()
        if not self._leases.pause(self._claim, experiment.step):
            return
        with self._reporter.at_rest():
            order = self._wait(experiment.step)
        if not self._leases.go_on(
            self._claim, running_per_visitor=self._running_per_visitor
        ):
            raise RunGivenUpError
        self._writer.orders = order
        if order.changes:
            experiment.change(order.changes)
        experiment.leave_out(time.monotonic() - begin)
        if order.until_step == experiment.step + 1:
            experiment.examine_next_step()

    def _tend_ending(self, experiment: Experiment) -> None:
        """Ends after SIGTERM; stores a checkpoint unless steps are being repeated."""
        self._ending.begin_steps()
        if not self._ending.is_asked:
            return
        if not self.repeats:
            self._writer.add_checkpoint(experiment.checkpoint())
            self._writer.flush()
        self._ending.end()

    def _wait(self, step: int) -> PauseOrder:
        """Returns the order that ends the pause."""
        begin = time.monotonic()
        while True:
            if self._ending.is_asked:
                self._ending.end()
            order = self._leases.pause_order(self._claim)
            if order.continues(step):
                return order
            waited = time.monotonic() - begin
            longest = BRIEF_LINGER_SECONDS if order.others_wait else LINGER_SECONDS
            if waited >= longest and self._leases.leave(self._claim, step):
                raise RunGivenUpError
            time.sleep(POLL_SECONDS)
