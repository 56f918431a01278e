"""Runs with a log but without a training: what a worker would have stored of them.

Each ε is the accountant's; accuracy and loss follow a formula of the settings.
"""

import json
import math
from dataclasses import asdict
from pathlib import Path

from dpsgd_explorer.experiments.events import WHILE_LOOKING, Event
from dpsgd_explorer.experiments.kinds import parse
from dpsgd_explorer.experiments.mid_run import along
from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.runs.operation.fleet import Fleet
from dpsgd_explorer.runs.store.store import RunStore
from dpsgd_explorer.settings import Settings
from dpsgd_explorer.web.http.visitor import COOKIE, make_signer

ADULT = {
    "dataset": "adult",
    "model": "logistic",
    "expected_batch_size": 2048,
    "steps": 40,
    "learning_rate": 10.0,
    "max_grad_norm": 0.5,
    "target_epsilon": 1.0,
    "evaluations": 8,
}
PICTURE = {
    "clipped_fraction": 0.0,
    "norm_counts": [1, 2, 3],
    "noise_to_signal": 3.0,
    "non_finite": 0,
}


def settings_of(folder):
    """Return the settings of a product in a folder."""
    return Settings.from_environment({"DPSGD_INSTANCE_DIR": str(folder)})


def cookie_of(folder, visitor):
    """Return name and value of the cookie that a visitor there has."""
    return COOKIE, make_signer(folder).sign(visitor).decode()


def store_runs(folder, visitor, runs):
    """Store runs for a product; return their ids in order.

    Nothing rings for them and each is claimed at once, so that no worker takes them up.
    """
    store = RunStore.from_settings(settings_of(folder))
    try:
        return [store_run(store, visitor, **run) for run in runs]
    finally:
        store.database.close()


def end_runs(folder):
    """End each run of a product there that waits or trains, as its operator would."""
    store = RunStore.from_settings(settings_of(folder))
    try:
        fleet = Fleet(store.database, store.clock)
        for run in fleet.unfinished():
            fleet.end_run(run.id)
    finally:
        store.database.close()


def store_run(
    store, visitor, state="done", until=None, name="", looking=None, **changes
):
    """Store one run of ``ADULT`` with some settings changed; return its id.

    It ends in a state after ``until`` steps; None: after all.  After ``looking`` steps
    its learning rate was changed by choice; or it is a list of such changes.
    """
    values = {**ADULT, **changes}
    if "noise_multiplier" in changes:
        values["target_epsilon"] = None
    config = TrainingConfig.parse(values)
    run = store.create(config, visitor=visitor, name=name)
    claim = store.leases.claim(run.id)
    if isinstance(looking, int):
        looking = [(looking, {"learning_rate": 2 * config.learning_rate})]
    store.leases.append(claim, log_of(config, until, looking or ()))
    if state != "running":
        store.leases.finish(claim, state)
    return run.id


def stored_search():
    """Return the settings and the events of a blind search that an old version ran."""
    stored = json.loads(Path(__file__).with_name("stored_search.json").read_text())
    return parse(stored["config"]), [Event(**event) for event in stored["events"]]


def log_of(config, until=None, changes=()):
    """Return the events of a training up to a step, its end included if it is whole.

    Changes are those of settings that its visitor made: the steps before, and values.
    """
    now, spending = along(config, changes)
    last = spending.last if until is None else until
    evaluated = {*now.evaluation_steps, spending.last}
    events = [Event("phase", phase_of(config))]
    waiting, measured = list(changes), {}
    spent = spending.epsilons(range(last + 1))
    for step in range(1, last + 1):
        while waiting and waiting[0][0] < step:
            done = len(changes) - len(waiting)
            events.append(chosen(config, changes[: done + 1]))
            del waiting[0]
        at = {"step": step, "seconds": 0.05 * step, "epsilon": spent[step]}
        share = math.exp(-config.max_grad_norm * (1 + step / 20))
        diagnostics = {
            **PICTURE,
            "clipped_fraction": share,
            "loss": 0.7 - 0.3 * learned(config, step),
        }
        diagnostics["batch_size"] = config.expected_batch_size
        events.append(Event("step", {**at, "diagnostics": diagnostics}))
        if step in evaluated:
            measured = {"test_accuracy": accuracy(config, step), "test_loss": 0.45}
            events.append(Event("evaluation", {**at, **measured}))
    if last == spending.last:
        reason = "finished" if last == now.plan.steps else "filter_epsilon"
        measured |= {"delta": config.delta, "reason": reason, "receipt": None}
        at["epsilon"] = config.guaranteed(spent[last])
        events.append(Event("end", {**at, **measured}))
    return events


def chosen(config, changes):
    """Return the event of the last of some changes that a visitor made."""
    now, spending = along(config, changes)
    step, values = changes[-1]
    said = {"step": step, "changes": values, "chosen": WHILE_LOOKING}
    if config.filtered_run is not None:  # its order is that of the plan at the start
        said["filter"] = asdict(config.filtered_run)
    return Event("phase", phase_of(now, spending) | said)


def phase_of(config, spending=None):
    plan, spending = config.plan, spending or config.spending()
    data = {
        "step": 0,
        "sample_rate": plan.sample_rate,
        "noise_multiplier": plan.noise_multiplier if config.private else None,
        "max_grad_norm": config.max_grad_norm,
        "expected_batch_size": config.expected_batch_size,
        "steps": plan.steps,
        "sample_size": plan.sample_size,
        "delta": plan.delta,
        "accountant": spending.accountant,
        "status": spending.status if config.private else "not private",
        "private": config.private,
        "norm_edges": [0.1, 0.3, 1.0, 3.0],
    }
    if config.filtered_run is not None:
        data["filter"] = asdict(config.filtered_run)
    return data


def accuracy(config, step):
    """Return an accuracy that grows with the steps, and less with more noise."""
    luck = 0.004 * math.sin(12.9898 * config.seed)
    noise = config.plan.noise_multiplier
    return 0.764 + (0.09 - 0.02 * math.log10(1 + noise)) * learned(config, step) + luck


def learned(config, step):
    return 1 - math.exp(-step * config.learning_rate / 100)
