"""What a receipt says of a run beside its figures: it may make epsilon too small."""

import copy
import warnings

import pytest
import torch
from torch import optim

from dpsgd_explorer.accounting.batch_sizes import are_of_one_size
from dpsgd_explorer.audit.receipts.verification import verify_receipt
from dpsgd_explorer.dp import ParameterAverage, PrivacyEngine
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.dp.ledger import seeds
from dpsgd_explorer.errors import PrivacyWarning
from tests.dp.nets import POISSON, attached, backward, case, data, linear, step

AT_STEP = pytest.mark.parametrize(
    "engine", [name for name, each in ENGINES.items() if not each.releases_in_backward]
)


def refit_head(net, optimizer, own):
    x, y = data()
    targets = torch.nn.functional.one_hot(y, 3).float()
    net.weight.data.copy_(torch.linalg.lstsq(x, targets).solution.T)


def plain_step(net, optimizer, own):
    own.detach()
    step(net, optimizer, *data())
    optimizer.zero_grad()
    own.attach(optimizer)


def rewind(net, optimizer, own):
    net.load_state_dict(linear().state_dict())


def other_memory(net, optimizer, own):
    net.bias.data = torch.ones(3)


WRITES = [refit_head, plain_step, rewind, other_memory]


class Lookahead:
    """Every ``every`` steps, moves slow weights halfway to the weights, and back."""

    def __init__(self, optimizer, every=2):
        self.optimizer, self._every, self._steps = optimizer, every, 0
        self._parameters = optimizer.param_groups[0]["params"]
        self._slow = [p.detach().clone() for p in self._parameters]

    def step(self):
        self.optimizer.step()
        self.synchronize()

    def zero_grad(self):
        self.optimizer.zero_grad()

    def synchronize(self, *_):
        self._steps += 1
        if self._steps % self._every:
            return
        with torch.no_grad():
            for slow, p in zip(self._slow, self._parameters, strict=True):
                p.copy_(slow.lerp_(p, 0.5))


@AT_STEP
@pytest.mark.parametrize("is_hook", [False, True])
def test_a_wrapper_that_writes_weights_is_told_how_to_make_it_part_of_the_step(
    engine, is_hook
):
    net = linear()
    optimizer = optim.SGD(net.parameters(), lr=0.5)
    lookahead = Lookahead(optimizer)
    if is_hook:  # as the warning advises
        optimizer.register_step_post_hook(lookahead.synchronize)
    own = PrivacyEngine(net, **POISSON, steps=5, engine=engine)
    own.attach(optimizer if is_hook else lookahead)
    used = optimizer if is_hook else lookahead
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for x, y in own.poisson_loader(data()).all_epochs():
            step(net, used, x, y)
            used.zero_grad()
    told = [str(each.message) for each in caught]
    written = own.receipt().get("warnings", [])
    if is_hook:
        assert (told, written) == ([], [])
        return
    assert len(told) == 1
    assert "epsilon holds" in told[0]
    assert "register_step_post_hook before attach()" in told[0]
    assert any("changed 2 times outside" in line for line in written)


@AT_STEP
@pytest.mark.parametrize("write", WRITES)
def test_weights_that_are_written_outside_the_steps_are_recorded(engine, write):
    net = linear()
    own = PrivacyEngine(net, **POISSON, steps=5, engine=engine)
    optimizer = optim.SGD(net.parameters(), lr=0.5)
    own.attach(optimizer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for i, (x, y) in enumerate(own.poisson_loader(data())):
            step(net, optimizer, x, y)
            optimizer.zero_grad()
            if i in (1, 3):
                write(net, optimizer, own)
    found = [w for w in caught if "outside the optimizer" in str(w.message)]
    assert len(found) == 1  # though it happened twice
    receipt = own.receipt()
    assert receipt["warnings"] == [
        "parameters were changed 2 times outside the optimizer's steps"
    ]
    assert not verify_receipt(receipt).wrong
    again = PrivacyEngine(net, **POISSON, steps=5, engine=engine)
    again.load_state_dict(own.state_dict())
    assert again.receipt()["warnings"] == receipt["warnings"]


@AT_STEP
@pytest.mark.parametrize("name", ["mlp", "convolutions", "tokens", "branches"])
def test_honest_runs_have_no_warnings(engine, name):
    net, x, y = case(name)
    net = net.to(memory_format=torch.channels_last) if name == "convolutions" else net
    own, optimizer = attached(
        net, engine=engine, noise_multiplier=1.0, noise="secure", seed=None
    )
    average = ParameterAverage(net)
    for _ in range(3):
        step(net, optimizer, x, y)
        optimizer.zero_grad()
        average.update()
        with average.in_use(), torch.no_grad():
            net(x)
    saved = copy.deepcopy(net.state_dict()), own.state_dict()
    step(net, optimizer, x, y)
    optimizer.zero_grad()
    own.detach()
    own.attach(optimizer)
    net.load_state_dict(saved[0])
    own.load_state_dict(saved[1])
    step(net, optimizer, x, y)
    assert "warnings" not in own.receipt()


def test_a_seed_of_two_runs_is_recorded_and_of_one_run_again_is_not():
    assert not seeds.record(987_654, "a")
    assert not seeds.record(987_654, "a")
    first = linear(), linear(), linear()

    def run(net, **options):
        own, optimizer = attached(net, noise_multiplier=1.0, seed=321_987, **options)
        step(net, optimizer, *data(6))
        return own

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own, again = run(first[0]), run(first[1])
    assert "warnings" not in own.receipt() | again.receipt()
    with pytest.warns(PrivacyWarning, match="another run in this process"):
        other = run(first[2], max_grad_norm=2.0)
    receipt = other.receipt()
    assert receipt["warnings"] == [
        "another run in the same process used the same seed for its noise"
    ]
    assert not verify_receipt(receipt).wrong


def fixed(size, batches, last=None):
    """Return an engine after an epoch of batches of one size, but for the last."""
    net = linear()
    own, optimizer = attached(
        net,
        batch_size=20,
        sample_size=200,
        noise_multiplier=1.0,
        noise="secure",
        seed=None,
        steps=60,
    )
    for i in range(batches):
        rows = last if last and i % 11 == 10 else size
        backward(net, *data(rows))
        optimizer.step()
        optimizer.zero_grad()
    return own


@pytest.mark.parametrize(("batches", "last"), [(10, None), (22, 10)])
def test_batches_of_a_fixed_size_are_not_poisson(batches, last):
    own = fixed(20, batches, last)
    with pytest.warns(PrivacyWarning, match="batches had exactly 20 samples; with"):
        assert own.get_epsilon(assume_poisson=True) > 0
    receipt = own.receipt()
    (line,) = receipt["warnings"]
    assert line.endswith("batches had exactly 20 samples, unlike Poisson samples")
    assert not verify_receipt(receipt).wrong


def test_true_poisson_samples_are_not_called_fixed():
    assert "warnings" not in vouched(fixed(20, 4)).receipt()
    net = linear()
    own = PrivacyEngine(net, **POISSON, steps=5)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    own.attach(optimizer)
    for x, y in own.poisson_loader(data()):
        step(net, optimizer, x, y)
        optimizer.zero_grad()
    assert "warnings" not in vouched(own).receipt()


def vouched(own):
    own.get_epsilon(assume_poisson=True)
    return own


@pytest.mark.parametrize("equal", range(0, 31, 5))
def test_the_bound_on_equal_sizes_is_above_what_sampling_gives(equal):
    """By simulation: a share that is seen often is never called unlikely."""
    torch.manual_seed(0)
    own = fixed(20, 1)
    sizes = torch.distributions.Binomial(200, torch.tensor(0.1)).sample((20_000, 30))
    most = (sizes == sizes.mode(1).values[:, None]).sum(1)
    share = float((most >= equal).double().mean())
    assert share < 1e-3 or not are_of_one_size(
        equal, 30, sample_size=own.plan.sample_size, sample_rate=own.plan.sample_rate
    )


def test_a_warning_names_the_line_of_the_training_loop():
    net, x, y = case("mlp")
    attached(net, noise_multiplier=1.0)
    weights = torch.ones(len(x), requires_grad=True)
    losses = torch.nn.functional.cross_entropy(net(x), y, reduction="none")
    with pytest.warns(PrivacyWarning, match="the loss must be") as caught:
        ((weights * losses).sum() / weights.sum()).backward()
    assert [warning.filename for warning in caught] == [__file__]
