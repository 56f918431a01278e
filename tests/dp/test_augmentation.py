"""Several views of each sample are averaged before clipping."""

import copy

import pytest
import torch
import torch.nn.functional as F

from dpsgd_explorer.dp.clipping.groups import CLIPPING_STYLES
from dpsgd_explorer.dp.functional import AveragedViews, views
from dpsgd_explorer.errors import ConfigError, PrivacyError
from tests.dp.engines.test_engines_agree import EXACT, loop_gradients
from tests.dp.nets import NETS, attached, case, step

K, C = 3, 0.3
ENGINES = ("hooks", "extending", "vmap")


def augmented(name):
    """Return a net, and inputs and targets with K different views of each sample."""
    net, x, y = case(name, samples=4 * K)
    return net, x, views(y[::K], K)


def gradients(net, x, y, **options):
    net = copy.deepcopy(net)
    engine, optimizer = attached(
        net,
        augmentation_multiplicity=K,
        max_grad_norm=C,
        clipping_fn="Abadi",
        **options,
    )
    step(net, optimizer, x, y)
    divisor = engine.plan.expected_batch_size
    return {n: p.grad * divisor for n, p in net.named_parameters() if p.requires_grad}


def expected(net, x, y):
    means = {
        name: rows.unflatten(0, (-1, K)).mean(1)
        for name, rows in loop_gradients(net, x, y).items()
    }
    norms = torch.cat([g.flatten(1) for g in means.values()], 1).norm(dim=1)
    assert norms.max() > C
    factors = (C / norms).clamp(max=1.0)
    return {n: torch.einsum("b,b...->...", factors, g) for n, g in means.items()}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NETS)
def test_the_mean_over_views_is_clipped(name, engine):
    net, x, y = augmented(name)
    actual = gradients(net, x, y, engine=engine)
    torch.testing.assert_close(actual, expected(net, x, y), **EXACT)


@pytest.mark.parametrize("name", NETS)
def test_samples_in_small_chunks_give_the_same_sum(name, monkeypatch):
    net, x, y = augmented(name)
    monkeypatch.setattr("dpsgd_explorer.dp.backends.torch.CHUNK_BYTES", 1)
    own, taken = AveragedViews.take, []
    monkeypatch.setattr(
        AveragedViews, "take", lambda each, index: taken.append(1) or own(each, index)
    )
    torch.testing.assert_close(gradients(net, x, y), expected(net, x, y), **EXACT)
    assert len(taken) >= 4


@pytest.mark.parametrize("style", CLIPPING_STYLES)
def test_a_sample_with_huge_views_stays_within_the_bound(style):
    net, x, y = augmented("mlp")
    own = gradients(net, x[:K] * 1e6, y[:K], clipping_style=style)
    norm = torch.cat([g.flatten() for g in own.values()]).norm().item()
    assert norm <= C * (1 + 1e-9)


def test_equal_views_are_one_sample():
    net, x, y = augmented("mlp")
    own = gradients(net, views(x[:4], K), views(y[::K], K))
    torch.testing.assert_close(
        own, expected(net, views(x[:4], K), views(y[::K], K)), **EXACT
    )


def test_samples_are_counted_not_views():
    net, x, y = augmented("mlp")
    engine, optimizer = attached(net, augmentation_multiplicity=K, max_grad_norm=C)
    step(net, optimizer, x, y)
    assert engine.diagnostics.batch_size == 4


def test_views_are_augmented_row_by_row():
    rows = views(
        torch.tensor([[1.0], [2.0]]), 2, lambda x: x + torch.arange(4)[:, None]
    )
    assert rows.flatten().tolist() == [1, 2, 4, 5]


def test_a_batch_of_other_views_is_refused():
    net, x, y = augmented("mlp")
    attached(net, augmentation_multiplicity=K)
    with pytest.raises(PrivacyError, match=r"3 views of each sample.*got 4 rows"):
        F.cross_entropy(net(x[:4]), y[:4]).backward()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"augmentation_multiplicity": 0}, "must be from 1 to"),
        ({"augmentation_multiplicity": 2, "engine": "microbatch"}, "another engine"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        attached(case("mlp")[0], **options)
