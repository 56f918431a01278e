"""What the ranks are asked to do; each job is one function."""

import os
import warnings
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FSDPModule,
    FullyShardedDataParallel,
    fully_shard,
)
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.clipping.adaptive import AdaptiveClipping
from dpsgd_explorer.dp.distributed.agreement import COMPARISON_STEPS
from dpsgd_explorer.errors import PrivacyError
from examples.distributed import transformer_fsdp
from tests.dp.distributed.models import NETS, SHARDED_ALONE
from tests.dp.distributed.planted import BUGS
from tests.dp.nets import CLASSES, data, flat

STEPS = 6
WHOLE = StateDictOptions(full_state_dict=True)
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


def group():
    """The group of this process; none in a process alone."""
    return {"group": dist.group.WORLD} if dist.is_initialized() else {}


def made(net="mlp", wrapped=False, sharded=False, reshard=None, **options):
    """Return (model, optimizer, engine), attached."""
    torch.manual_seed(0)
    model = NETS[net]()
    if wrapped:
        model = DistributedDataParallel(model)
    if sharded:
        shard(model, reshard)
    if options.pop("adaptive", False):
        options["clipping_schedule"] = AdaptiveClipping()
    engine = PrivacyEngine(model, **{**PLAN, **group(), **options})
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.2)
    engine.attach(optimizer)
    return model, optimizer, engine


def shard(model, reshard=None):
    """Shard each layer by itself, and the rest with the model.

    ``reshard`` is what ``fully_shard`` does after forward: False keeps a layer's
    parameters whole until backward.
    """
    for layer in SHARDED_ALONE.get(type(model), nn.Module.children)(model):
        if any(True for _ in layer.parameters()):
            fully_shard(layer, reshard_after_forward=reshard)
    fully_shard(model, reshard_after_forward=reshard)


def whole(tensor):
    """Return all rows of a tensor, sharded or not."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def advance(model, optimizer, batches, steps=None):
    """Make steps, or all of them."""
    for done, (x, y) in enumerate(batches, start=1):
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        if done == steps:
            return


def weights(model):
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
    return flat(whole(p.detach()) for p in model.parameters())


def loader(engine, records):
    """Return the loader of the engine's sampling."""
    if engine.options.sampling == "random_allocation":
        return engine.random_allocation_loader(records)
    return engine.poisson_loader(records)


def trained(bug=None, records=RECORDS, evaluates=False, **options):
    """Return the weights, the receipt and epsilon after a whole run."""
    with BUGS[bug]() if bug else nullcontext():
        model, optimizer, engine = made(**{"sample_size": records} | options)
        for batch in loader(engine, data(records)).all_epochs():
            advance(model, optimizer, [batch])
            if evaluates:
                evaluate(model, optimizer)
        receipt = engine.receipt()
        epsilon = engine.get_epsilon(assume_per_sample_loss=True)
    engine.detach()
    return weights(model), receipt, epsilon


def evaluate(model, optimizer):
    """Run the model as between two steps, and clear gradients by zeros."""
    model.eval()
    with torch.no_grad():
        model(data()[0])
    model.train()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.zero_grad(set_to_none=False)


def noise(size, steps, bug=None, sharded=False, **options):
    """Return what is released where every gradient is 0: [steps, size], sum's units."""
    with BUGS[bug]() if bug else nullcontext():
        model = nn.Linear(1, size, bias=False)
        nn.init.zeros_(model.weight)
        if sharded:
            shard(model)
        settings = {"noise": "secure", "seed": None, "noise_multiplier": 2.0}
        sizes = {"steps": steps, "max_grad_norm": 3.0, "batch_size": 4}
        given = {**PLAN, **settings, **sizes, **group(), **options}
        engine = PrivacyEngine(model, **given)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        engine.attach(optimizer)
        releases = []
        zeros = torch.zeros(RECORDS, 1), torch.zeros(RECORDS, size)
        for x, y in engine.poisson_loader(zeros).all_epochs():
            F.mse_loss(model(x), y).backward()
            optimizer.step()
            gradient = whole(model.weight.grad).flatten().clone()
            releases.append(gradient * engine.plan.expected_batch_size)
            optimizer.zero_grad()
        engine.receipt()
    engine.detach()
    return torch.stack(releases)


def own_records(of_ranks):
    """Return this rank's records: ranks have so many each; a process alone has all."""
    x, y = data()
    if not dist.is_initialized():
        return x, y
    rank = dist.get_rank()
    start = sum(of_ranks[:rank])
    return x[start : start + of_ranks[rank]], y[start : start + of_ranks[rank]]


def trained_locally(of_ranks, **options):
    """Return weights, receipt and epsilon where ranks have records of their own."""
    model, optimizer, engine = made(partition="local", **options)
    advance(model, optimizer, engine.poisson_loader(own_records(of_ranks)).all_epochs())
    engine.detach()
    epsilon = engine.get_epsilon(assume_per_sample_loss=True)
    return weights(model), engine.receipt(), epsilon


def drawn_locally(of_ranks, steps, bug=None, resumes=False, **options):
    """Return which of its own records a rank draws at each step: [steps, n]."""
    with BUGS[bug]() if bug else nullcontext():
        settings = {"partition": "local", "steps": steps, **options}
        model, optimizer, engine = made(net="one", **settings)
        if resumes:  # from the state of rank 0
            states = [engine.state_dict()]
            dist.broadcast_object_list(states)
            engine.load_state_dict(states[0])
        size = of_ranks[dist.get_rank()]
        numbers = torch.arange(size).view(-1, 1).float()
        joined = torch.zeros(steps, size)
        for step, (x, y) in enumerate(loader(engine, (numbers, numbers)).all_epochs()):
            joined[step, x.flatten().long()] = 1.0
            F.mse_loss(model(x), y).backward()
            optimizer.step()
            optimizer.zero_grad()
    engine.receipt()
    engine.detach()
    return joined


def saved(steps, path, **options):
    """Save a run after some steps, on rank 0; return its epsilon."""
    model, optimizer, engine = made(**options)
    batches = engine.poisson_loader(data()).all_epochs()
    advance(model, optimizer, batches, steps)
    parameters = get_model_state_dict(model, options=WHOLE)
    if dist.get_rank() == 0:
        torch.save([parameters, engine.state_dict()], path)
    engine.detach()
    return engine.get_epsilon(assume_per_sample_loss=True)


def resumed(path, **options):
    """Go on with a saved run to its end; return weights, receipt and epsilon."""
    model, optimizer, engine = made(**options)
    parameters, state = torch.load(path, weights_only=True)
    set_model_state_dict(model, parameters, options=WHOLE)
    engine.load_state_dict(state)
    advance(model, optimizer, engine.poisson_loader(data()).all_epochs())
    engine.detach()
    return weights(model), engine.receipt(), engine.steps_done


def one_sample_is_infinite(**options):
    """Train on data of which one record has an infinite gradient."""
    model, optimizer, engine = made(**options)
    x, y = data()
    x[3] = torch.inf
    advance(model, optimizer, engine.poisson_loader((x, y)).all_epochs())
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
        "step": {"steps": COMPARISON_STEPS + 2},
        "partition": {"partition": "local" if other else "strided"},
        "users": {
            "sample_size": None,
            "user_ids": [i // 2 if other else i % 20 for i in range(RECORDS)],
        },
    }
    model, optimizer, engine = made(**changes.get(what, {}))
    if what == "model":
        engine.detach()
        with torch.no_grad():
            model[0].weight[1, 2] += float(other)
        engine.attach(optimizer)
    if what == "data":
        x[0] += float(other)
    for step, batch in enumerate(engine.poisson_loader((x, y)).all_epochs()):
        if what == "step" and step == 2 and other:
            with torch.no_grad():
                model[0].bias += 1.0
        advance(model, optimizer, [batch])
    engine.detach()


def killed(at_step, **options):
    """Let rank 1 die in a step; return the others' error and their steps."""
    model, optimizer, engine = made(noise_multiplier=1.0, **options)
    batches = engine.poisson_loader(data())
    advance(model, optimizer, batches, at_step)
    before = engine.receipt()["done"]
    if dist.get_rank() == 1:
        engine._state.noise.add_to = lambda *arguments: os._exit(9)
    try:
        advance(model, optimizer, batches, 1)
    except RuntimeError as error:
        return str(error), engine.steps_done, engine.receipt()["done"] == before
    return None


def group_ended():
    """Train on in an engine whose group has ended."""
    ends = dist.new_group()
    model, optimizer, engine = made(group=ends)
    batches = engine.poisson_loader(data())
    advance(model, optimizer, batches, 1)
    dist.destroy_process_group(ends)
    try:
        advance(model, optimizer, batches, 1)
    except PrivacyError as error:
        return error, engine.steps_done
    finally:
        engine.detach()
    return None


def elsewhere():
    """Attach to a model that is not where the group's backend takes tensors."""
    model = nn.Linear(4, CLASSES, device="meta")
    engine = PrivacyEngine(model, **PLAN, **group())
    engine.attach(torch.optim.SGD(model.parameters(), lr=0.1))


def summed_locally(of_ranks):
    """Return the clipped sum of one batch of all records: [P].

    Args:
        of_ranks: Numbers of the records of each rank.
    """
    x, y = data()
    mine = torch.tensor(of_ranks[dist.get_rank()], dtype=torch.int64)
    size = sum(map(len, of_ranks))
    options = {"sample_size": size, "batch_size": size, "partition": "local"}
    model, optimizer, engine = made(**options, steps=1)
    before = weights(model)
    advance(model, optimizer, engine.poisson_loader((x[mine], y[mine])).all_epochs())
    engine.detach()
    return (before - weights(model)) / optimizer.param_groups[0]["lr"] * size


def audited(canaries, bug=None, **options):
    """Return what canaries prove, and what was promised."""
    with BUGS[bug]() if bug else nullcontext():
        model, optimizer, engine = made(
            noise_multiplier=1.0, audit=canaries, steps=40, **options
        )
        advance(model, optimizer, engine.poisson_loader(data()).all_epochs())
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


def by_columns(parameter):
    return Shard(parameter.dim() - 1)


def transformer():
    """Train the example's transformer, small, sharded if there are ranks."""
    torch.manual_seed(0)
    model = transformer_fsdp.Transformer(width=16, layers=2, heads=2)
    if dist.is_initialized():
        transformer_fsdp.shard(model)
    settings = {"noise_multiplier": 0.0, "noise": "seeded", "seed": 5, **group()}
    transformer_fsdp.train(model, STEPS, 320, **settings)
    return weights(model)


def spread(how):
    """Attach to a model that is spread over the ranks in some way."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, CLASSES))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    names = ("replica", "shard")
    both = init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=names)
    ways = {
        "FSDP1": lambda: FullyShardedDataParallel(model, device_id="cpu"),
        "tensor parallelism": lambda: parallelize_module(
            model, mesh, {"0": ColwiseParallel()}
        ),
        "a part": lambda: nn.Sequential(fully_shard(model[0]), model[1]),
        "columns": lambda: fully_shard(model, shard_placement_fn=by_columns),
        "replicas": lambda: fully_shard(model, mesh=both),
    }
    model = ways[how]()
    engine = PrivacyEngine(model, **PLAN, group=dist.group.WORLD)
    engine.attach(torch.optim.SGD(model.parameters(), lr=0.1))
