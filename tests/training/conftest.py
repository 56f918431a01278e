import pytest

from dpsgd_explorer.experiments.training_config import TrainingConfig
from dpsgd_explorer.training import engine_comparison, timing

ADULT = {
    "dataset": "adult",
    "model": "logistic",
    "max_grad_norm": 0.5,
    "audit": 0,  # tests of it are in test_audit
}


@pytest.fixture
def adult():
    """Make a short configuration on the quickest data set."""

    def configure(**settings):
        noise = {} if "target_epsilon" in settings else {"noise_multiplier": 1.0}
        short = {"steps": 4, "evaluations": 2, "expected_batch_size": 64}
        return TrainingConfig.parse(ADULT | noise | short | settings)

    return configure


@pytest.fixture(scope="module")
def brief():
    """Time no longer than it takes to see that something was timed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_comparison, "TIMING_SECONDS", 0.0)
        patch.setattr(timing, "VISIT_SECONDS", 0.0)
        yield
