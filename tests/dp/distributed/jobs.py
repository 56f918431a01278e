"""What the ranks are asked to do; each job is one function."""

import os
import warnings
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveClipping
from dpsgd_explorer.dp.distributed.agreement import COMPARED_EVERY
from tests.dp.distributed.planted import BUGS
from tests.dp.nets import CLASSES, data, flat

STEPS = 6
RECORDS = 40
PLAN = {
    "sample_size": RECORDS,
    "batch_size": 8,
    "steps": STEPS,
    "noise_multiplier": 0.0,
    "noise": "seeded",
    "seed": 5,
    "clipping_fn": "Abadi",
    "max_grad_norm": 0.5,
}


class TiedNet(nn.Module):
    """A weight that two layers share, and a bias alone."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))


class BiasNet(nn.Sequential):
    """Biases alone are trained."""

    def __init__(self):
        super().__init__(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, CLASSES))
        for layer in (self[0], self[2]):
            layer.weight.requires_grad_(False)


NETS = {
    "linear": lambda: nn.Linear(4, CLASSES),
    "mlp": lambda: nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, CLASSES)),
    "tied": TiedNet,
    "bias": BiasNet,
}


def group():
    """The group of this process; none in a process alone."""
    return {"group": dist.group.WORLD} if dist.is_initialized() else {}


def made(net="mlp", wrapped=False, **options):
    """Return (model, optimizer, engine), attached."""
    torch.manual_seed(0)
    model = NETS[net]()
    if wrapped:
        model = DistributedDataParallel(model)
    if options.pop("adaptive", False):
        options["clipping_schedule"] = AdaptiveClipping()
    engine = PrivacyEngine(model, **{**PLAN, **group(), **options})
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.2)
    engine.attach(optimizer)
    return model, optimizer, engine


def advance(model, optimizer, batches, steps=None):
    """Make steps, or all of them."""
    for done, (x, y) in enumerate(batches, start=1):
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        if done == steps:
            return


def weights(model):
    return flat(p.detach() for p in model.parameters())


def trained(bug=None, records=RECORDS, **options):
    """Return the weights, the receipt and epsilon after a whole run."""
    with BUGS[bug]() if bug else nullcontext():
        model, optimizer, engine = made(sample_size=records, **options)
        advance(model, optimizer, engine.poisson_loader(data(records)))
        receipt = engine.receipt()
        epsilon = engine.get_epsilon(assume_per_sample_loss=True)
    engine.detach()
    return weights(model), receipt, epsilon


def noise(size, steps, bug=None, **options):
    """Return what is released where every gradient is 0: [steps, size], sum's units."""
    with BUGS[bug]() if bug else nullcontext():
        model = nn.Linear(1, size, bias=False)
        nn.init.zeros_(model.weight)
        settings = {"noise": "secure", "seed": None, "noise_multiplier": 2.0}
        sizes = {"steps": steps, "max_grad_norm": 3.0, "batch_size": 4}
        given = {**PLAN, **settings, **sizes, **group(), **options}
        engine = PrivacyEngine(model, **given)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        engine.attach(optimizer)
        releases = []
        zeros = torch.zeros(RECORDS, 1), torch.zeros(RECORDS, size)
        for x, y in engine.poisson_loader(zeros):
            F.mse_loss(model(x), y).backward()
            optimizer.step()
            releases.append(
                model.weight.grad.flatten().clone() * engine.plan.expected_batch_size
            )
            optimizer.zero_grad()
        engine.receipt()
    engine.detach()
    return torch.stack(releases)


def saved(steps, path, **options):
    """Save a run after some steps, on rank 0; return its epsilon."""
    model, optimizer, engine = made(**options)
    batches = engine.poisson_loader(data())
    advance(model, optimizer, batches, steps)
    if dist.get_rank() == 0:
        torch.save([model.state_dict(), engine.state_dict()], path)
    engine.detach()
    return engine.get_epsilon(assume_per_sample_loss=True)


def resumed(path, **options):
    """Go on with a saved run to its end; return weights, receipt and epsilon."""
    model, optimizer, engine = made(**options)
    parameters, state = torch.load(path, weights_only=True)
    model.load_state_dict(parameters)
    engine.load_state_dict(state)
    advance(model, optimizer, engine.poisson_loader(data()))
    engine.detach()
    return weights(model), engine.receipt(), engine.steps_done


def one_sample_is_infinite(**options):
    """Train on data of which one record has an infinite gradient."""
    model, optimizer, engine = made(**options)
    x, y = data()
    x[3] = torch.inf
    advance(model, optimizer, engine.poisson_loader((x, y)))
    engine.detach()
    return weights(model)


def unlike(what):
    """Train where one rank differs in something."""
    other = dist.get_rank() == 1
    x, y = data()
    changes = {
        "plan": {"steps": STEPS + other},
        "seed": {"seed": 5 + other},
        "options": {"max_grad_norm": 0.5 + other},
        "step": {"steps": COMPARED_EVERY + 2},
    }
    model, optimizer, engine = made(**changes.get(what, {}))
    if what == "model":
        engine.detach()
        with torch.no_grad():
            model[0].weight[1, 2] += float(other)
        engine.attach(optimizer)
    if what == "data":
        x[0] += float(other)
    for step, batch in enumerate(engine.poisson_loader((x, y))):
        if what == "step" and step == 2 and other:
            with torch.no_grad():
                model[0].bias += 1.0
        advance(model, optimizer, [batch])
    engine.detach()


def killed(at_step):
    """Let rank 1 die in a step; return the others' error and their steps."""
    model, optimizer, engine = made(noise_multiplier=1.0)
    batches = engine.poisson_loader(data())
    advance(model, optimizer, batches, at_step)
    before = engine.receipt()["done"]
    if dist.get_rank() == 1:
        engine._state.ranks.gather = lambda flat: os._exit(9)
    try:
        advance(model, optimizer, batches, 1)
    except RuntimeError as error:
        return str(error), engine.steps_done, engine.receipt()["done"] == before
    return None


def audited(canaries, bug=None):
    """Return what canaries prove, and what was promised."""
    with BUGS[bug]() if bug else nullcontext():
        model, optimizer, engine = made(
            noise_multiplier=1.0, audit=canaries, steps=40, noise="seeded"
        )
        advance(model, optimizer, engine.poisson_loader(data()))
        result = engine.audit(1e-3)
    engine.detach()
    return result.epsilon_lower, result.epsilon_promised


def without_a_group():
    """Return the warning of an engine that does not know of the other ranks."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        PrivacyEngine(nn.Linear(4, CLASSES), **PLAN)
    return found[0].message


def not_a_group():
    """Name something else as the group."""
    PrivacyEngine(nn.Linear(4, CLASSES), **PLAN, group="world")


def wrapped_alone():
    """Attach to a wrapped module without a group."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DistributedDataParallel(nn.Linear(4, CLASSES))
        engine = PrivacyEngine(model, **PLAN)
        engine.attach(torch.optim.SGD(model.parameters(), lr=0.1))
