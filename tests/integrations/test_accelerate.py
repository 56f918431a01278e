"""accelerate prepares model and optimizer before or after ``attach``."""

from functools import cache

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dpsgd_explorer import dp
from dpsgd_explorer.errors import PrivacyError, UnsupportedModuleError

accelerate = pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")

WORDS, LENGTH, COUNT = 30, 6, 8


@pytest.fixture(autouse=True)
def _without_shared_state():
    """accelerate holds the precision of the first Accelerator of a process."""
    yield
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)


def llama(attention="sdpa"):
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=WORDS,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            attn_implementation=attention,
            use_cache=False,
        )
    )


def data():
    torch.manual_seed(1)
    return (torch.randint(WORDS, (COUNT, LENGTH)),)


def engine_of(module, engine="hooks"):
    return dp.PrivacyEngine(
        module,
        batch_size=2,
        sample_size=COUNT,
        steps=4,
        noise_multiplier=0.5,
        noise="seeded",
        seed=1,
        engine=engine,
    )


def train(engine, module, optimizer, backward=torch.Tensor.backward):
    for (ids,) in engine.poisson_loader(data()).all_epochs():
        if len(ids):
            logits = module(input_ids=ids).logits[:, :-1]
            losses = cross_entropy(
                logits.transpose(1, 2).float(), ids[:, 1:], reduction="none"
            )
            backward(dp.per_sample_mean(losses))
        optimizer.step()
        optimizer.zero_grad()


@cache
def trained_without_accelerate(attention, engine_name):
    """Return the parameters at the end."""
    plain = llama(attention)
    plain_optimizer = torch.optim.SGD(plain.parameters(), lr=0.5)
    engine = engine_of(plain, engine_name)
    engine.attach(plain_optimizer)
    train(engine, plain, plain_optimizer)
    return [p.detach() for p in plain.parameters()]


@pytest.mark.filterwarnings("ignore:another run in this process")
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("precision", ["no", "bf16"])
@pytest.mark.parametrize(
    ("attention", "engine_name"),
    [("sdpa", "hooks"), ("eager", "hooks"), ("eager", "microbatch")],
)
def test_prepare_before_or_after_attach(order, precision, attention, engine_name):
    module = llama(attention)
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision=precision)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    if order == "before":
        prepared, prepared_optimizer = accelerator.prepare(module, optimizer)
        own = engine_of(prepared, engine_name)
        own.attach(prepared_optimizer)
    else:
        own = engine_of(module, engine_name)
        own.attach(optimizer)
        prepared, prepared_optimizer = accelerator.prepare(module, optimizer)
    train(own, prepared, prepared_optimizer, accelerator.backward)
    if (order, precision, engine_name) == ("after", "bf16", "microbatch"):
        with pytest.raises(PrivacyError, match="could not confirm"):
            own.get_epsilon()  # accelerate converts what the engine has put together
    else:
        assert own.get_epsilon() == own.plan.epsilon()
    tolerance = 1e-6 if precision == "no" else 0.02
    plain = trained_without_accelerate(attention, engine_name)
    for p, expected in zip(module.parameters(), plain, strict=True):
        torch.testing.assert_close(p, expected, rtol=0, atol=tolerance)


class Mixing(nn.Module):
    """Takes a little of the mean over the batch."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        hidden = self.first(x)
        return self.second(hidden - 0.1 * hidden.mean(0))


def test_mixing_is_found_where_a_module_switches_autocast_on():
    accelerator = accelerate.Accelerator(cpu=True, mixed_precision="bf16")
    module = Mixing()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    module, optimizer = accelerator.prepare(module, optimizer)
    engine_of(module).attach(optimizer)
    with pytest.raises(UnsupportedModuleError, match="mixes"):
        module(torch.randn(6, 8))
