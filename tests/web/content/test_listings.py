"""The chapters' listings against the engine: what a reader copies is right."""

import math
import runpy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dpsgd_explorer.dp import PrivacyEngine, per_sample_gradients
from dpsgd_explorer.experiments.vocabulary import ENGINES
from dpsgd_explorer.web.hub.chapters.table import CHAPTERS

CODE = CHAPTERS["per-sample-gradients"].folder
BOUND, RATE, EXPECTED = 2.0, 0.5, 7


@pytest.fixture(scope="module")
def private_step():
    return runpy.run_path(str(CODE / "code_loop.py"))["private_step"]


def problem(size):
    torch.manual_seed(1)
    layers = [nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)]
    model = nn.Sequential(*layers).double()
    inputs = torch.randn(size, 6, dtype=torch.float64)
    return model, 3 * inputs, torch.randint(3, (size,))


def changes(model, before):
    return [p.detach() - b for p, b in zip(model.parameters(), before, strict=True)]


def stepped(step, size):
    """Return how one step of the function moves the parameters."""
    model, inputs, targets = problem(size)
    before = [p.detach().clone() for p in model.parameters()]
    step(model, inputs, targets)
    return changes(model, before)


def engine_step(engine):
    def step(model, inputs, targets):
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        PrivacyEngine(
            model,
            batch_size=EXPECTED,
            sample_size=100,
            steps=1,
            noise_multiplier=0.0,
            max_grad_norm=BOUND,
            clipping_fn="Abadi",
            sampling="unchecked",
            engine=engine,
        ).attach(optimizer)
        cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


def by_hand(private_step, noise_multiplier):
    def step(model, inputs, targets):
        private_step(
            model,
            inputs,
            targets,
            bound=BOUND,
            noise_multiplier=noise_multiplier,
            expected_batch_size=EXPECTED,
            rate=RATE,
        )

    return step


def test_the_step_by_hand_and_the_engine_give_the_same_weights():
    folder = CHAPTERS["dpsgd-intro"].folder
    hand, engine = (
        runpy.run_path(str(folder / name))["private_step"]
        for name in ("code_by_hand.py", "code_by_engine.py")
    )

    def plain(model, inputs, targets):
        batch = list(zip(inputs, targets, strict=True))
        hand(model, cross_entropy, batch, BOUND, 0.0, RATE, EXPECTED)

    def attached(model, inputs, targets):
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        plan = {
            "batch_size": EXPECTED,
            "sample_size": 100,
            "steps": 1,
            "noise_multiplier": 0.0,
            "max_grad_norm": BOUND,
            "clipping_fn": "Abadi",
            "sampling": "unchecked",
        }
        engine(model, cross_entropy, inputs, targets, optimizer, plan)

    moved = stepped(plain, 9)
    for mine, engines in zip(moved, stepped(attached, 9), strict=True):
        torch.testing.assert_close(mine, engines, rtol=1e-10, atol=1e-12)

    seeds = iter(range(40))

    def noisy(model, inputs, targets):
        torch.manual_seed(next(seeds))  # ``problem`` sets one seed
        batch = list(zip(inputs, targets, strict=True))
        hand(model, cross_entropy, batch, BOUND, 3.0, RATE, EXPECTED)

    spread = RATE * 3.0 * BOUND / EXPECTED
    draws = [
        (one - mean).flatten() / spread
        for _ in range(40)
        for one, mean in zip(stepped(noisy, 9), moved, strict=True)
    ]
    assert torch.cat(draws).std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_loop_by_hand_moves_as_the_engine_does(private_step, engine):
    own = stepped(by_hand(private_step, 0.0), 9)
    theirs = stepped(engine_step(engine), 9)
    for mine, engines in zip(own, theirs, strict=True):
        torch.testing.assert_close(mine, engines, rtol=1e-10, atol=1e-12)
    _, inputs, targets = problem(9)
    norms = per_sample_gradients(problem(9)[0], cross_entropy, inputs, targets)
    lengths = sum(g.flatten(1).square().sum(1) for g in norms.values()).sqrt()
    assert lengths.min() < BOUND < lengths.max(), "some are clipped, and not all"


@pytest.mark.parametrize("size", [0, 1])
def test_the_loop_by_hand_takes_batches_that_are_empty_or_of_one(private_step, size):
    moved = stepped(by_hand(private_step, 0.0), size)
    length = math.sqrt(sum(float(m.square().sum()) for m in moved))
    assert length <= RATE * BOUND / EXPECTED * (1 + 1e-12)
    assert (length > 0) == bool(size)


def test_the_loop_by_hand_adds_noise_of_sigma_c_to_the_sum_once(private_step):
    """An empty batch moves by noise alone, every entry by its own; seeded."""
    model = nn.Linear(200, 100)
    before = [p.detach().clone() for p in model.parameters()]
    torch.manual_seed(3)
    step = by_hand(private_step, 1.5)
    step(model, torch.zeros(0, 200), torch.zeros(0, dtype=torch.long))
    moved = torch.cat([c.flatten() for c in changes(model, before)])
    expected = RATE * 1.5 * BOUND / EXPECTED
    variance = float(moved.square().mean()) / expected**2
    assert abs(variance - 1) < 5 * math.sqrt(2 / len(moved))
    assert len(moved.unique()) > 0.9 * len(moved)


def test_hooks_and_einsum_give_the_gradients_of_the_loop():
    """The hooks see every position; the listing itself compares with the loop."""
    seen = runpy.run_path(str(CODE / "code.py"))
    assert seen["largest"] < 1e-5
    model, inputs, targets = (seen[name] for name in ("model", "inputs", "targets"))
    rows = per_sample_gradients(model, cross_entropy, inputs, targets)
    for name, parameter in model.named_parameters():
        own = seen["gradients"][parameter]
        torch.testing.assert_close(own, rows[name], rtol=1e-4, atol=1e-6)


def test_the_hooks_of_the_listing_add_up_positions_within_a_record():
    seen = runpy.run_path(str(CODE / "code.py"))
    torch.manual_seed(2)
    layer, inputs = nn.Linear(4, 3), torch.randn(5, 6, 4, requires_grad=True)
    layer.register_forward_hook(seen["save_activations"])
    layer.register_full_backward_hook(seen["take_outer_products"])
    layer(inputs).square().sum().backward()
    own = seen["take_outer_products"].__globals__["gradients"][layer.weight]
    for n in range(5):
        loss = nn.functional.linear(inputs[n], layer.weight, layer.bias).square().sum()
        [alone] = torch.autograd.grad(loss, layer.weight)
        torch.testing.assert_close(own[n], alone, rtol=1e-4, atol=1e-5)


def test_the_unfolded_convolution_gives_the_gradients_of_the_engine():
    """The listing itself compares with a loop over the records."""
    seen = runpy.run_path(str(CODE / "code_unfold.py"))
    assert seen["largest"] < 1e-5
    model = nn.Conv2d(3, 5, 3, padding=1, bias=False)
    model.weight.data.copy_(seen["kernel"].detach())
    targets = torch.zeros(len(seen["inputs"]))
    rows = per_sample_gradients(
        model, lambda y, _: y.square().sum(), seen["inputs"], targets
    )
    torch.testing.assert_close(seen["gradients"], rows["weight"], rtol=1e-4, atol=1e-3)
