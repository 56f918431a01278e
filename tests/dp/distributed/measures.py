"""How far ranks are from one process, and noise from its law."""

import math

import torch

from tests.dp.distributed import jobs

TOLERANCE = 1e-6
SETTINGS = {
    "hooks": {},
    "parts": {"physical_batch_size": 3},
    "adaptive": {"adaptive": True},
    "random allocation": {"sampling": "random_allocation"},
    "fewer records than ranks": {"records": 3, "batch_size": 1, "net": "linear"},
}
#: Twelve users with 2 to 4 of the 40 records.
USERS = {
    "sample_size": None,
    "user_ids": [i * i % 23 for i in range(jobs.RECORDS)],
    "batch_size": 5,
}
SETTINGS["users"] = USERS | {"records_per_user": 2, "physical_batch_size": 4}
MORE_SETTINGS = {
    "users, microbatch": USERS | {"engine": "microbatch"},
    "users, one part": USERS | {"engine": "extending"},
    "extending": {"engine": "extending"},
    "microbatch": {"engine": "microbatch"},
    "automatic": {"clipping_fn": "automatic"},
    "global": {"clipping_fn": "global", "clipping_threshold": 2.0},
    "layer-wise": {"clipping_style": "layer-wise"},
    "param-wise": {"clipping_style": "param-wise"},
    "tied": {"net": "tied"},
    "bias alone": {"net": "bias"},
    "every record": {"batch_size": jobs.RECORDS},
    "one record": {"records": 1, "batch_size": 1},
}
#: Standard errors; exceeded once in 2 million times.
MOST = 5.2


def distance(run, options, **spread):
    """Return how far the ranks' weights are from those of one process.

    The ranks themselves agree to the last bit, in weights, receipt and epsilon.
    """
    alone, receipt, epsilon = jobs.trained(**options)
    found = run("trained", **spread, **options)
    weights, first, _ = found[0]
    for own_weights, own_receipt, own_epsilon in found:
        assert torch.equal(own_weights, weights)
        assert own_receipt == first
        assert own_epsilon == epsilon
    assert first["world_size"] == len(found)
    for name in ("told", "not_private"):
        assert first[name] == receipt[name]
    return float((weights - alone).abs().max())


def excess_variance(releases):
    """Return the variance minus (σ C)^2 = 36, in standard errors."""
    variance = float(releases.square().mean())
    return (variance / 36 - 1) / math.sqrt(2 / releases.numel())


def correlation(first, second):
    """Return the correlation of independent normal numbers in standard errors."""
    joined = torch.stack([first.flatten(), second.flatten()])
    return float(torch.corrcoef(joined)[0, 1]) * math.sqrt(first.numel())
