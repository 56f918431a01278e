"""Canaries that ride along: they change nothing, and prove most of the promise."""

import math

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp import AdaptiveClipping, PrivacyEngine, schedules
from dpsgd_explorer.dp.canaries.canaries import MAX_CANARIES
from dpsgd_explorer.dp.clipping.clipped_sum import ClippedSum
from dpsgd_explorer.dp.clipping.clipper import Clipper
from dpsgd_explorer.dp.noise.secure import SecureNoise
from dpsgd_explorer.dp.noise.seeded import SeededNoise
from dpsgd_explorer.errors import AccountingError, ConfigError, PrivacyError
from tests.dp.nets import UNREAD

RECORDS, DELTA = 200, 1e-5
ENGINES = ["hooks", "extending", "vmap", "microbatch"]


def made(audit, **options):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    settings = {
        "batch_size": RECORDS // 10,
        "sample_size": RECORDS,
        "target_epsilon": 4.0,
        "target_delta": DELTA,
        "steps": 60,
        "noise": "seeded",
        "seed": 5,
        "audit": audit,
    } | options
    if settings["noise"] == "secure":
        del settings["seed"]
    engine = PrivacyEngine(net, **settings)
    optimizer = torch.optim.SGD(net.parameters(), 0.5, momentum=0.9)
    engine.attach(optimizer)
    return engine, optimizer


def train(engine, optimizer, steps=None):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(RECORDS, 3, generator=generator)
    y = (x[:, 0] > 0).long()
    for done, (inputs, targets) in enumerate(
        engine.poisson_loader((x, y)).all_epochs(), start=1
    ):
        nn.functional.cross_entropy(engine.module(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        if done == steps:
            break
    return engine


def trained(audit, **options):
    return train(*made(audit, **options))


def scores(engine):
    return engine.state_dict()["riders"]["scores"]


ADAPTIVE = {"clipping_schedule": AdaptiveClipping(), "clipping_fn": "Abadi"}
REPLACED = {"audit_relation": "replace_one"}


@pytest.mark.parametrize(
    "options",
    [*({"engine": engine} for engine in ENGINES), ADAPTIVE, REPLACED],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_parameters_epsilon_and_receipt_are_the_same_with_canaries(options):
    """The bounds of adaptive clipping too: canaries are in no count."""
    alone, ridden = (trained(n, steps=8, **options) for n in (0, 50))
    pairs = zip(alone.module.parameters(), ridden.module.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)
    assert alone.get_epsilon() == ridden.get_epsilon()
    receipt = ridden.receipt() | {"audit": None}
    assert len(receipt.pop("warnings")) == 1  # the seed was that of the run before
    assert alone.receipt() == receipt
    assert alone.state_dict()["riders"] is None


@UNREAD
@pytest.mark.parametrize(
    "options",
    [
        {},
        ADAPTIVE,
        *(
            pytest.param(options, marks=pytest.mark.long("long statistics"))
            for options in (
                REPLACED,
                REPLACED | ADAPTIVE,
                REPLACED | {"batch_size": RECORDS},
                {"noise": "secure", "clipping_fn": "Abadi"},
                {"clipping_fn": "global", "clipping_threshold": 2.0},
                {"clipping_style": "layer-wise", "loss_reduction": "sum"},
                {"noise_schedule": schedules.Linear(2.0)},
                {"max_grad_norm": 1e-3},
                {"batch_size": RECORDS, "max_grad_norm": 1e3},
            )
        ),
    ],
    ids=lambda options: "-".join(options) or "usual",
)
def test_an_honest_run_is_proven_to_spend_most_of_its_promise(options):
    found = trained(5000, **options).audit()
    assert found.canaries == 5000
    assert found.steps == 60
    assert found.neighboring_relation == options.get(
        "audit_relation", "add_or_remove_one"
    )
    if found.neighboring_relation == "add_or_remove_one":
        assert found.epsilon_promised == pytest.approx(4.0, rel=1e-3)
    # A mean share of 0.9 at a deviation of some 0.04.
    assert 0.65 < found.epsilon_lower / found.epsilon_promised < 1.1


def test_canaries_are_clipped_to_the_bound_of_each_step():
    """With no noise to speak of, what is released is the bound itself."""
    engine, optimizer = made(40, clipping_schedule=schedules.Linear(0.5), steps=3)
    canaries, norms = engine._state.canaries, []

    def released(noise_plan, step, real=canaries.release):
        real(noise_plan, step)
        norms.append(float(canaries._clipped_norm(1e6)))

    canaries.release = released
    train(engine, optimizer)
    bounds = [line["max_grad_norm"] for line in engine.receipt()["done"]]
    assert len(set(bounds)) == 3
    assert norms == pytest.approx(bounds, rel=1e-4)


@pytest.mark.parametrize("options", [{}, ADAPTIVE, REPLACED], ids="-".join)
def test_a_resumed_run_has_the_same_scores(options):
    whole = trained(30, steps=12, **options)
    first, optimizer = made(30, steps=12, **options)
    train(first, optimizer, steps=5)
    state = first.state_dict()
    rest, rest_optimizer = made(30, steps=12, **options)
    rest.load_state_dict(state)
    rest.module.load_state_dict(first.module.state_dict())
    rest_optimizer.load_state_dict(optimizer.state_dict())
    assert rest.audit().steps == 5
    train(rest, rest_optimizer)
    assert torch.equal(scores(rest), scores(whole))
    assert rest.audit() == whole.audit()


def test_batches_in_parts_have_the_scores_of_whole_ones():
    whole, parts = (trained(30, steps=6, physical_batch_size=n) for n in (None, 7))
    assert torch.equal(scores(parts), scores(whole))


def test_empty_batches_are_steps_of_the_audit():
    """Of 4 records at a rate of 1/4, about a third of the batches is empty."""
    sizes = {"batch_size": 1, "sample_size": 4, "target_delta": 0.1, "steps": 30}
    engine, optimizer = made(40, **sizes)
    x, y = torch.randn(4, 3), torch.zeros(4).long()
    drawn = []
    for inputs, targets in engine.poisson_loader((x, y)).all_epochs():
        nn.functional.cross_entropy(engine.module(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        drawn.append(len(inputs))
    assert 0 in drawn
    assert engine.audit().steps == len(drawn) == 30


def test_a_state_of_another_relation_is_refused():
    state = trained(5, steps=2, **REPLACED).state_dict()
    with pytest.raises(ConfigError, match="saved audit_relation must be") as raised:
        made(5, steps=2)[0].load_state_dict(state)
    assert raised.value.field == "audit_relation"


def test_a_state_from_before_relations_continues():
    first, optimizer = made(30, steps=12)
    state = train(first, optimizer, steps=5).state_dict()
    for name in ("relation", "promised"):
        del state["riders"][name]
    rest, optimizer = made(30, steps=12)
    rest.load_state_dict(state)
    assert rest.audit() == first.audit()


def test_a_state_with_another_number_of_canaries_is_refused():
    state = trained(30, steps=2).state_dict()
    for count in (0, 31):
        with pytest.raises(ConfigError, match="saved audit must be") as raised:
            made(count, steps=2)[0].load_state_dict(state)
        assert raised.value.field == "audit"


@pytest.mark.parametrize(
    ("audit", "options", "words"),
    [
        (-1, {}, "from 0 to"),
        (MAX_CANARIES + 1, {}, "from 0 to"),
        (2.5, {}, "whole number, got 2.5"),
        (True, {}, "whole number, got True"),
        (10, {"noise_multiplier": 0.0, "target_epsilon": None}, "promises no epsilon"),
        (10, {"sampling": "unchecked"}, "the engine's own sampler"),
        ("10", {}, "whole number, got '10'"),
        (math.nan, {}, "whole number, got nan"),
    ],
)
def test_canaries_that_could_not_audit_are_refused(audit, options, words):
    with pytest.raises(ConfigError, match=words) as raised:
        made(audit, **options)
    assert raised.value.field == "audit"


@pytest.mark.parametrize("relation", ["replace", None, 1])
def test_an_unknown_relation_is_refused(relation):
    with pytest.raises(ConfigError, match="audit_relation must be one of") as raised:
        made(5, audit_relation=relation)
    assert raised.value.field == "audit_relation"


def test_an_audit_is_of_the_steps_so_far():
    engine, optimizer = made(3000)
    before = engine.audit()
    assert (before.steps, before.epsilon_lower, before.epsilon_promised) == (0, 0, 0)
    train(engine, optimizer, steps=10)
    found = engine.audit()
    assert found.steps == 10
    assert "of the 10 steps done" in str(found)
    assert found.epsilon_promised == pytest.approx(engine.get_epsilon(), rel=1e-6)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_canaries_prove_nothing(count):
    found = trained(count, steps=3).audit()
    assert found.epsilon_lower == 0.0
    assert found.too_few_canaries


def test_an_engine_without_canaries_says_how_to_get_some():
    with pytest.raises(PrivacyError, match="audit=2000"):
        made(0)[0].audit()


@pytest.mark.parametrize(
    ("delta", "confidence"), [(0.0, 0.9), (1.5, 0.9), (DELTA, 0.0), (DELTA, math.nan)]
)
def test_an_audit_outside_its_domain_is_refused(delta, confidence):
    with pytest.raises(AccountingError):
        trained(5, steps=1).audit(delta, confidence)


def half_noise(real, noise, values, standard_deviation, divisor):
    return real(noise, values, standard_deviation / 2, divisor)


def no_noise(real, noise, values, standard_deviation, divisor):
    square = values.square().sum()
    values /= divisor
    return square


def unclipped(real, clipper, squared, norms):
    return {name: torch.ones_like(norm) for name, norm in squared.items()}


def twice_the_bound(real, clipper, squared, norms):
    return {name: 2 * factor for name, factor in real(clipper, squared, norms).items()}


def noise_divided_twice(real, total, noise, standard_deviation, divisor):
    return real(total, noise, standard_deviation / divisor, divisor)


def trained_with(bug, place, name, monkeypatch, **options):
    """Plant a bug after the first step: the proof at attach sees those of clipping."""
    engine, optimizer = made(20_000, **{"steps": 30} | options)
    train(engine, optimizer, steps=1)
    real = getattr(place, name)
    monkeypatch.setattr(place, name, lambda *args: bug(real, *args))
    return train(engine, optimizer)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(REPLACED, id="replaced"),
        *(
            pytest.param(options, id=name, marks=pytest.mark.long("long statistics"))
            for name, options in {
                "adaptive": ADAPTIVE,
                "both": REPLACED | ADAPTIVE,
                "stairs": {"noise_schedule": schedules.Stairs(0.7, 10)},
                "each step": {"noise_schedule": schedules.Linear(2.0)},
            }.items()
        ),
    ],
)
def test_half_of_the_noise_is_seen_in_every_kind_of_run(options, monkeypatch):
    engine = trained_with(half_noise, SeededNoise, "add_to", monkeypatch, **options)
    assert engine.audit(confidence=1 - 1e-9).exceeds_promise


@pytest.mark.parametrize(
    "noise",
    ["seeded", pytest.param("secure", marks=pytest.mark.long("long statistics"))],
)
@pytest.mark.parametrize(
    ("place", "name", "bug"),
    [
        ("noise", "add_to", half_noise),
        ("noise", "add_to", no_noise),
        (Clipper, "factors", unclipped),
        (Clipper, "factors", twice_the_bound),
        (ClippedSum, "release", noise_divided_twice),
    ],
)
def test_a_planted_bug_is_proven_to_exceed_the_promise(
    place, name, bug, noise, monkeypatch
):
    if place == "noise":
        place = {"seeded": SeededNoise, "secure": SecureNoise}[noise]
    engine = trained_with(bug, place, name, monkeypatch, noise=noise)
    found = engine.audit(confidence=1 - 1e-9)
    assert found.exceeds_promise
    assert not math.isinf(found.epsilon_lower)
