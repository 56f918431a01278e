"""``DPCallback`` trains a module that ``torch.compile`` has wrapped."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from tests.integrations.lightning_runs import Classifier, fitted

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning")


class OneArgument(Classifier):
    def training_step(self, batch):
        inputs, targets = batch
        return cross_entropy(self.model(inputs), targets)


@pytest.mark.long("real runs")
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_a_compiled_module_trains(tmp_path):
    module = torch.compile(OneArgument(), backend="eager")
    callback, _ = fitted(tmp_path, module)
    assert callback.engine.get_epsilon() == callback.engine.plan.epsilon()
