"""A loss that cannot be read: said at the first backward, measured, or vouched for."""

import math
import warnings

import pytest
import torch

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.errors import PrivacyError, PrivacyWarning, UnsupportedModuleError
from tests.dp.nets import POISSON, linear

SIZE, CLASSES = 40, 3
MEASURED = "measured at attach, with the same operations at every backward"


def jaccard(out, y):
    """A loss that cannot be told from a weighted one by its graph."""
    chances = out.sigmoid()
    both = (chances * y).sum(1)
    return (1 - (both + 1) / (chances.sum(1) + y.sum(1) - both + 1)).mean()


def weighted(out, y):
    """Its operations are those of a mean of products; its weights are the batch's."""
    return (out.sigmoid() * (y / y.mean(0))).mean()


def unweighted(out, y):
    return (out.sigmoid() * y).mean()


def records():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SIZE, 4, generator=generator)
    return x, torch.randint(0, 2, (SIZE, CLASSES), generator=generator).float()


def started(loss_fn=None, **options):
    """Return (engine, optimizer), attached; with the loss measured if it is given."""
    x, y = records()
    example = {} if loss_fn is None else {"example_inputs": (x[:4], y[:4])}
    given = {"steps": 5, "noise": "seeded", "seed": 3, "loss_fn": loss_fn}
    net = linear()
    engine = PrivacyEngine(net, **POISSON | given | example | options)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    engine.attach(optimizer)
    return engine, optimizer


def trained(loss, **options):
    engine, optimizer = started(**options)
    for x, y in engine.poisson_loader(records()).all_epochs():
        loss(engine.module(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return engine


@pytest.mark.parametrize("kind", ["hooks", "extending", "vmap", "microbatch"])
def test_what_cannot_be_read_is_said_at_the_first_backward_and_once(kind):
    engine, optimizer = started(engine=kind)
    loader = engine.poisson_loader(records())
    said = []
    for x, y in loader:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            jaccard(engine.module(x), y).backward()
        of_loss = [w for w in caught if "the loss must be" in str(w.message)]
        assert all(issubclass(w.category, PrivacyWarning) for w in of_loss)
        said.append(of_loss)
        optimizer.step()
        optimizer.zero_grad()
    assert [len(each) for each in said] == [1, 0, 0, 0, 0]
    message = str(said[0][0].message)
    for part in ("multiplied or divided by a tensor", "per_sample_mean", "loss_fn"):
        assert part in message
    with pytest.raises(PrivacyError, match="example_inputs and loss_fn"):
        engine.get_epsilon()


def test_a_loss_that_was_measured_counts_as_measured():
    engine = trained(jaccard, loss_fn=jaccard)
    assert 0 < engine.get_epsilon() < math.inf
    assert engine.receipt()["loss"] == MEASURED


def test_another_loss_than_the_measured_one_is_not_measured():
    with pytest.warns(PrivacyWarning, match="cannot confirm"):
        engine = trained(jaccard, loss_fn=unweighted)
    with pytest.raises(PrivacyError, match="per_sample_mean"):
        engine.get_epsilon()


def test_a_loss_that_mixes_is_refused_when_it_is_measured():
    with pytest.raises(UnsupportedModuleError, match="the loss mixes"):
        started(weighted)


def test_evidence_of_mixing_in_training_is_no_matter_of_measurement():
    """The loss was measured, but this one softens its scores over the batch."""
    with pytest.warns(PrivacyWarning, match="over the samples"):
        engine = trained(lambda out, y: (out.softmax(0) * y).mean(), loss_fn=jaccard)
    with pytest.raises(PrivacyError, match="over the samples"):
        engine.get_epsilon()


def test_a_resumed_run_remembers_how_its_loss_was_measured():
    first = trained(jaccard, loss_fn=jaccard)
    again, _ = started(jaccard)
    again.load_state_dict(first.state_dict())
    assert again.receipt()["loss"] == MEASURED
    assert again.get_epsilon() == first.get_epsilon()


def test_a_resumed_run_goes_on_with_its_measured_loss():
    first, second = trained(jaccard, loss_fn=jaccard, steps=5), None
    state = first.state_dict()
    second, optimizer = started(jaccard)
    state["sampler"]["position"] = 3  # two steps are repeated
    second.load_state_dict(state)
    for x, y in second.poisson_loader(records()):
        jaccard(second.module(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert second.receipt()["loss"] == MEASURED


def test_the_caller_may_vouch_from_the_start():
    engine = trained(jaccard, assume_per_sample_loss=True)
    assert 0 < engine.get_epsilon() < math.inf
    assert "the caller vouched for it" in engine.receipt()["loss"]


def test_nothing_is_said_of_a_run_without_noise():
    engine = trained(jaccard, noise_multiplier=0.0)
    assert engine.get_epsilon() == math.inf
