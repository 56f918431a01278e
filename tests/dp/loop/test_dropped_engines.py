"""An engine that is dropped without detach() leaves nothing installed."""

import gc
import weakref

import pytest
from torch.autograd import Variable

from dpsgd_explorer.dp.kernels.heap import HEAP
from dpsgd_explorer.dp.losses.watch import WATCH
from dpsgd_explorer.dp.options import ENGINES
from tests.dp.nets import attached, case, step


@pytest.mark.parametrize("engine", sorted(ENGINES))
@pytest.mark.parametrize("steps", [0, 2])
def test_nothing_is_left_of_a_dropped_engine(engine, steps):
    gc.collect()
    before, asked = WATCH._watching, len(HEAP._asked)  # by other tests' engines
    net, x, y = case("mlp")
    own, optimizer = attached(net, engine=engine)
    for _ in range(steps):
        step(net, optimizer, x, y)
        optimizer.zero_grad()
    assert WATCH._watching == before + 1
    watching = Variable._execution_engine
    gone = weakref.ref(own), weakref.ref(net), weakref.ref(optimizer)
    del own, net, optimizer
    gc.collect()
    assert [each() for each in gone] == [None] * 3
    assert WATCH._watching == before
    assert before or type(Variable._execution_engine) is not type(watching)
    assert len(HEAP._asked) == asked
