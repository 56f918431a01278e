"""One model trained by several processes: the result of one, and what ranks refuse."""

import math

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

from dpsgd_explorer.dp import PrivacyEngine
from dpsgd_explorer.dp.distributed.agreement import require_equal_replicas
from dpsgd_explorer.dp.distributed.ranks import Ranks
from dpsgd_explorer.errors import (
    ConfigError,
    PrivacyError,
    PrivacyWarning,
    UnsupportedModuleError,
)
from tests.dp.distributed import jobs
from tests.dp.distributed.measures import (
    MORE_SETTINGS,
    MOST,
    SETTINGS,
    TOLERANCE,
    correlation,
    distance,
    excess_variance,
)
from tests.dp.distributed.processes import ranks

UNLIKE = {
    "plan": "plan.steps must be the same on every rank of the group, got 0: 6, 1: 7",
    "options": "max_grad_norm must be the same on every rank",
    "seed": "seed must be the same on every rank of the group, got 0: 5, 1: 6",
    "model": "the model's 0.weight must be the same on every rank",
    "users": "user_ids must be the same on every rank",
    "data": "column 0 of the data set must be the same on every rank",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_two_ranks_train_as_one_process_does(two, name):
    assert distance(two, SETTINGS[name]) <= TOLERANCE


def test_a_wrapped_module_neither_averages_nor_waits(two):
    for options in ({}, {"engine": "extending"}):
        assert distance(two, options, wrapped=True) <= TOLERANCE


@pytest.mark.long("every combination")
@pytest.mark.parametrize("name", MORE_SETTINGS)
def test_two_ranks_train_as_one_process_does_in_every_way(two, name):
    assert distance(two, MORE_SETTINGS[name]) <= TOLERANCE


@pytest.mark.long("every combination")
@pytest.mark.parametrize("name", SETTINGS | MORE_SETTINGS)
def test_four_ranks_train_as_one_process_does(four, name):
    assert distance(four, (SETTINGS | MORE_SETTINGS)[name]) <= TOLERANCE


@pytest.mark.parametrize("bug", ["divided by W", "skipped sum"])
def test_bugs_in_the_sum_are_seen(two, bug):
    alone, *_ = jobs.trained()
    weights, *_ = two("trained", bug=bug)[0]
    assert float((weights - alone).abs().max()) > 100 * TOLERANCE


@pytest.mark.parametrize("kind", ["secure", "seeded"])
def test_noise_is_added_once_and_is_new_in_every_entry(two, kind):
    seed = {"secure": None, "seeded": 5}[kind]
    first, second = two("noise", size=2001, steps=10, noise=kind, seed=seed)
    assert torch.equal(first, second)
    assert abs(excess_variance(first)) < MOST
    half = math.ceil(first.shape[1] / 2)
    slices = first[:, : half - 1], first[:, half:]
    assert abs(correlation(*slices)) < MOST
    assert abs(correlation(first[1:], first[:-1])) < MOST


def test_the_same_noise_on_every_rank_is_seen(two):
    releases = two(
        "noise", size=2001, steps=10, noise="seeded", seed=5, bug="same seed"
    )
    half = math.ceil(2001 / 2)
    assert correlation(releases[0][:, : half - 1], releases[0][:, half:]) > MOST


def test_noise_before_the_sum_gives_no_receipt(two):
    for error in two("noise", size=2001, steps=10, bug="noise before the sum"):
        assert isinstance(error, PrivacyError)
        assert "noise" in str(error)


def test_ranks_that_draw_unlike_batches_make_no_step(two):
    for error in two("trained", noise="secure", seed=None, bug="no broadcast"):
        assert isinstance(error, PrivacyError)
        assert "different batches at step 1" in str(error)


def test_a_rank_that_skips_its_empty_batches_ends_the_run(two):
    options = {"records": 4, "batch_size": 1, "steps": 20, "net": "linear"}
    for error in two("trained", bug="skipped empty ranks", **options):
        assert isinstance(error, PrivacyError)
        assert "the ranks of the group" in str(error)


@pytest.mark.parametrize("what", UNLIKE)
def test_unlike_ranks_are_refused_before_the_first_step(two, what):
    for error in two("unlike", what=what):
        assert isinstance(error, ConfigError)
        assert UNLIKE[what] in str(error)


def test_parameters_that_drift_apart_end_the_run(two):
    for error in two("unlike", what="step"):
        assert isinstance(error, PrivacyError)
        assert "parameters differ before step" in str(error)


def test_a_record_with_an_infinite_gradient_is_left_out_on_its_rank(two):
    first, second = two("one_sample_is_infinite", batch_size=jobs.RECORDS)
    assert torch.equal(first, second)
    assert bool(first.isfinite().all())


@pytest.mark.long("real runs")
def test_a_run_goes_on_with_another_number_of_ranks(two, four, tmp_path):
    path = tmp_path / "state.pt"
    half = jobs.STEPS // 2
    four("saved", steps=half, path=path, adaptive=True)
    alone = jobs.trained(adaptive=True)
    for run, size in ((two, 2), (four, 4)):
        for weights, receipt, steps in run("resumed", path=path, adaptive=True):
            assert steps == jobs.STEPS
            assert receipt["world_size"] == size
            assert float((weights - alone[0]).abs().max()) <= TOLERANCE
    noisy = {"noise_multiplier": 1.0}
    four("saved", steps=half, path=path, **noisy)
    for weights, receipt, steps in two("resumed", path=path, **noisy):
        assert steps == jobs.STEPS
        assert receipt["fresh_resumes"] == 1
        assert bool(weights.isfinite().all())


@pytest.mark.long("real runs")
def test_a_rank_that_dies_in_a_step_ends_the_others_without_half_a_step(tmp_path):
    with ranks(2, tmp_path, patience_s=5) as run:
        (error, steps, is_unchanged), dead = run("killed", at_step=2)
    assert dead is None
    assert error
    assert steps == 2
    assert is_unchanged


@pytest.mark.long("long statistics")
def test_canaries_go_through_the_sum_of_all_ranks(two):
    (first, promised), second = two("audited", canaries=1000)
    assert (first, promised) == second
    assert 0.2 * promised < first < promised
    (wrong, _), _ = two("audited", canaries=1000, bug="skipped sum")
    assert wrong < first


def test_a_group_must_be_one(two):
    with pytest.raises(ConfigError, match="is not initialized"):
        PrivacyEngine(nn.Linear(2, 1), **jobs.PLAN, group=None)
    for error in two("without_a_group"):
        assert isinstance(error, PrivacyWarning)
        assert "trains without the others" in str(error)
    for error in two("not_a_group"):
        assert isinstance(error, ConfigError)
        assert "must be a group of torch.distributed" in str(error)
    for error in two("wrapped_alone"):
        assert isinstance(error, UnsupportedModuleError)
        assert "group=dist.group.WORLD" in str(error)


def test_an_engine_whose_group_has_ended_makes_no_step(two):
    for error, steps in two("group_ended"):
        assert "the process group of this engine (2 processes) has ended" in (
            str(error)
        )
        assert steps == 1


def test_tensors_where_the_groups_backend_takes_none_are_refused(two):
    for error in two("elsewhere"):
        assert isinstance(error, ConfigError)
        assert "group must support tensors on meta, the device of weight" in str(error)


def test_a_model_on_the_cpu_is_refused_by_a_group_for_gpus():
    """Of no real backend, so that it needs no GPU; its devices are those of NCCL."""
    dist.init_process_group("cuda:fake", store=FakeStore(), rank=0, world_size=2)
    try:
        with pytest.raises(ConfigError, match=r"supports only cuda\. Move") as refused:
            require_equal_replicas(nn.Linear(2, 1), Ranks.of(dist.group.WORLD))
    finally:
        dist.destroy_process_group()
    assert refused.value.field == "group"


def test_detaching_gives_the_wrapper_its_averaging_back(tmp_path):
    dist.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1
    )
    try:
        model = DistributedDataParallel(nn.Linear(4, jobs.CLASSES))
        engine = PrivacyEngine(model, **jobs.PLAN, group=dist.group.WORLD)
        engine.attach(torch.optim.SGD(model.parameters(), lr=0.1))
        assert not model.require_backward_grad_sync
        engine.detach()
        assert model.require_backward_grad_sync
    finally:
        dist.destroy_process_group()
