"""An engine that is dropped without detach() leaves nothing installed."""

import gc
import weakref

import pytest
import torch.nn.functional as F
from torch.autograd import Variable

from dpsgd_explorer.dp.backends.heap import HEAP
from dpsgd_explorer.dp.checks.loss.watch import WATCH
from dpsgd_explorer.dp.config import ENGINES
from dpsgd_explorer.errors import MixedLossError
from tests.dp.nets import attached, case, step


def attached_engines():
    """Return how many engines are attached once all garbage is collected."""
    count = None
    while count != (count := WATCH._watching):
        gc.collect()  # one collection may leave what it frees to the next
    return count


@pytest.mark.parametrize("engine", sorted(ENGINES))
@pytest.mark.parametrize("steps", [0, 2])
@pytest.mark.parametrize("last", ["step", "forward", "refused backward"])
def test_nothing_is_left_of_a_dropped_engine(engine, steps, last):
    before, asked = attached_engines(), len(HEAP._applied)  # those of other tests
    net, x, y = case("mlp")
    own, optimizer = attached(net, engine=engine)
    for _ in range(steps):
        step(net, optimizer, x, y)
        optimizer.zero_grad()
    if last != "step":
        y[0] = -100  # which F.cross_entropy leaves out of its mean
        loss = F.cross_entropy(net(x), y)
        if last == "refused backward":
            with pytest.raises(MixedLossError):
                loss.backward()
        del loss
    assert WATCH._watching == before + 1
    watching = Variable._execution_engine
    gone = weakref.ref(own), weakref.ref(net), weakref.ref(optimizer)
    del own, net, optimizer
    gc.collect()
    assert [each() for each in gone] == [None] * 3
    assert WATCH._watching == before
    assert before or type(Variable._execution_engine) is not type(watching)
    assert len(HEAP._applied) == asked
