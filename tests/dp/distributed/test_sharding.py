"""One model sharded over the ranks by `fully_shard`: the result of one process."""

import math

import pytest
import torch
from torch import nn

from dpsgd_explorer.dp.distributed.ranks import ALONE
from dpsgd_explorer.dp.distributed.sharding import check_sharding
from dpsgd_explorer.errors import PrivacyError, UnsupportedModuleError
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

NETS = ("ids", "branches", "checkpointed", "conv")
#: Settings of every net and clipping; other engines do not take shards.
WAYS = {
    name: options
    for name, options in (SETTINGS | MORE_SETTINGS).items()
    if "engine" not in options
} | {name: {"net": name, "physical_batch_size": 2} for name in NETS}
SPREAD = {
    "FSDP1": "FullyShardedDataParallel.* Use torch.distributed.fsdp.fully_shard",
    "tensor parallelism": "0.weight is split over processes by tensor parallelism",
    "a part": "1.weight is not sharded, but other parameters are",
    "columns": "0.weight is spread as S.1. over .* must be split by rows",
    "replicas": "0.weight is spread as .* must be split by rows over the engine",
}


def test_shards_train_as_one_process_does(two):
    options = {"net": "checkpointed", "physical_batch_size": 3, "evaluates": True}
    assert distance(two, options, sharded=True) <= TOLERANCE


@pytest.mark.parametrize("reshard", [False, True])
def test_parameters_may_stay_whole_between_forward_and_backward(two, reshard):
    """As in ZeRO-2, which shards gradients and states alone, and as in ZeRO-3."""
    options = {"net": "branches", "physical_batch_size": 3}
    assert distance(two, options, sharded=True, reshard=reshard) <= TOLERANCE


@pytest.mark.long("every combination")
@pytest.mark.parametrize("name", WAYS)
def test_two_shards_train_as_one_process_does_in_every_way(two, name):
    assert distance(two, WAYS[name], sharded=True) <= TOLERANCE


@pytest.mark.long("every combination")
@pytest.mark.parametrize("name", WAYS)
def test_four_shards_train_as_one_process_does(four, name):
    assert distance(four, WAYS[name], sharded=True) <= TOLERANCE


@pytest.mark.long("every combination")
def test_one_shard_trains_as_one_process_does(tmp_path):
    with ranks(1, tmp_path) as run:
        assert distance(run, {"net": "ids"}, sharded=True) <= TOLERANCE


@pytest.mark.parametrize("bug", ["divided by W", "skipped sum"])
def test_bugs_in_the_sum_of_shards_are_seen(two, bug):
    alone, *_ = jobs.trained()
    weights, *_ = two("trained", bug=bug, sharded=True)[0]
    assert float((weights - alone).abs().max()) > 100 * TOLERANCE


def test_each_shard_gets_its_own_noise_once(two):
    size = 2001
    first, second = two("noise", size=size, steps=10, seed=None, sharded=True)
    assert torch.equal(first, second)
    assert abs(excess_variance(first)) < MOST
    half = math.ceil(size / 2)
    assert abs(correlation(first[:, : half - 1], first[:, half:])) < MOST
    assert abs(correlation(first[1:], first[:-1])) < MOST


def test_the_same_noise_on_every_shard_is_seen(two):
    options = {"size": 2001, "steps": 10, "noise": "seeded", "seed": 5}
    releases, _ = two("noise", bug="same seed", sharded=True, **options)
    half = math.ceil(2001 / 2)
    assert correlation(releases[:, : half - 1], releases[:, half:]) > MOST


def test_noise_on_each_shard_before_the_sum_gives_no_receipt(two):
    bug = "noise before the scatter"
    for error in two("noise", size=2001, steps=10, bug=bug, sharded=True):
        assert isinstance(error, PrivacyError)
        assert "noise" in str(error)


def test_a_record_with_an_infinite_gradient_is_left_out_of_all_shards(two):
    options = {"batch_size": jobs.RECORDS, "sharded": True}
    first, second = two("one_sample_is_infinite", **options)
    alone = jobs.one_sample_is_infinite(batch_size=jobs.RECORDS)
    assert torch.equal(first, second)
    assert float((first - alone).abs().max()) <= TOLERANCE


@pytest.mark.parametrize("how", SPREAD)
@pytest.mark.filterwarnings("ignore")
def test_other_ways_to_spread_a_model_are_refused(two, how):
    for error in two("spread", how=how):
        assert isinstance(error, UnsupportedModuleError)
        with pytest.raises(UnsupportedModuleError, match=SPREAD[how]):
            raise error


@pytest.mark.parametrize("net", ["LSTM", "attention", "bag"])
def test_layers_whose_rule_reads_parameters_are_refused_by_name(two, net):
    for error in two("made", net=net, sharded=True):
        assert isinstance(error, UnsupportedModuleError)
        assert "cannot be sharded: its per-sample gradients need" in str(error)


def test_a_row_that_adds_up_wrongly_is_refused_on_every_rank(two):
    """Only one of them stores it; the others would wait for that one."""
    for error in two("trained", net="touched", sharded=True):
        assert isinstance(error, UnsupportedModuleError)
        assert "head.weight do not add up to autograd's" in str(error)


@pytest.mark.parametrize("engine", ["extending", "vmap", "microbatch"])
def test_other_engines_take_no_shards(two, engine):
    for error in two("made", engine=engine, sharded=True):
        assert isinstance(error, UnsupportedModuleError)
        assert f"engine={engine!r} needs them at other times" in str(error)


def test_deepspeed_is_refused_by_name():
    kind = type("DeepSpeedEngine", (nn.Sequential,), {"__module__": "deepspeed.engine"})
    with pytest.raises(
        UnsupportedModuleError, match="DeepSpeed, which adds up gradients"
    ):
        check_sharding(kind(nn.Linear(2, 2)), ALONE, "hooks")


@pytest.mark.long("real runs")
def test_a_sharded_run_goes_on_with_another_number_of_ranks(two, four, tmp_path):
    path = tmp_path / "state.pt"
    four("saved", steps=jobs.STEPS // 2, path=path, sharded=True)
    alone, *_ = jobs.trained()
    for run, sharded in ((two, True), (four, True), (two, False)):
        for weights, receipt, steps in run("resumed", path=path, sharded=sharded):
            assert steps == jobs.STEPS
            assert receipt["world_size"] > 1
            assert float((weights - alone).abs().max()) <= TOLERANCE


@pytest.mark.long("real runs")
def test_a_shard_that_dies_in_a_step_ends_the_others_without_half_a_step(tmp_path):
    with ranks(2, tmp_path, patience_s=5) as run:
        (error, steps, is_unchanged), dead = run("killed", at_step=2, sharded=True)
    assert dead is None
    assert error
    assert steps == 2
    assert is_unchanged


@pytest.mark.long("long statistics")
def test_canaries_go_through_the_sum_beside_shards(two):
    options = {"canaries": 1000, "seed": 5}
    sharded, other = two("audited", sharded=True, **options)
    assert sharded == other == two("audited", **options)[0]


@pytest.mark.long("every example")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_transformer_trains_as_one_process_does(two):
    alone = jobs.transformer()
    for weights in two("transformer"):
        assert float((weights - alone).abs().max()) <= TOLERANCE
