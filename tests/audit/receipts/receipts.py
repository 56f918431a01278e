"""Receipts of small runs, one of each sort that the engine writes."""

import torch
from torch import nn

from dpsgd_explorer.dp import AdaptiveClipping, PrivacyEngine, schedules

RECORDS = 40


def started(after=None, **options):
    torch.manual_seed(0)
    net = nn.Linear(3, 2) if after is None else after.module
    settings = {
        "batch_size": 8,
        "sample_size": RECORDS,
        "noise_multiplier": 1.5,
        "target_delta": 1e-3,
        "max_grad_norm": 0.5,
        "steps": 4,
        "noise": "seeded",
        "seed": 5,
        "clipping_fn": "Abadi",
    } | options
    if settings["noise"] == "secure":
        settings["seed"] = None
    engine = PrivacyEngine(net, after=after, **settings)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    engine.attach(optimizer)
    return engine, optimizer


def train(engine, optimizer, steps=None):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(RECORDS, 3, generator=generator)
    y = (x[:, 0] > 0).long()
    # One epoch of an open-ended run.
    loader = engine.poisson_loader((x, y), steps=engine.plan.steps)
    for done, (inputs, targets) in enumerate(loader.all_epochs(), start=1):
        reduction = engine.options.loss_reduction
        outputs = engine.module(inputs)
        loss = nn.functional.cross_entropy(outputs, targets, reduction=reduction)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if done == steps:
            break
    return engine


def usual(**options):
    return train(*started(**options)).receipt()


def of_no_step():
    return started()[0].receipt()


def with_chosen_bound():
    engine, optimizer = started()
    train(engine, optimizer, 2)
    engine.choose_max_grad_norm(0.2)
    return train(engine, optimizer).receipt()


def after_another(audits=(0, 0), **options):
    first = train(*started(audit=audits[0], **options))
    first.detach()
    later = {"noise_multiplier": 2.0, "seed": 6, "audit": audits[1]}
    return train(*started(after=first, **later)).receipt()


def resumed_in_secret():
    engine, optimizer = started(noise="secure", audit=8)
    state = train(engine, optimizer, 2).state_dict()
    engine.detach()
    again, optimizer = started(noise="secure", audit=8)
    again.load_state_dict(state, lost_steps=1)
    return train(again, optimizer).receipt()


SORTS = {
    "usual": usual,
    "all accountants": lambda: usual(accounting_mode="all"),
    "not private": lambda: usual(noise_multiplier=0.0),
    "no step": of_no_step,
    "open-ended": lambda: usual(steps=None),
    "sum of losses": lambda: usual(loss_reduction="sum"),
    "scheduled": lambda: usual(
        noise_schedule=schedules.Staged(schedules.Linear(2.0), 2),
        clipping_schedule=schedules.Stairs(0.5, 3),
    ),
    "adaptive": lambda: usual(clipping_schedule=AdaptiveClipping()),
    "chosen bound": with_chosen_bound,
    "two engines": after_another,
    "secure, with lost steps": resumed_in_secret,
    "audited": lambda: usual(audit=8),
    "audited, of replaced records": lambda: usual(
        audit=8, audit_relation="replace_one"
    ),
    "audited, adaptive": lambda: usual(audit=8, clipping_schedule=AdaptiveClipping()),
    "audited, two engines": lambda: after_another((8, 8)),
    "audited, two engines, the first adaptive": lambda: after_another(
        (8, 8), clipping_schedule=AdaptiveClipping()
    ),
    "audited, the second of two engines": lambda: after_another((0, 8)),
    "audited, with a noise for each step": lambda: usual(
        audit=8, steps=40, noise_schedule=schedules.Linear(2.0)
    ),
}
