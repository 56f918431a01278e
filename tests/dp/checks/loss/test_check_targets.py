"""The check's own targets and masks: all classes, ignored ones, and zeros."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dpsgd_explorer.dp import per_sample_mean
from dpsgd_explorer.dp.modules.probe_inputs import (
    IGNORE_INDEX,
    draws_of_all_classes,
    random_targets,
)
from dpsgd_explorer.errors import UnsupportedModuleError
from tests.dp.loss_cases import masked_mean, masked_tokens
from tests.dp.nets import attached

MANY = 40


def engine_with(net, inputs, targets, loss_fn):
    example = {"example_inputs": (inputs, targets), "loss_fn": loss_fn}
    return attached(net, noise_multiplier=1.0, **example)[0]


class Tokens(nn.Module):
    """Scores of fewer classes than there are tokens."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)


def tokens():
    return torch.randn(5, 7, 4), torch.randint(0, 3, (5, 7))


def over_tokens(out, y):
    return F.cross_entropy(out.transpose(1, 2), y)


ACCEPTED = {
    "classes": (lambda: nn.Linear(4, 3), torch.randn(5, 4), F.cross_entropy),
    "tokens": (Tokens, torch.randn(5, 7, 4), over_tokens),
    "tokens by per_sample_mean": (Tokens, torch.randn(5, 7, 4), masked_tokens),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_loss_for_as_many_samples_is_accepted_with_its_example(name):
    make, x, loss_fn = ACCEPTED[name]
    engine_with(make(), x, torch.randint(0, 3, x.shape[:-1]), loss_fn)


def test_a_mean_over_targets_that_are_not_ignored_is_refused():
    with pytest.raises(UnsupportedModuleError, match="per_sample_mean"):
        engine_with(Tokens(), *tokens(), masked_mean)


def rare_class(out, y):
    """A mean over weights of classes; all but one are 1."""
    weights = 1 + 99 * (y == MANY - 1)
    losses = F.cross_entropy(out, y, reduction="none")
    return (weights * losses).sum() / weights.sum()


def test_a_loss_that_mixes_samples_of_one_class_in_forty_is_refused():
    net, targets = nn.Linear(4, MANY), torch.zeros(5).long()
    with pytest.raises(UnsupportedModuleError, match=r"one sample (moves|changes)"):
        engine_with(net, torch.randn(5, 4), targets, rare_class)


def by_share(of):
    """Return a loss with a weight for each record, by a share of the targets."""

    def loss(out, y):
        share = of(y).float().mean().clamp(0.01, 0.99)
        weights = torch.where(of(y), 1 / share, 1 / (1 - share))
        return (weights * (out - y).square()).mean()

    return loss


SHARES = {
    "ones": lambda y: y == 1,
    "zeros": lambda y: y == 0,
    "positive": lambda y: y > 0,
    "negative": lambda y: y < 0,
    "large": lambda y: y > 0.5,
}


@pytest.mark.parametrize("name", SHARES)
@pytest.mark.parametrize("shape", [(5, 1), (5, 3)])
def test_weights_by_a_share_of_numbers_are_refused(name, shape):
    net, x = nn.Linear(4, shape[1]), torch.randn(5, 4)
    with pytest.raises(UnsupportedModuleError, match=r"one sample (moves|changes)"):
        engine_with(net, x, torch.rand(shape), by_share(SHARES[name]))


NUMBER_LOSSES = {
    "squares": F.mse_loss,
    "absolute": F.l1_loss,
    "logits": F.binary_cross_entropy_with_logits,
    "shares": lambda out, y: F.binary_cross_entropy(out.sigmoid(), y),
    "counts": lambda out, y: F.poisson_nll_loss(out, y, full=True),
    "divergence": lambda out, y: (
        F.kl_div(F.logsigmoid(out), y, reduction="none").sum(1).mean()
    ),
    "logarithms": lambda out, y: F.mse_loss(out, y.log()),
    "roots": lambda out, y: F.mse_loss(out, y.sqrt()),
}


@pytest.mark.parametrize("name", NUMBER_LOSSES)
def test_losses_of_numbers_are_accepted_whatever_targets_they_take(name):
    net, x = nn.Linear(4, 3), torch.randn(5, 4)
    engine_with(net, x, torch.rand(5, 3), NUMBER_LOSSES[name])


@pytest.mark.parametrize("shape", [(5,), (5, 7)])
def test_the_draws_go_through_all_classes(shape):
    outputs = torch.zeros(3, *shape[1:], MANY).movedim(-1, 1)
    example = torch.zeros(shape).long(), 5, outputs
    count = draws_of_all_classes(*example)
    seen = torch.cat([random_targets(*example, i).flatten() for i in range(count)])
    assert seen.unique().tolist() == list(range(MANY))


class MaskedMean(nn.Module):
    """Divides by the number of tokens that count, in the batch or in the record."""

    def __init__(self, over):
        super().__init__()
        self.layer, self.over = nn.Linear(4, 3), over

    def forward(self, x, mask):
        kept = self.layer(x) * mask[..., None]
        count = mask.sum(self.over, keepdim=True) / (1 if self.over == 1 else len(x))
        return kept.sum(1) / count.clamp(min=1)


@pytest.mark.parametrize("engine", ["hooks", "extending", "microbatch"])
def test_a_masked_mean_over_the_batch_is_refused_and_over_the_record_is_not(engine):
    x, mask = torch.randn(5, 6, 4), torch.ones(5, 6).bool()
    within = MaskedMean(1)
    attached(within, engine=engine)
    within(x, mask)
    over = MaskedMean((0, 1))
    attached(over, engine=engine)
    with pytest.raises(UnsupportedModuleError, match=r"mixes the samples|do not add"):
        over(x, mask)


class Attention(nn.Module):
    """Attends to what the padding mask leaves."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)

    def forward(self, x, mask):
        return self.layer(x, src_key_padding_mask=mask).sum(1)


def test_padding_masks_of_attention_are_accepted():
    net = Attention()
    attached(net)
    net(torch.randn(5, 6, 4), torch.zeros(5, 6).bool())


class Classifier(nn.Module):
    """Returns its loss and its scores, as the models of transformers do."""

    def __init__(self, classes, loss=F.cross_entropy):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 6), nn.Linear(6, classes)
        self.loss = loss

    def forward(self, ids, labels):
        scores = self.head(self.embedding(ids).mean(1))
        return self.loss(scores, labels), scores


@pytest.mark.parametrize("engine", ["hooks", "extending"])
def test_labels_given_to_the_module_have_its_classes(engine):
    net = Classifier(classes=2)
    engine, optimizer = attached(net, engine=engine, noise_multiplier=1.0)
    ids, labels = torch.randint(0, 11, (4, 9)), torch.tensor([0, 1, 1, 0])
    net(ids, labels)[0].backward()
    optimizer.step()
    assert engine.get_epsilon(assume_poisson=True) > 0


def mean_of_counted(scores, labels):
    counted = labels != IGNORE_INDEX
    losses = F.cross_entropy(scores, labels, reduction="none")
    return (losses * counted).sum() / counted.sum()


def test_a_module_that_leaves_ignored_labels_out_of_its_mean_is_refused():
    net = Classifier(2, mean_of_counted)
    attached(net)
    with pytest.raises(UnsupportedModuleError, match="mixes the samples"):
        net(torch.randint(0, 11, (4, 9)), torch.tensor([0, 1, 1, 0]))


def test_a_module_that_takes_the_mean_of_each_sample_is_accepted():
    def counted(scores, labels):
        losses = F.cross_entropy(scores, labels, reduction="none")
        return per_sample_mean(losses, labels != IGNORE_INDEX)

    net = Classifier(2, counted)
    engine, optimizer = attached(net, noise_multiplier=1.0)
    labels = torch.tensor([0, 1, IGNORE_INDEX, 0])
    net(torch.randint(0, 11, (4, 9)), labels)[0].backward()
    optimizer.step()
    assert engine.get_epsilon(assume_poisson=True) > 0


def test_an_example_with_ignored_targets_changes_nothing():
    x, y = tokens()
    y[1, 3:] = IGNORE_INDEX
    engine = engine_with(Tokens(), x, y, over_tokens)
    with pytest.raises(UnsupportedModuleError, match="per_sample_mean"):
        over_tokens(engine.module(x), y).backward()
    engine.detach()
